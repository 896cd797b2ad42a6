"""Who is asked about a turn: the judge, and where that one gives no verdict, its fallback.

A fallback of another model is asked only about turns that the judge refuses, filters or answers unreadably: were it to
take over for hours, a trend would change with the judge and not with the app. One of the same model elsewhere takes
over as well while the judge cannot be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Self

from monitor.errors import Retryable
from monitor.judging.dialogue import Answer, converse, joined
from monitor.judging.endpoint.pacing import PacedJudge
from monitor.model.judgements import Finding, JudgeVersion, Reason, Spend
from monitor.model.turns import Turn
from monitor.ports import Judge, Metric

FALLBACK_JUDGE = "fallback_judge"
"""Flag: the verdict is the fallback's."""

_UNSETTLED = frozenset({Reason.REFUSED, Reason.CONTENT_FILTER, Reason.UNREADABLE, Reason.TRUNCATED, Reason.REJECTED})


class Judges:
    """One or two judges, as one. Entered, it holds their connections."""

    def __init__(self, judge: PacedJudge, fallback: PacedJudge | None = None) -> None:
        self._judge = judge
        self._fallback = fallback
        self._stand_in = fallback if fallback and fallback.model == judge.model else None
        self._stack = AsyncExitStack()

    @property
    def name(self) -> str:
        """The judges' names; part of every rubric id."""
        if self._fallback is None or self._stand_in:
            return self._judge.name
        return f"{self._judge.name}, else {self._fallback.name}"

    @property
    def resting(self) -> timedelta:
        """How long nobody should be asked; zero when a judge is free, or when one call may try whether it works."""
        return min(judge.resting for judge in self._takers())

    @property
    def troubled(self) -> bool:
        """Whether no judge is known to work, so that more than one call at a time would be wasted."""
        return all(judge.trouble for judge in self._takers())

    @property
    def pauses(self) -> int:
        """How often the endpoints asked for a pause."""
        return self._judge.pauses + (self._fallback.pauses if self._fallback else 0)

    @property
    def estimates(self) -> int:
        """Of how many replies `spent` is an estimate."""
        return self._judge.estimates + (self._fallback.estimates if self._fallback else 0)

    @property
    def spent(self) -> Spend:
        """What all replies together cost."""
        return self._judge.spent + (self._fallback.spent if self._fallback else Spend())

    @property
    def versions(self) -> tuple[JudgeVersion, ...]:
        """Which models gave the judge's replies, in the order in which each was first met; not the fallback's."""
        return self._judge.versions

    def health(self) -> Mapping[str, str]:
        """Return what is wrong with the endpoints, free of user text and secrets; empty when all is well."""
        named = {"judge": self._judge, "fallback": self._fallback}
        troubles: dict[str, str] = {}
        for part, judge in named.items():
            if judge and judge.trouble:
                troubles[part] = f"{judge.trouble}; asked again in {judge.resting.total_seconds():.0f} s"
        return troubles

    async def __aenter__(self) -> Self:
        """Enter the judges."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._judge)
            if self._fallback:
                await stack.enter_async_context(self._fallback)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the judges."""
        await self._stack.aclose()

    async def judge(
        self, metrics: Sequence[Metric], turn: Turn, *, around: Callable[[Judge], Judge] = lambda judge: judge
    ) -> tuple[Answer, ...]:
        """Return for each of the metrics, which are of one `call`, the finding on `turn`, or why no judge gives one.

        Whoever is asked is asked through what `around` makes of it.

        Raises:
            Retryable: no judge could answer now; `RateLimited`, `Paused` and `Unusable` are not this turn's fault.
        """
        try:
            first = await converse(metrics, turn, around(self._judge))
        except Retryable:
            if self._stand_in is None or self._stand_in.resting:
                raise
            return await converse(metrics, turn, around(self._stand_in))
        unsettled = [metric for metric, answer in zip(metrics, first, strict=True) if answer.result in _UNSETTLED]
        if self._fallback is None or not unsettled:
            return first
        try:
            second = await converse(unsettled, turn, around(self._fallback))
        except Retryable:
            # The judge's own outcome stands: a turn must not wait for an endpoint that is only there to help.
            return first
        second_of = {metric.rubric: answer for metric, answer in zip(unsettled, second, strict=True)}
        return tuple(
            _better(answer, second_of[metric.rubric]) if metric.rubric in second_of else answer
            for metric, answer in zip(metrics, first, strict=True)
        )

    def _takers(self) -> tuple[PacedJudge, ...]:
        return (self._judge, self._stand_in) if self._stand_in else (self._judge,)


def _better(first: Answer, second: Answer) -> Answer:
    """Return the fallback's finding, flagged, or else the judge's own reason; each at the cost of both."""
    if not isinstance(second.result, Finding):
        return joined(first, first, second)
    finding = replace(second.result, flags=second.result.flags | {FALLBACK_JUDGE})
    return joined(replace(second, result=finding), first, second)
