"""Second opinions on turns that have a verdict, and which versions of a judge have answered when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from sqlalchemy import Connection, and_, func, literal_column, select

from monitor.model.judgements import Job, JudgeChange, JudgeVersion, SecondOpinion, SecondOpinionKind, Verdict
from monitor.store.columns import json_text, label
from monitor.store.outcome_rows import outcome_from
from monitor.store.statements import insert
from monitor.store.tables import exchanges, judge_versions, outcomes
from monitor.store.tables import second_opinions as table

_KEY = ("turn_id", "metric", "rubric_id")
_EXCHANGE = [c for c in exchanges.c if c.name not in outcomes.c]


def meet(connection: Connection, version: JudgeVersion, *, now: datetime) -> JudgeVersion | None:
    """Record that a version answers; see `SecondOpinionStore.meet`."""
    known = select(judge_versions).where(judge_versions.c.judge == label(version.judge))
    last = connection.execute(known.order_by(judge_versions.c.first_seen.desc()).limit(1)).first()
    statement = insert(connection, judge_versions).values(
        judge=version.judge, model=version.model, fingerprint=version.fingerprint, first_seen=now
    )
    new = connection.execute(statement.on_conflict_do_nothing().returning(judge_versions.c.judge)).first()
    if new is None or last is None:
        return None
    return JudgeVersion(judge=version.judge, model=last.model, fingerprint=last.fingerprint)


def changes(connection: Connection, *, since: datetime) -> tuple[JudgeChange, ...]:
    """Return when versions took over from others; see `SecondOpinionStore.changes`."""
    c = judge_versions.c
    rows = connection.execute(select(judge_versions).order_by(c.judge, c.first_seen, c.model, c.fingerprint))
    met = [(JudgeVersion(judge=r.judge, model=r.model, fingerprint=r.fingerprint), r.first_seen) for r in rows]
    taken_over = [
        JudgeChange(version=version, before=before, at=at)
        for (before, _), (version, at) in pairwise(met)
        if before.judge == version.judge and at >= since
    ]
    return tuple(sorted(taken_over, key=lambda change: change.at))


def anchors(
    connection: Connection, rubric_ids: Sequence[str], *, before: JudgeVersion, limit: int
) -> tuple[Verdict, ...]:
    """Return verdicts of a version; see `SecondOpinionStore.anchors`."""
    statement = (
        select(outcomes, *_EXCHANGE)
        .join(exchanges, and_(*(outcomes.c[name] == exchanges.c[name] for name in _KEY)))
        .where(
            outcomes.c.rubric_id.in_([label(rubric_id) for rubric_id in rubric_ids]),
            outcomes.c.reason.is_(None),
            outcomes.c.judge_model == before.model,
            func.coalesce(outcomes.c.fingerprint, "") == before.fingerprint,
        )
        .order_by(outcomes.c.judged_at.desc(), outcomes.c.turn_id)
        .limit(limit)
    )
    read = (outcome_from(row) for row in connection.execute(statement))
    return tuple(outcome for outcome in read if isinstance(outcome, Verdict))


def flagged(connection: Connection, flag: str, *, limit: int) -> tuple[Verdict, ...]:
    """Return verdicts that carry a flag; see `SecondOpinionStore.flagged`."""
    statement = (
        select(outcomes, *_EXCHANGE)
        .join(exchanges, and_(*(outcomes.c[name] == exchanges.c[name] for name in _KEY)), isouter=True)
        # Flags are a JSON list of plain words.
        .where(outcomes.c.reason.is_(None), outcomes.c.flags.contains(json_text(flag), autoescape=True))
        .order_by(outcomes.c.judged_at.desc(), outcomes.c.turn_id)
        .limit(limit)
    )
    read = (outcome_from(row) for row in connection.execute(statement))
    return tuple(outcome for outcome in read if isinstance(outcome, Verdict))


def record(connection: Connection, opinions: Sequence[SecondOpinion]) -> None:
    """Write opinions; see `SecondOpinionStore.record_second_opinions`."""
    rows = [
        {
            "turn_id": opinion.job.turn_id,
            "metric": opinion.job.metric,
            "rubric_id": opinion.job.rubric_id,
            "kind": opinion.kind.value,
            "judge_model": opinion.version.model,
            "fingerprint": opinion.version.fingerprint,
            "score": opinion.score,
            "defect": opinion.defect,
            "first_score": opinion.first_score,
            "first_defect": opinion.first_defect,
            "judged_at": opinion.judged_at,
        }
        for opinion in opinions
    ]
    if rows:
        connection.execute(insert(connection, table).on_conflict_do_nothing(), rows)


def since(connection: Connection, moment: datetime, *, kind: SecondOpinionKind | None) -> tuple[SecondOpinion, ...]:
    """Return opinions from a moment on; see `SecondOpinionStore.second_opinions`."""
    statement = select(table).where(table.c.judged_at >= moment).order_by(table.c.judged_at, table.c.turn_id)
    if kind is not None:
        # Written out, since an index for some of the rows serves only queries that can be seen to ask for these.
        statement = statement.where(table.c.kind == literal_column(f"'{kind.value}'"))
    return tuple(
        SecondOpinion(
            job=Job(turn_id=row.turn_id, content_hash="", metric=row.metric, rubric_id=row.rubric_id, probability=1.0),
            kind=SecondOpinionKind(row.kind),
            version=JudgeVersion(judge="", model=row.judge_model, fingerprint=row.fingerprint),
            score=row.score,
            defect=row.defect,
            first_score=row.first_score,
            first_defect=row.first_defect,
            judged_at=row.judged_at,
        )
        for row in connection.execute(statement)
    )
