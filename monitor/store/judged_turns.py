"""What came of turns, read back: outcomes, decisions, and verdicts that would do for another turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import Connection, and_, func, null, select, tuple_

from monitor.model.judgements import Job, Outcome, Sampling, Unscored, Verdict
from monitor.store.columns import label
from monitor.store.outcome_rows import job_from, outcome_from
from monitor.store.statements import batches
from monitor.store.tables import exchanges, jobs, outcomes, turns

_KEY = ("turn_id", "metric", "rubric_id")
_EXCHANGE = [c for c in exchanges.c if c.name not in outcomes.c]
_WITH_EXCHANGE = select(outcomes, *_EXCHANGE).join(
    exchanges, and_(*(outcomes.c[name] == exchanges.c[name] for name in _KEY)), isouter=True
)


def of_turn(connection: Connection, turn_id: str) -> tuple[Outcome, ...]:
    """Return the outcomes of one turn by metric and rubric, with what is left of their text."""
    statement = _WITH_EXCHANGE.where(outcomes.c.turn_id == turn_id).order_by(outcomes.c.metric, outcomes.c.rubric_id)
    return tuple(outcome_from(row) for row in connection.execute(statement))


def by_turn(connection: Connection, turn_ids: Sequence[str]) -> dict[str, tuple[Outcome, ...]]:
    """Return the outcomes of turns by id, without their text; see `JobStore.outcomes_of`."""
    no_text = (null().label(column.name) for column in _EXCHANGE)
    statement = select(outcomes, *no_text).order_by(outcomes.c.metric, outcomes.c.rubric_id)
    outcomes_by_id: defaultdict[str, list[Outcome]] = defaultdict(list)
    for part in batches(sorted(set(turn_ids))):
        for row in connection.execute(statement.where(outcomes.c.turn_id.in_(part))):
            outcomes_by_id[row.turn_id].append(outcome_from(row))
    return {turn_id: tuple(these) for turn_id, these in outcomes_by_id.items()}


def sampling_of(connection: Connection, turn_id: str) -> Sampling | None:
    """Return the decision about one turn: its unmet needs and the jobs still open."""
    turn = connection.execute(select(turns).where(turns.c.turn_id == turn_id, turns.c.decided_at.is_not(None))).first()
    if turn is None:
        return None
    waiting = select(jobs).where(jobs.c.turn_id == turn_id).order_by(jobs.c.metric, jobs.c.rubric_id)
    unmet = _WITH_EXCHANGE.where(outcomes.c.turn_id == turn_id, ~outcomes.c.sampled)
    needs = map(outcome_from, connection.execute(unmet.order_by(outcomes.c.metric, outcomes.c.rubric_id)))
    return Sampling(
        turn_id=turn_id,
        content_hash=turn.content_hash,
        jobs=tuple(job_from(row) for row in connection.execute(waiting)),
        unscored=tuple(o for o in needs if isinstance(o, Unscored)),
        proxy=turn.proxy,
        proxy_version=turn.proxy_version,
        decided_at=turn.decided_at,
    )


def verdicts_on_equal_content(connection: Connection, wanted: Sequence[Job]) -> dict[Job, Verdict]:
    """Return the latest verdict for each job that has one; see `JobStore.judging_inputs`."""
    verdicts: dict[tuple[str, str], Verdict] = {}
    same = tuple_(outcomes.c.content_hash, outcomes.c.rubric_id)
    for part in batches(sorted({(job.content_hash, label(job.rubric_id)) for job in wanted})):
        latest = (
            select(outcomes.c.content_hash, outcomes.c.rubric_id, func.max(outcomes.c.judged_at).label("judged_at"))
            .where(same.in_(part), outcomes.c.reason.is_(None))
            .group_by(outcomes.c.content_hash, outcomes.c.rubric_id)
            .subquery()
        )
        statement = (
            select(outcomes, *_EXCHANGE)
            .join(exchanges, and_(*(outcomes.c[name] == exchanges.c[name] for name in _KEY)))
            .join(
                latest,
                and_(*(outcomes.c[name] == latest.c[name] for name in ("content_hash", "rubric_id", "judged_at"))),
            )
            .where(outcomes.c.reason.is_(None))
            .order_by(outcomes.c.turn_id)
        )
        for row in connection.execute(statement):
            verdict = outcome_from(row)
            if isinstance(verdict, Verdict):
                verdicts[row.content_hash, row.rubric_id] = verdict
    keys = ((job, (job.content_hash, label(job.rubric_id))) for job in wanted)
    return {job: verdicts[key] for job, key in keys if key in verdicts}
