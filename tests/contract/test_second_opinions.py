"""`SecondOpinionStore`: second opinions, and versions of a judge."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from monitor.model.judgements import JudgeChange, JudgeVersion, SecondOpinion, SecondOpinionKind
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

MINUTE = timedelta(minutes=1)
OLD = JudgeVersion(judge="openai:m", model="m-1", fingerprint="fp")
NEW = JudgeVersion(judge="openai:m", model="m-2")


def test_meet(store: Store, make: Make) -> None:
    """A version is news once, and names the one met last before it; another judge's versions are its own."""
    assert store.meet(OLD, now=make.now) is None
    assert store.meet(OLD, now=make.now + MINUTE) is None
    assert store.meet(NEW, now=make.now + 2 * MINUTE) == OLD
    assert store.meet(NEW, now=make.now + 3 * MINUTE) is None
    assert store.meet(OLD, now=make.now + 4 * MINUTE) is None
    assert store.meet(replace(NEW, judge="openai:other"), now=make.now) is None
    assert store.meet(replace(NEW, fingerprint="fp-2"), now=make.now + 5 * MINUTE) == NEW


def test_changes(store: Store, make: Make) -> None:
    """A change is a version that took another's place, dated to when it was met; a judge's first version is none."""
    other = replace(NEW, judge="openai:other")
    third = replace(NEW, fingerprint="fp-2")
    for minutes, version in enumerate((OLD, other, NEW, OLD, third)):
        store.meet(version, now=make.now + minutes * MINUTE)
    first = JudgeChange(version=NEW, before=OLD, at=make.now + 2 * MINUTE)
    second = JudgeChange(version=third, before=NEW, at=make.now + 4 * MINUTE)
    assert store.changes(since=make.now) == (first, second)
    assert store.changes(since=make.now + 3 * MINUTE) == (second,)


def test_opinions_read_back(store: Store, make: Make) -> None:
    """An opinion reads back from its moment on, and is kept once, also when its turn is gone."""
    turn = make.turn()
    (job,) = make.sampled(store, turn)
    opinion = SecondOpinion(
        job=replace(job, content_hash="", probability=1.0, stratum=""),
        kind=SecondOpinionKind.REPEAT,
        version=replace(NEW, judge=""),
        score=2.0,
        defect=True,
        first_score=None,
        first_defect=False,
        judged_at=make.now,
    )
    anchor = replace(opinion, kind=SecondOpinionKind.ANCHOR, judged_at=make.now + MINUTE)
    store.record_second_opinions([opinion, anchor])
    store.record_second_opinions([replace(opinion, score=5.0)])
    store.record_second_opinions([])
    assert store.second_opinions(since=make.now) == (opinion, anchor)
    assert store.second_opinions(since=make.now + MINUTE) == (anchor,)
    assert store.second_opinions(since=make.now, kind=SecondOpinionKind.ANCHOR) == (anchor,)
    make.assembled(store, replace(turn, response="Another answer."))
    assert len(store.second_opinions(since=make.now)) == 2


def test_anchors(store: Store, make: Make) -> None:
    """Anchors are verdicts of one version by the asked rubrics, newest first, as long as their text is kept."""
    turns = [make.turn() for _ in range(4)]
    jobs = make.sampled(store, *turns)
    verdicts = [
        replace(verdict, judged_at=make.now + number * MINUTE)
        for number, verdict in enumerate(make.verdict(job) for job in jobs)
    ]
    model, fingerprint = verdicts[0].exchange.judge_model, verdicts[0].exchange.fingerprint or ""
    other = replace(verdicts[3], exchange=replace(verdicts[3].exchange, judge_model="another"))
    store.finish([*verdicts[:2], make.unscored(jobs[2]), other])
    before = JudgeVersion(judge="", model=model, fingerprint=fingerprint)
    assert store.anchors(("g1",), before=before, limit=5) == (verdicts[1], verdicts[0])
    assert store.anchors(("g1",), before=before, limit=1) == (verdicts[1],)
    assert store.anchors(("g2",), before=before, limit=5) == ()
    assert store.anchors(("g1",), before=replace(before, fingerprint="x"), limit=5) == ()
    store.kept_text.prune(text_before=make.now + MINUTE, fragments_before=make.now, limit=10)
    assert store.anchors(("g1",), before=before, limit=5) == ()


def test_flagged(store: Store, make: Make) -> None:
    """Verdicts are found by a flag, newest first; one that is part of another flag's name is none."""
    jobs = make.sampled(store, make.turn(), make.turn(), make.turn())
    flags = (frozenset({"judge_injection", "cached"}), frozenset({"judge_injection"}), frozenset({"judge_injections"}))
    store.finish(
        [
            replace(v, finding=replace(v.finding, flags=flag), judged_at=make.now + number * MINUTE)
            for number, (v, flag) in enumerate(zip(map(make.verdict, jobs), flags, strict=True))
        ]
    )
    assert [jobs[1].turn_id, jobs[0].turn_id] == [v.job.turn_id for v in store.flagged("judge_injection", limit=5)]
    assert [jobs[1].turn_id] == [v.job.turn_id for v in store.flagged("judge_injection", limit=1)]
    assert store.flagged("none", limit=5) == ()
