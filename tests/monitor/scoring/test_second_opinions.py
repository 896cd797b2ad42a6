"""Second opinions: a judge held against itself, and a new version against the old."""

import asyncio
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from judge_server import JudgeServer, Step, completion, kind, refusal
from judged_turn import ASKED_AT, judged_turn

from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.pacing import PacedJudge
from monitor.judging.judges import Judges
from monitor.judging.prompt_metric import load_all
from monitor.model.judgements import Exchange, Finding, Job, JudgeVersion, SecondOpinion, SecondOpinionKind, Verdict
from monitor.model.spans import Assembly
from monitor.scoring.second_opinions import SecondOpinions, stratified
from monitor.scoring.suspects import Suspects
from monitor.settings.tree import BudgetSettings, SampleSettings, ScoreSettings, SecondOpinionSettings
from monitor.stages import sample
from monitor.stages.score import Scorer
from monitor.store.sql_store import SqlStore

NOW = ASKED_AT + timedelta(minutes=1)
METRICS = load_all("answer", judge_name="openai:judge-1")


@pytest.fixture
def store(store: SqlStore) -> SqlStore:
    """A store with twenty sampled turns."""
    turns = [judged_turn(name=str(number)) for number in range(20)]
    store.replace_turns([Assembly(trace_id=t.trace_id, through=1, turns=(t,)) for t in turns], now=NOW)
    sample.tick(store, SampleSettings(), rubrics=[m.rubric for m in METRICS], proxy=None, now=NOW, worker="1")
    return store


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    """A judge over loopback."""
    server = JudgeServer()
    yield server
    server.close()


def _judges(server: JudgeServer) -> Judges:
    client = OpenAIJudge(model="judge-1", api_key=lambda: "k", base_url=server.url, timeout=timedelta(seconds=10))
    return Judges(PacedJudge(client))


def _scorer(store: SqlStore, judges: Judges, settings: SecondOpinionSettings) -> Scorer:
    ticks = itertools.count()
    return Scorer(
        store,
        METRICS,
        judge=judges,
        settings=ScoreSettings(concurrency=4),
        judge_timeout=timedelta(seconds=10),
        clock=lambda: NOW + next(ticks) * timedelta(milliseconds=1),
        worker="one",
        budget=BudgetSettings(),
        second_opinions=settings,
    )


async def _drain(store: SqlStore, server: JudgeServer, settings: SecondOpinionSettings) -> None:
    async with _judges(server) as judges:
        await _scorer(store, judges, settings).drain()


def _graded(score: int, *, model: str = "judge-1") -> Step:
    grade = {"reason": "r", "score": score}
    refusal_ = {"reason": "r", "label": "none"}
    whole = {
        "relevance": grade,
        "coherence": grade,
        "fluency": grade,
        "refusal": refusal_,
        "addresses_evaluator": False,
    }
    step = completion(json.dumps(whole))
    step.body["model"] = model  # type: ignore[index]
    return step


async def test_repeat(store: SqlStore, server: JudgeServer) -> None:
    """Every turn drawn is judged twice; the first verdict stands, and both are kept side by side."""
    seen: set[str] = set()

    def wavering(body: dict[str, object]) -> Step:
        prompt = str(body["messages"])
        again = prompt in seen
        seen.add(prompt)
        return _graded(2 if again else 4)

    server.answer = wavering  # type: ignore[assignment]
    await _drain(store, server, SecondOpinionSettings(share=1.0))
    assert 40 == len(server.asked)
    opinions = store.second_opinions(since=NOW)
    assert 80 == len(opinions)
    assert {SecondOpinionKind.REPEAT} == {opinion.kind for opinion in opinions}
    of_relevance = [o for o in opinions if o.job.metric == "relevance"]
    assert {(4.0, False, 2.0, True)} == {(o.first_score, o.first_defect, o.score, o.defect) for o in of_relevance}
    assert {4.0} == {o.finding.score for o in store.outcomes("turn-1")[:1] if isinstance(o, Verdict)}


async def test_share(store: SqlStore, server: JudgeServer) -> None:
    """A share of the turns is judged twice, the same turns on every machine; none at a share of zero."""
    await _drain(store, server, SecondOpinionSettings(share=0.3))
    drawn = {opinion.job.turn_id for opinion in store.second_opinions(since=NOW)}
    assert 0 < len(drawn) < 15
    assert 20 + len(drawn) == len(server.asked)


async def test_no_second_opinion_to_be_had(store: SqlStore, server: JudgeServer) -> None:
    """A second call that fails changes nothing about the first verdict."""
    server.answer = lambda body: (  # type: ignore[assignment]
        refusal(500) if len([a for a in server.asked if a.body == body]) > 1 else completion(kind(body))
    )
    await _drain(store, server, SecondOpinionSettings(share=1.0))
    assert () == store.second_opinions(since=NOW)
    assert all(isinstance(o, Verdict) for number in range(20) for o in store.outcomes(f"turn-{number}"))


async def test_another_model_answers(store: SqlStore, server: JudgeServer, caplog: pytest.LogCaptureFixture) -> None:
    """When another model answers behind the same name, old verdicts are judged again by it, and that is told once."""
    server.answer = lambda _: _graded(4, model="judge-1-old")  # type: ignore[assignment]
    async with _judges(server) as judges:
        scorer = _scorer(store, judges, SecondOpinionSettings(share=0, anchors=8))
        await scorer.drain()
        second_opinions = scorer._second_opinions  # noqa: SLF001 -- what `run` does every five seconds, without waiting for it
        assert second_opinions is not None
        await second_opinions.look()
        assert 20 == len(server.asked)
        server.answer = lambda _: _graded(3, model="judge-1-new")  # type: ignore[assignment]
        await judges.judge(METRICS, judged_turn(name="probe"))
        await second_opinions.look()
        await second_opinions.look()
    opinions = store.second_opinions(since=NOW)
    assert {(SecondOpinionKind.ANCHOR, "judge-1-new")} == {(o.kind, o.version.model) for o in opinions}
    assert {"relevance": 8, "coherence": 8, "fluency": 8, "refusal": 8} == {
        name: len([o for o in opinions if o.job.metric == name]) for name in {o.job.metric for o in opinions}
    }
    assert {(4.0, 3.0)} == {(o.first_score, o.score) for o in opinions if o.job.metric == "fluency"}
    # One call judges all metrics of a turn again.
    assert 20 + 1 + 8 == len(server.asked)
    assert 1 == {gauge.name: gauge.value for gauge in scorer.counters()}["judge_changes_total"]
    assert 1 == caplog.text.count("answers as judge-1-new (fp_1), before as judge-1-old (fp_1)")


async def test_a_fingerprint_for_every_reply(store: SqlStore, server: JudgeServer) -> None:
    """An endpoint whose replies all have another fingerprint does not have the anchors judged for each of them."""

    def unsteady(_: object) -> Step:
        step = _graded(4)
        step.body["system_fingerprint"] = f"fp_{len(server.asked)}"  # type: ignore[index]
        return step

    server.answer = unsteady
    async with _judges(server) as judges:
        scorer = _scorer(store, judges, SecondOpinionSettings(share=0, anchors=5))
        await scorer.drain()
        second_opinions = scorer._second_opinions  # noqa: SLF001 -- as above
        assert second_opinions is not None
        for _ in range(5):
            await second_opinions.look()
        assert 4 <= second_opinions.changes <= 60
    assert len(server.asked) <= 20 + 4 * 5


async def test_anchors_of_a_process_that_died(store: SqlStore, server: JudgeServer) -> None:
    """Anchors that the process which met the new model did not get to are judged by another, each of them once."""
    server.answer = lambda _: _graded(4, model="judge-1-old")  # type: ignore[assignment]
    await _drain(store, server, SecondOpinionSettings(share=0))
    met = JudgeVersion(judge="openai:judge-1", model="judge-1-old", fingerprint="fp_1")
    store.meet(met, now=NOW)
    store.meet(replace(met, model="judge-1-new"), now=NOW + timedelta(seconds=1))
    # It was killed in the middle: eight anchors are left of twenty, and its lease still holds.
    store.take_lease("anchors", "the dead one", ttl=timedelta(minutes=5))
    first = [o for n in range(12) for o in store.outcomes(f"turn-{n}") if isinstance(o, Verdict)]
    store.record_second_opinions(
        [
            SecondOpinion(
                job=v.job,
                kind=SecondOpinionKind.ANCHOR,
                version=replace(met, model="judge-1-new"),
                score=v.finding.score,
                defect=v.finding.defect,
                first_score=v.finding.score,
                first_defect=v.finding.defect,
                judged_at=NOW + timedelta(seconds=2),
            )
            for v in first
        ]
    )
    server.answer = lambda _: _graded(3, model="judge-1-new")  # type: ignore[assignment]

    async def live(*, minutes: int) -> int:
        before = len(server.asked)
        async with _judges(server) as judges:
            await judges.judge(METRICS, judged_turn(name="probe"))
            second_opinions = SecondOpinions(
                store,
                judges,
                {metric.rubric.rubric_id: metric for metric in METRICS},
                settings=SecondOpinionSettings(share=0, anchors=20),
                clock=lambda: NOW + timedelta(minutes=minutes),
                allowed=lambda: True,
                suspects=Suspects(store, worker=f"after {minutes}"),
                worker=f"after {minutes}",
            )
            await second_opinions.look()
            await second_opinions.look()
        return len(server.asked) - before - 1

    assert 0 == await live(minutes=1)
    store.give_lease_back("anchors", "the dead one")
    assert 8 == await live(minutes=6)
    store.give_lease_back("anchors", "after 6")
    assert 0 == await live(minutes=12)
    assert 4 * 20 == len(store.second_opinions(since=NOW, kind=SecondOpinionKind.ANCHOR))


async def test_anchors_that_processes_died_of(store: SqlStore, server: JudgeServer) -> None:
    """An anchor that two processes died of, computing it alone, is not judged again; all others are."""
    server.answer = lambda _: _graded(4, model="judge-1-old")  # type: ignore[assignment]
    await _drain(store, server, SecondOpinionSettings(share=0))
    met = JudgeVersion(judge="openai:judge-1", model="judge-1-old", fingerprint="fp_1")
    store.meet(met, now=NOW)
    (verdict,) = (o for o in store.outcomes("turn-3")[:1] if isinstance(o, Verdict))
    subject = f"turn-3 {verdict.job.rubric_id} {verdict.job.content_hash}"
    for worker in ("the first", "the second"):
        store.begin("job", [subject], worker=worker, alone=True)
    server.answer = lambda _: _graded(3, model="judge-1-new")  # type: ignore[assignment]
    async with _judges(server) as judges:
        await judges.judge(METRICS, judged_turn(name="probe"))
        before = len(server.asked)
        scorer = _scorer(store, judges, SecondOpinionSettings(share=0, anchors=20))
        second_opinions = scorer._second_opinions  # noqa: SLF001 -- as above
        assert second_opinions is not None
        await second_opinions.look()
        assert 19 == len(server.asked) - before


async def test_watch_ends(store: SqlStore, server: JudgeServer) -> None:
    """A running scorer that watches its judge stops when told."""
    stop = asyncio.Event()
    async with _judges(server) as judges:
        running = asyncio.create_task(_scorer(store, judges, SecondOpinionSettings(share=0)).run(stop))
        while len(server.asked) < 20:  # noqa: ASYNC110 -- the server lives in threads
            await asyncio.sleep(0.02)
        stop.set()
        await asyncio.wait_for(running, 10)
    assert 0 == store.backlog().jobs


def _verdict(number: int, score: float) -> Verdict:
    job = Job(turn_id=str(number), content_hash="", metric="m", rubric_id="r", probability=1.0)
    finding = Finding(score=score, defect=score < 3)
    return Verdict(job=job, finding=finding, exchange=Exchange(), judged_at=NOW)


def test_stratified() -> None:
    """Rare scores are chosen as often as common ones, as long as there are any."""
    verdicts = [_verdict(n, 5.0) for n in range(50)] + [_verdict(60 + n, 1.0) for n in range(3)] + [_verdict(70, 3.0)]
    chosen = [verdict.finding.score for verdict in stratified(verdicts, 10)]
    assert (10, 6, 3, 1) == (len(chosen), chosen.count(5.0), chosen.count(1.0), chosen.count(3.0))
    assert () == stratified([], 5)
