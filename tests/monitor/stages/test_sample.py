"""Turns become jobs."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from judged_turn import ASKED_AT, judged_turn

from monitor.judging.coded.lex5 import Lex5
from monitor.model.judgements import Reason, Rubric, Sampling
from monitor.model.spans import Assembly
from monitor.model.turns import Turn
from monitor.settings.tree import SampleSettings
from monitor.stages.sample import decide, tick
from monitor.store.sql_store import SqlStore

NOW = ASKED_AT + timedelta(minutes=1)


def _rubric(metric: str, *needs: str) -> Rubric:
    return Rubric(metric=metric, rubric_id=f"{metric}-1", needs=frozenset(needs), scale_min=1, scale_max=5)


GROUNDEDNESS = _rubric("groundedness", "response", "citations")
RELEVANCE = _rubric("relevance", "query", "response")
SIMILARITY = _rubric("similarity", "query", "response", "ground_truth")
ALL = (GROUNDEDNESS, RELEVANCE, SIMILARITY)


def _decide(turn: Turn, *, rate: float = 1.0, salt: str = "s", rubrics: tuple[Rubric, ...] = ALL) -> Sampling:
    return decide(turn, rubrics, settings=SampleSettings(rate=rate, salt=salt), proxy=None, now=NOW)


def _keep(store: SqlStore, *turns: Turn) -> None:
    store.replace_turns([Assembly(trace_id=t.trace_id, through=1, turns=(t,)) for t in turns], now=NOW)


def test_jobs() -> None:
    """A sampled turn has a job for each metric whose needs it meets, with its probability."""
    sampling = _decide(judged_turn(), rate=1.0)
    assert ["groundedness", "relevance"] == [job.metric for job in sampling.jobs]
    assert {1.0} == {job.probability for job in sampling.jobs}
    assert [("similarity", Reason.NO_GROUND_TRUTH)] == [(u.job.metric, u.reason) for u in sampling.unscored]
    assert (judged_turn().content_hash(), NOW) == (sampling.content_hash, sampling.decided_at)


def test_unmet_needs_of_turns_outside_the_sample() -> None:
    """Needs that a turn does not meet are recorded with certainty, whether it is sampled or not."""
    turn = replace(judged_turn(), citations=())
    turns = [replace(turn, trace_id=f"trace-{number}") for number in range(50)]
    samplings = [_decide(each, rate=0.1) for each in turns]
    assert {0, 1} == {len(s.jobs) for s in samplings}
    assert all(
        [("groundedness", Reason.NO_CONTEXT, 1.0), ("similarity", Reason.NO_GROUND_TRUTH, 1.0)]
        == [(u.job.metric, u.reason, u.job.probability) for u in s.unscored]
        for s in samplings
    )


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 0.95), st.integers(0, 1000))
def test_rate(rate: float, salt: int) -> None:
    """Over 4,000 turns the share taken is the rate, within five standard errors."""
    taken = sum(bool(_decide(replace(TURN, trace_id=f"{n:032x}"), rate=rate, salt=str(salt)).jobs) for n in range(4000))
    assert abs(taken / 4000 - rate) < 5 * (rate * (1 - rate) / 4000) ** 0.5


TURN = judged_turn()


def test_a_higher_rate_keeps_what_a_lower_one_took() -> None:
    """Raising the rate adds turns and drops none."""
    turns = [replace(TURN, trace_id=f"{n:032x}") for n in range(300)]
    low, high = ({t.trace_id for t in turns if _decide(t, rate=rate).jobs} for rate in (0.2, 0.5))
    assert low < high


def test_rules() -> None:
    """The first rule that matches app, environment and metric sets the rate, and the job keeps its probability."""
    config = SampleSettings.model_validate(
        {
            "rate": 0.5,
            "salt": "s",
            "rules": [
                {"environment": "staging", "rate": 0},
                {"app": "sho*", "metric": "groundedness", "rate": 1},
                {"metric": "relevance", "rate": 0},
            ],
        }
    )

    def probabilities(app: str, environment: str) -> dict[str, set[float]]:
        by_metric: dict[str, set[float]] = {"groundedness": set(), "relevance": set()}
        for n in range(200):
            turn = replace(TURN, trace_id=f"{n:032x}", app=app, environment=environment)
            for job in decide(turn, ALL, settings=config, proxy=None, now=NOW).jobs:
                by_metric[job.metric].add(job.probability)
        return by_metric

    assert {"groundedness": {1.0}, "relevance": set()} == probabilities("shop", "production")
    assert {"groundedness": {0.5}, "relevance": set()} == probabilities("bank", "production")
    assert {"groundedness": set(), "relevance": set()} == probabilities("shop", "staging")


def test_a_rate_of_zero() -> None:
    """Nothing is judged, and unmet needs are recorded all the same."""
    sampling = _decide(TURN, rate=0)
    assert ((), ["similarity"]) == (sampling.jobs, [unscored.job.metric for unscored in sampling.unscored])


def test_turns_of_one_trace_stay_together() -> None:
    """Two turns of a trace are both in the sample or both out of it."""
    pairs = [(replace(TURN, trace_id=str(n)), replace(TURN, trace_id=str(n), turn_id="other")) for n in range(100)]
    assert all(bool(_decide(a, rate=0.5).jobs) == bool(_decide(b, rate=0.5).jobs) for a, b in pairs)


def test_another_salt_draws_another_sample() -> None:
    """Two salts agree on half of the turns at a rate of one half, no more than chance would."""
    turns = [replace(TURN, trace_id=f"{n:032x}") for n in range(1000)]
    agree = sum(bool(_decide(t, rate=0.5, salt="a").jobs) == bool(_decide(t, rate=0.5, salt="b").jobs) for t in turns)
    assert 400 < agree < 600


def test_proxy() -> None:
    """The cheap score of every turn is recorded with its version; None where it does not apply."""
    settings_ = SampleSettings(rate=0.0001)
    scored = decide(TURN, ALL, settings=settings_, proxy=Lex5(), now=NOW)
    assert ("lex5-2", Lex5().score(TURN)) == (scored.proxy_version, scored.proxy)
    assert decide(judged_turn("I don't know that."), ALL, settings=settings_, proxy=Lex5(), now=NOW).proxy is None


def test_tick(store: SqlStore) -> None:
    """Every turn is decided about once, in as many batches as it takes, and asked about no more."""
    _keep(store, *(judged_turn(name=str(number)) for number in range(7)))
    config = SampleSettings(batch=3)
    assert [7, 0] == [tick(store, config, rubrics=ALL, proxy=Lex5(), now=NOW, worker="1") for _ in range(2)]
    sampling = store.sampling("turn-3")
    assert sampling is not None
    assert {"groundedness", "relevance"} == {job.metric for job in sampling.jobs}
    assert Lex5().score(TURN) == sampling.proxy


def test_changed_turn(store: SqlStore) -> None:
    """A turn whose content changes is decided about again."""
    _keep(store, judged_turn())
    tick(store, SampleSettings(), rubrics=ALL, proxy=None, now=NOW, worker="1")
    changed = judged_turn("Within 30 days.")
    store.replace_turns([Assembly(trace_id=changed.trace_id, through=2, turns=(changed,))], now=NOW)
    assert 1 == tick(store, SampleSettings(), rubrics=ALL, proxy=None, now=NOW, worker="1")
    sampling = store.sampling("turn-1")
    assert sampling is not None
    assert changed.content_hash() == sampling.content_hash
