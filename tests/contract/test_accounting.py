"""Whatever is written, in whatever order and how often: every turn is accounted for, and windows add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.model.judgements import Exchange, Finding, Reason, Unscored, Verdict
from monitor.model.trends import Sums
from monitor.model.turns import Turn
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

HOUR = timedelta(hours=1)
RUBRICS = {"groundedness": "g1", "toxicity": "t1"}
PROBABILITIES = (1.0, 0.5, 0.125)
ANSWERS = ("It costs 5 €.", None)
PLACES = 2

places = st.integers(0, PLACES - 1)
metrics = st.sampled_from(sorted(RUBRICS))
Step: TypeAlias = "Assemble | Sample | Finish | RollUp"

findings = st.builds(
    Finding,
    score=st.one_of(st.none(), st.integers(1, 5).map(float)),
    defect=st.booleans(),
)


@dataclass(frozen=True)
class Assemble:
    """The turn at a place comes to say something, in an hour, on a release."""

    place: int
    answer: str | None
    hour: int
    release: str


@dataclass(frozen=True)
class Sample:
    """It is decided about the turn at a place, perhaps about what it said before it changed."""

    place: int
    stale: bool
    probabilities: dict[str, float]
    unmet: frozenset[str]
    proxy: float | None


@dataclass(frozen=True)
class Finish:
    """The turn at a place, perhaps what it said before it changed, is judged, or is not for a reason."""

    place: int
    stale: bool
    metric: str
    probability: float
    result: Finding | Reason


@dataclass(frozen=True)
class RollUp:
    """Windows that changed are recomputed."""


stale = st.sampled_from([False, False, False, True])
assemblies = st.builds(
    Assemble,
    place=places,
    answer=st.sampled_from(ANSWERS),
    hour=st.integers(0, 1),
    release=st.sampled_from(["1", "2"]),
)
samples = st.builds(
    Sample,
    place=places,
    stale=stale,
    probabilities=st.dictionaries(metrics, st.sampled_from(PROBABILITIES)),
    unmet=st.frozensets(metrics, max_size=1),
    proxy=st.one_of(st.none(), st.sampled_from([0.0, 0.25, 1.0])),
)
finishes = st.builds(
    Finish,
    place=places,
    stale=stale,
    metric=metrics,
    probability=st.sampled_from(PROBABILITIES),
    result=st.one_of(findings, st.sampled_from([Reason.TIMEOUT, Reason.NO_CLAIMS])),
)
steps = st.one_of(assemblies, samples, finishes, st.builds(RollUp))
histories = st.lists(st.tuples(steps, st.integers(1, 2)), min_size=10, max_size=30)


@dataclass
class Known:
    """What should be known of one turn."""

    turn: Turn
    decided: bool = False
    proxy: float | None = None
    waiting: dict[str, float] = field(default_factory=dict)
    judged: dict[str, tuple[float, Finding | Reason, bool]] = field(default_factory=dict)


class Ledger:
    """What the store should say, kept in plain Python."""

    def __init__(self) -> None:
        self.turns: dict[int, Known] = {}

    def assemble(self, step: Assemble, turn: Turn) -> None:
        """Another content starts anew."""
        known = self.turns.get(step.place)
        if known is None or known.turn.content_hash() != turn.content_hash():
            self.turns[step.place] = Known(turn)
        else:
            known.turn = turn

    def sample(self, step: Sample) -> None:
        """The first decision counts."""
        known = self.turns.get(step.place)
        if known is None or known.decided or step.stale:
            return
        known.decided, known.proxy = True, step.proxy
        known.waiting = {m: p for m, p in step.probabilities.items() if m not in step.unmet}
        known.judged = dict.fromkeys(step.unmet, (1.0, Reason.NO_GROUND_TRUTH, False))

    def finish(self, step: Finish) -> None:
        """The first outcome counts, or the first verdict."""
        known = self.turns.get(step.place)
        if known is None or not known.decided or step.stale:
            return
        known.waiting.pop(step.metric, None)
        before = known.judged.get(step.metric)
        if before is None or (isinstance(before[1], Reason) and isinstance(step.result, Finding)):
            known.judged[step.metric] = (step.probability, step.result, True)

    def sums(self, known: Known, metric: str) -> Sums:
        """One turn's part of its window's sums."""
        f = known.proxy
        proxied = Sums(turns=1) if f is None else Sums(turns=1, proxied=1, f=f, f2=f * f)
        if metric in known.waiting:
            return proxied + Sums(sampled=1, pending=1)
        if metric not in known.judged:
            return proxied
        probability, result, sampled = known.judged[metric]
        if isinstance(result, Reason):
            return proxied + Sums(sampled=int(sampled), input_tokens=7 * sampled)
        w, x, s = 1 / probability, float(result.defect), result.score or 0.0
        f = f or 0.0
        return proxied + Sums(
            sampled=1,
            n=1,
            k=int(result.defect),
            sw=w,
            sw2=w * w,
            swx=w * x,
            sw2x=w * w * x,
            sws=w * s,
            sws2=w * s * s,
            swf=w * f,
            swf2=w * f * f,
            swxf=w * x * f,
            sw2f=w * w * f,
            sw2f2=w * w * f * f,
            sw2xf=w * w * x * f,
            input_tokens=7,
        )


class History:
    """Runs steps against the store and the ledger, on turns and an app of its own."""

    def __init__(self, store: Store, make: Make) -> None:
        self._store, self._make = store, make
        self.app, self.ledger = make.trace_id(), Ledger()
        self._traces = [make.trace_id() for _ in range(PLACES)]

    def run(self, step: Step) -> None:
        """Take one step in both."""
        match step:
            case Assemble():
                self._assemble(step)
            case Sample():
                self._sample(step)
            case Finish():
                self._finish(step)
            case RollUp():
                self.roll_up()

    def roll_up(self) -> None:
        """Recompute all windows that changed."""
        rubrics = [replace(self._make.rubric, metric=metric, rubric_id=rubric) for metric, rubric in RUBRICS.items()]
        self._store.roll_up(self._store.changed_windows(1000), rubrics=rubrics, length=HOUR)

    def _assemble(self, step: Assemble) -> None:
        at, trace_id = self._make.now + step.hour * HOUR, self._traces[step.place]
        turn = self._make.turn(trace_id, app=self.app, release=step.release, started_at=at)
        turn = replace(turn, response=step.answer)
        self._make.assembled(self._store, turn)
        self.ledger.assemble(step, turn)

    def _sample(self, step: Sample) -> None:
        turn = self._turn(step)
        jobs = [self._make.job(turn, m, RUBRICS[m], p) for m, p in step.probabilities.items()]
        unmet = tuple(self._make.job(turn, m, RUBRICS[m], 1.0) for m in step.unmet)
        self._store.record_samplings([self._make.sampling(turn, *jobs, unmet=unmet, proxy=step.proxy)])
        self.ledger.sample(step)

    def _finish(self, step: Finish) -> None:
        job = self._make.job(self._turn(step), step.metric, RUBRICS[step.metric], step.probability)
        spent, at = Exchange(input_tokens=7), self._make.now
        if isinstance(step.result, Finding):
            self._store.finish([Verdict(job=job, finding=step.result, exchange=spent, judged_at=at)])
        else:
            self._store.finish([Unscored(job=job, reason=step.result, exchange=spent, judged_at=at)])
        self.ledger.finish(step)

    def _turn(self, step: Sample | Finish) -> Turn:
        known = self.ledger.turns.get(step.place)
        turn = known.turn if known else self._make.turn(self._traces[step.place], app=self.app)
        return replace(turn, response="What it never said.") if step.stale else turn


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=histories)
def test_histories(store: Store, make: Make, steps: list[tuple[Step, int]]) -> None:
    """After any history each turn has one job or one outcome per metric, and every window adds up to its turns."""
    history = History(store, make)
    for step, times in [(Assemble(0, ANSWERS[0], 0, "1"), 1), *steps]:
        for _ in range(times):
            history.run(step)
    history.roll_up()
    ledger = history.ledger
    expected_sums: dict[tuple[object, ...], Sums] = {}
    expected_unscored: Counter[tuple[object, ...]] = Counter()
    expected_bins: Counter[tuple[object, ...]] = Counter()
    for known in ledger.turns.values():
        sampling, outcomes = store.sampling(known.turn.turn_id), store.outcomes(known.turn.turn_id)
        assert known.decided == (sampling is not None)
        open_jobs = {} if sampling is None else {job.metric: job.probability for job in sampling.jobs}
        assert known.waiting == open_jobs
        assert {metric: result for metric, (_, result, _) in known.judged.items()} == {
            o.job.metric: o.finding if isinstance(o, Verdict) else o.reason for o in outcomes
        }
        for metric in RUBRICS:
            key = (metric, known.turn.release, known.turn.started_at)
            expected_sums[key] = expected_sums.get(key, Sums()) + ledger.sums(known, metric)
            match known.judged.get(metric):
                case (_, Reason() as reason, _):
                    expected_unscored[*key, reason.value] += 1
                case (_, Finding(score=float() as score), _):
                    expected_bins[*key, f"{score:g}"] += 1
    rollups = {(r.series.metric, r.release, r.start): r for r in store.rollups(app=history.app)}
    assert expected_sums == {key: rollup.sums for key, rollup in rollups.items()}
    assert expected_unscored == Counter({(*key, n): c for key, r in rollups.items() for n, c in r.unscored.items()})
    assert expected_bins == Counter({(*key, n): c for key, r in rollups.items() for n, c in r.histogram.items()})
