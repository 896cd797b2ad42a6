"""All stages bound to the parts they work with, wired once: the clock calls them in `run`; `replay` and `demo` at once.

Each takes `now` and returns how many rows it wrote. Stages are synchronous, so they run in threads and the loop serves
collectors meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from monitor.ports import Channel, Clock, GoOn, Publisher, to_the_end
from monitor.runtime.build import Parts
from monitor.runtime.rewriting import rewrite_when_due
from monitor.settings.tree import ScoreSettings
from monitor.stages import alert, assemble, detect, publish, rollup, sample
from monitor.stages.score import Scorer

_PRUNED_AT_ONCE = 1000
"""Rows of a kind per transaction: other writers get their turn in between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The stages of one process."""

    parts: Parts
    channels: Mapping[str, Channel] = field(default_factory=dict)
    """Where alerts are sent, by name."""
    channel_digests: Mapping[str, str] = field(default_factory=dict)
    """What stands for each channel's settings, by its name."""
    publisher: Publisher | None = None
    """None when there is no Grafana."""
    pace: rollup.Pace | None = None
    """How often a window is recomputed; None for whenever it changed."""
    detect_round: detect.Round | None = None
    """Which series is looked at next; None for all of them each time."""
    tick_limit: Callable[[], GoOn] = lambda: to_the_end
    """Returns what tells a tick that begins whether to go on."""

    async def assemble(self, now: datetime) -> int:
        """Turn traces that are due into turns."""
        parts = self.parts
        return await asyncio.to_thread(
            assemble.tick,
            parts.store,
            parts.settings.assemble,
            now=now,
            decode=parts.decode,
            rules=parts.rules,
            worker=parts.worker,
            go_on=self.tick_limit(),
        )

    async def sample(self, now: datetime) -> int:
        """Decide which turns are judged."""
        parts = self.parts
        return await asyncio.to_thread(
            sample.tick,
            parts.store,
            parts.settings.sample,
            rubrics=parts.rubrics,
            proxy=parts.proxy,
            now=now,
            worker=parts.worker,
            go_on=self.tick_limit(),
        )

    async def rollup(self, _now: datetime) -> int:
        """Recompute the windows that changed."""
        parts = self.parts
        return await asyncio.to_thread(
            rollup.tick,
            parts.store,
            parts.settings.rollup,
            rubrics=parts.rubrics,
            pace=self.pace,
            go_on=self.tick_limit(),
        )

    async def detect(self, now: datetime) -> int:
        """Look for regressions in the windows that are closed."""
        settings = self.parts.settings
        return await asyncio.to_thread(
            detect.tick,
            self.parts.store,
            settings.detect,
            lateness=settings.rollup.lateness,
            now=now,
            go_on=self.tick_limit(),
            of_round=self.detect_round,
        )

    async def alert(self, now: datetime) -> int:
        """Move alerts on and send what people must hear."""
        store, settings = self.parts.store, self.parts.settings.alert
        horizon = self.parts.settings.detect.horizon
        channels = tuple(self.channels)
        go_on = self.tick_limit()
        moved = await asyncio.to_thread(
            alert.tick, store, settings, channels=channels, horizon=horizon, now=now, go_on=go_on
        )
        sent = await alert.deliver(store, self.channels, settings, digests=self.channel_digests, now=now, go_on=go_on)
        return moved + len(sent)

    async def publish(self, _now: datetime) -> int:
        """Bring dashboards and annotations to Grafana, where there is one."""
        if self.publisher is None:
            return 0
        return await publish.tick(self.parts.store, self.publisher, go_on=self.tick_limit())

    async def prune(self, now: datetime) -> int:
        """Delete what is older than the settings keep; what is left after a while waits for the next tick."""
        kept, store = self.parts.settings.retention, self.parts.store
        go_on = self.tick_limit()
        prune = partial(
            store.kept_text.prune, text_before=now - kept.text, fragments_before=now - kept.spans, limit=_PRUNED_AT_ONCE
        )
        touched = 0
        while rows := await asyncio.to_thread(prune):
            touched += rows
            if not go_on():
                return touched
        if kept.rewrite_every is not None:
            await asyncio.to_thread(rewrite_when_due, store, every=kept.rewrite_every)
        return touched

    def scorer(self, settings: ScoreSettings, *, clock: Clock) -> Scorer:
        """Return the worker that judges what is sampled; `settings` are the parts', or a copy with other limits."""
        parts, judge = self.parts, self.parts.settings.judge
        return Scorer(
            parts.store,
            parts.metrics,
            judge=parts.judge,
            settings=settings,
            judge_timeout=max(judge.timeout, judge.fallback.timeout) if judge.fallback else judge.timeout,
            clock=clock,
            worker=parts.worker,
            budget=judge.budget,
            second_opinions=judge.second_opinions,
        )
