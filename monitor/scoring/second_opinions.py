"""Does the judge agree with itself? Some turns are judged twice at once, and old ones again when its version changes.

Second opinions enter no rate: the first verdict stands. They cost like any call, and stop with the budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Protocol

from monitor.errors import StoreUnavailable, place
from monitor.judging.concurrently import concurrently
from monitor.judging.dialogue import Answer
from monitor.judging.judges import Judges
from monitor.model.judgements import Finding, Job, JudgeChange, JudgeVersion, SecondOpinion, SecondOpinionKind, Verdict
from monitor.model.turns import Turn
from monitor.ports import Clock, Metric
from monitor.scoring.outcomes import pause
from monitor.scoring.suspects import Suspects
from monitor.settings.tree import SecondOpinionSettings
from monitor.statistics.draw import unit
from monitor.stores import JobStore, LeaseStore, SecondOpinionStore
from monitor.telemetry import Gauge

_SALT = "second opinion"
_LOOKED_AT = 10
"""Verdicts that are looked at for each anchor, to choose from all scores alike."""
_AT_ONCE = 4
_WATCH_EVERY = timedelta(seconds=5)
_NEWS = timedelta(days=1)
"""How long after a change a process still judges anchors that are left of it."""
_MOST_A_DAY = 4
"""Changes whose anchors are judged; some gateways give every reply a fingerprint of its own."""
_ANCHORS_ARE_OURS = timedelta(minutes=5)

logger = logging.getLogger(__name__)


class NeededStore(JobStore, SecondOpinionStore, LeaseStore, Protocol):
    """What second opinions need of the store."""


class SecondOpinions:
    """Asks for second opinions."""

    def __init__(
        self,
        store: NeededStore,
        judges: Judges,
        metrics: Mapping[str, Metric],
        *,
        settings: SecondOpinionSettings,
        clock: Clock,
        allowed: Callable[[], bool],
        suspects: Suspects,
        worker: str,
    ) -> None:
        """Prepare.

        Args:
            store: where opinions are kept.
            judges: entered.
            metrics: those that ask a judge, by rubric id.
            settings: how much is asked again.
            clock: tells the time.
            allowed: whether anything may be spent on it now.
            suspects: where anchors are judged: what ends the process would be chosen again by the next one.
            worker: names this process and run of it.
        """
        self._store = store
        self._judges = judges
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._allowed = allowed
        self._suspects = suspects
        self._worker = worker
        self._met: set[JudgeVersion] = set()
        self.changes = 0
        """How often a version answered that none of us had met before."""

    def counters(self) -> tuple[Gauge, ...]:
        """Return the number of changes."""
        return (Gauge(name="judge_changes_total", value=self.changes),)

    async def repeat(self, verdicts: Sequence[Verdict], turn: Turn) -> None:
        """Ask once more about a share of the turns, chosen by their ids; never raises.

        `verdicts` are those of one call on `turn`.
        """
        drawn = unit(turn.turn_id, _SALT) < self._settings.share
        if not verdicts or not drawn or not self._allowed():
            return
        try:
            metrics = self._metrics_of(verdicts)
            await self._record(verdicts, await self._judges.judge(metrics, turn), SecondOpinionKind.REPEAT)
        except Exception as error:  # noqa: BLE001 -- the first verdict stands, whatever became of the second
            logger.info("no second opinion: %s", place(error))

    async def watch(self, stop: asyncio.Event) -> None:
        """Look now and then, until `stop` is set; what that began is then left."""
        while not stop.is_set():
            stopping = asyncio.create_task(stop.wait())
            looking = asyncio.create_task(self.look())
            try:
                await asyncio.wait({stopping, looking}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopping.cancel()
                looking.cancel()
                _, failure = await asyncio.gather(stopping, looking, return_exceptions=True)
            if isinstance(failure, StoreUnavailable):
                logger.warning("looking at the judge waits for the database: %s", failure)
            elif isinstance(failure, Exception):
                logger.error("looking at the judge: %s", place(failure))
            await pause(stop, _WATCH_EVERY)

    async def look(self) -> None:
        """If a version answers that is new, judge old verdicts again; what another process left of it, too.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        for version in self._judges.versions:
            if version not in self._met:
                await self._meet(version)

    async def _meet(self, version: JudgeVersion) -> None:
        now = self._clock()
        before = await asyncio.to_thread(self._store.meet, version, now=now)
        if before is not None:
            self.changes += 1
            logger.warning(
                "the judge %s answers as %s (%s), before as %s (%s)",
                *(version.judge, version.model, version.fingerprint, before.model, before.fingerprint),
            )
        changes = await asyncio.to_thread(self._store.changes, since=now - _NEWS)
        of_judge = [change for change in changes if change.version.judge == version.judge]
        change = next((change for change in of_judge[:_MOST_A_DAY] if change.version == version), None)
        if change is None:
            self._met.add(version)
        elif self._allowed() and await self._take_lease():
            await concurrently((self._anchor(of_turn) for of_turn in await self._anchors(change)), at_once=_AT_ONCE)
            self._met.add(version)

    async def _take_lease(self) -> bool:
        """Return whether it is for this process to judge anchors: one process does, another when that one is gone."""
        return await asyncio.to_thread(self._store.take_lease, "anchors", self._worker, ttl=_ANCHORS_ARE_OURS)

    async def _anchors(self, change: JudgeChange) -> list[list[Verdict]]:
        """Return old verdicts not judged again yet, evenly over their scores, together where one call judges them."""
        recorded = await asyncio.to_thread(self._store.second_opinions, since=change.at, kind=SecondOpinionKind.ANCHOR)
        done = {(o.job.turn_id, o.job.rubric_id) for o in recorded if _is_by(o, change.version)}
        chosen: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
        for rubric_id, metric in self._metrics.items():
            missing = self._settings.anchors - sum(rubric_id == of for _, of in done)
            candidates = await asyncio.to_thread(
                self._store.anchors, (rubric_id,), before=change.before, limit=self._settings.anchors * _LOOKED_AT
            )
            fresh = [verdict for verdict in candidates if (verdict.job.turn_id, rubric_id) not in done]
            for verdict in stratified(fresh, max(missing, 0)):
                chosen[verdict.job.turn_id, metric.call].append(verdict)
        return list(chosen.values())

    async def _anchor(self, verdicts: Sequence[Verdict]) -> None:
        read = partial(asyncio.to_thread, self._store.judging_inputs, [verdict.job for verdict in verdicts])
        inputs = await self._suspects.alone([verdict.job for verdict in verdicts], read)
        turn = None if inputs is None else inputs[0].get(verdicts[0].job.turn_id)
        current = [v for v in verdicts if turn and v.job.content_hash == turn.content_hash()]
        if turn is None or not current or not self._allowed() or not await self._take_lease():
            return
        try:
            jobs = [verdict.job for verdict in current]
            answers = await self._suspects.judged(jobs, self._judges, self._metrics_of(current), turn)
            await self._record(current, answers or (), SecondOpinionKind.ANCHOR)
        except Exception as error:  # noqa: BLE001 -- the others are judged all the same
            logger.info("an anchor was not judged again: %s", place(error))

    def _metrics_of(self, verdicts: Sequence[Verdict]) -> list[Metric]:
        return [self._metrics[verdict.job.rubric_id] for verdict in verdicts]

    async def _record(self, verdicts: Sequence[Verdict], answers: Sequence[Answer], kind: SecondOpinionKind) -> None:
        """Keep what was answered, one answer a verdict or none at all."""
        opinions = [
            _opinion(verdict, answer, answer.result, kind, self._clock)
            for verdict, answer in zip(verdicts, answers, strict=bool(answers))
            if isinstance(answer.result, Finding)
        ]
        await asyncio.to_thread(self._store.record_second_opinions, opinions)


def stratified(verdicts: Sequence[Verdict], limit: int) -> tuple[Verdict, ...]:
    """Return up to `limit` verdicts, as many of each score as there are, the newest of each first."""
    by_score: dict[tuple[float | None, str | None], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_score[verdict.finding.score, verdict.finding.label].append(verdict)
    chosen: list[Verdict] = []
    for rank in range(max(map(len, by_score.values()), default=0)):
        chosen += [of_score[rank] for of_score in by_score.values() if rank < len(of_score)]
    return tuple(chosen[:limit])


def _is_by(opinion: SecondOpinion, version: JudgeVersion) -> bool:
    return (opinion.version.model, opinion.version.fingerprint) == (version.model, version.fingerprint)


def _opinion(
    verdict: Verdict, answer: Answer, finding: Finding, kind: SecondOpinionKind, clock: Clock
) -> SecondOpinion:
    exchange = answer.exchange
    return SecondOpinion(
        job=Job(
            turn_id=verdict.job.turn_id,
            content_hash=verdict.job.content_hash,
            metric=verdict.job.metric,
            rubric_id=verdict.job.rubric_id,
            probability=verdict.job.probability,
        ),
        kind=kind,
        version=JudgeVersion(judge="", model=exchange.judge_model, fingerprint=exchange.fingerprint or ""),
        score=finding.score,
        defect=finding.defect,
        first_score=verdict.finding.score,
        first_defect=verdict.finding.defect,
        judged_at=clock(),
    )
