"""Takes the text of traces out of every table, and leaves the numbers that they are counted in.

Turns, scores and reasons stay, without text, without session and user, and under no content hash, so that nothing that
a judge or another process still holds of them is taken. Jobs that wait end as expired: nobody is asked about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, select, text, update

from monitor.model.judgements import Reason, Unscored
from monitor.model.stored import Erased
from monitor.store import awaited_links, changed_windows, erased_traces, under_way
from monitor.store import jobs as job_rows
from monitor.store.outcome_rows import job_from
from monitor.store.spans import BARRIER
from monitor.store.statements import batches, insert
from monitor.store.tables import exchanges, jobs, outcomes, spans, traces, turn_texts, turns, unassembled

AT_ONCE = 200
"""Traces of one transaction."""


def erase(connection: Connection, trace_ids: Sequence[str], *, now: datetime, length: timedelta) -> Erased:
    """Erase up to `AT_ONCE` traces, and return what that removed; `length` is that of windows."""
    if connection.dialect.name == "postgresql":
        # As `high_water`: no fragment of these is on its way when the tombstones are written.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": BARRIER})
    ids = sorted(trace_ids)
    erased_traces.note(connection, ids, now=now)
    _lock(connection, ids, now=now)
    columns = (turns.c.turn_id, turns.c.app, turns.c.environment, turns.c.started_at)
    found = connection.execute(
        select(*columns).where(turns.c.trace_id.in_(ids)).order_by(turns.c.turn_id).with_for_update()
    ).all()
    turn_ids = [row.turn_id for row in found]
    # All at once and in order, before jobs that end mark some of them.
    changed_windows.mark(connection, [(row.app, row.environment, row.started_at) for row in found], length=length)
    texts = _delete(connection, turn_ids, turn_texts.c.turn_id)
    said = _delete(connection, turn_ids, exchanges.c.turn_id)
    unasked = _end_jobs(connection, turn_ids, now=now, length=length)
    for part in batches(turn_ids):
        nameless = {"session_hash": None, "user_id": None, "content_hash": ""}
        decided = func.coalesce(turns.c.decided_at, bindparam("now", now, type_=turns.c.decided_at.type))
        connection.execute(update(turns).where(turns.c.turn_id.in_(part)).values(**nameless, decided_at=decided))
        connection.execute(update(outcomes).where(outcomes.c.turn_id.in_(part)).values(content_hash=""))
    awaited_links.prune(connection, ids)
    under_way.end(connection, "trace", ids)
    awaited_links.erase(connection, ids)
    under_way.end_of_turns(connection, turn_ids)
    _delete(connection, ids, unassembled.c.trace_id)
    fragments = _delete(connection, ids, spans.c.trace_id)
    connection.execute(update(traces).where(traces.c.trace_id.in_(ids)).values(pruned=True))
    connection.execute(delete(traces).where(traces.c.trace_id.in_(ids), traces.c.turns == 0))
    return Erased(traces=len(ids), fragments=fragments, turns=texts, exchanges=said, jobs=unasked)


def _lock(connection: Connection, ids: Sequence[str], *, now: datetime) -> None:
    """Keep everybody from replacing these traces' turns, also of those that were never assembled."""
    fresh = {"through": 0, "turns": 0, "unread": "{}", "assembled_at": now, "pruned": False}
    rows = [{"trace_id": trace_id, **fresh} for trace_id in ids]
    connection.execute(insert(connection, traces).on_conflict_do_nothing(), rows)
    locked = select(traces.c.trace_id).where(traces.c.trace_id.in_(ids)).order_by(traces.c.trace_id)
    connection.execute(locked.with_for_update()).all()


def _end_jobs(connection: Connection, turn_ids: Sequence[str], *, now: datetime, length: timedelta) -> int:
    """Let jobs that wait end without a verdict, so that each turn still counts as what became of it."""
    ended = [
        Unscored(job=job_from(row), reason=Reason.EXPIRED, detail="the turn's text was erased", judged_at=now)
        for part in batches(turn_ids)
        for row in connection.execute(select(jobs).where(jobs.c.turn_id.in_(part)))
    ]
    job_rows.finish(connection, ended, length=length)
    return len(ended)


def _delete(connection: Connection, keys: Sequence[str], column: ColumnElement[str]) -> int:
    """Delete the rows of the column's table that have one of the keys; return how many they were."""
    return sum(connection.execute(delete(column.table).where(column.in_(part))).rowcount for part in batches(keys))
