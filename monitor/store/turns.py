"""Turns and their text: each trace's turns replaced as one, outcomes kept where a judge would see the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    delete,
    exists,
    or_,
    select,
    update,
)

from monitor.model.names import OTHER, NameLimits
from monitor.model.spans import PROCESS_DIED, Assembly
from monitor.model.stored import Assembled, Extent
from monitor.model.turns import Turn
from monitor.store import awaited_links, changed_windows, erased_traces, names, pseudonyms, under_way
from monitor.store.columns import json_text, label
from monitor.store.database import Database
from monitor.store.statements import batches, insert
from monitor.store.tables import jobs, outcomes, spans, traces, turn_texts, turns, unassembled
from monitor.store.turn_rows import cleaned, turn_from, turn_row, turn_text_row

_PAGE = 200
_TEXT = [c for c in turn_texts.c if c.name not in turns.c]
_WITH_TEXT = select(turns, *_TEXT).join(turn_texts, turn_texts.c.turn_id == turns.c.turn_id, isouter=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredTurn:
    """What is stored of a turn, as far as replacing it must know."""

    app: str
    environment: str
    started_at: datetime
    content_hash: str


def replace(
    connection: Connection,
    assemblies: Sequence[Assembly],
    *,
    now: datetime,
    length: timedelta,
    limits: NameLimits | None,
) -> None:
    """Make each trace's turns exactly the given ones; see `TurnStore.replace_turns`.

    An assembly that read less of its trace than a stored one is dropped. A trace whose fragments were pruned keeps its
    turns: what arrives later for it is only ever a part, so turns are added and none is changed or deleted.
    """
    awaited_links.lock(connection, assemblies)
    under_way.end(connection, "trace", [a.trace_id for a in assemblies if PROCESS_DIED not in a.unread])
    newest = {a.trace_id: a for a in sorted(assemblies, key=lambda a: a.through)}
    # Before any row is locked: whoever gives places away has others wait, and must not wait for them then.
    cleaned_turns = [cleaned(t) for a in newest.values() for t in a.turns]
    placed = {t.turn_id: t for t in names.placed(connection, cleaned_turns, limits, now=now)}
    current, closed = _lock_traces(connection, newest, now=now)
    if not current:
        return
    known = _known_turns(connection, [a.trace_id for a in current])
    assembled_turns = {t.turn_id: placed[t.turn_id] for a in current for t in a.turns}
    unchangeable = {i for i, (trace_id, _) in known.items() if trace_id in closed}
    written = {i: t for i, t in assembled_turns.items() if i not in unchangeable}
    gone = [i for i in known if i not in assembled_turns and i not in unchangeable]
    changed = [i for i, t in written.items() if i in known and known[i][1].content_hash != t.content_hash()]
    under_way.end_of_turns(connection, (*gone, *changed))
    _delete(connection, gone=gone, changed=changed)
    _write(connection, tuple(written.values()))
    _note_assembled(connection, current, now=now)
    awaited_links.replace(connection, current, now=now)
    before = [known[i][1] for i in known if i not in unchangeable]
    moments = [(k.app, k.environment, k.started_at) for k in before]
    moments += [(t.app, t.environment, t.started_at) for t in written.values()]
    changed_windows.mark(connection, moments, length=length)


def turn(connection: Connection, turn_id: str) -> Turn | None:
    """Return the turn with what is left of its text."""
    row = connection.execute(_WITH_TEXT.where(turns.c.turn_id == turn_id)).first()
    return None if row is None else turn_from(row)


def assembled(connection: Connection, *, since: datetime, limit: int) -> tuple[Assembled, ...]:
    """Return what became of traces; see `TurnStore.assembled`."""
    latest = (traces.c.assembled_at.desc(), traces.c.trace_id)
    statement = select(traces).where(traces.c.assembled_at >= since).order_by(*latest).limit(limit)
    return tuple(
        Assembled(
            trace_id=row.trace_id, assembled_at=row.assembled_at, turns=row.turns, unread=orjson.loads(row.unread)
        )
        for row in connection.execute(statement)
    )


def paged(
    database: Database,
    *,
    app: str | None,
    since: datetime | None,
    until: datetime | None,
    defect_of: Sequence[str] | None,
    session_id: str | None,
    limit: int | None,
) -> Iterator[Turn]:
    """Yield turns by start time and id; see `TurnStore.turns`. Page by page, so a slow reader holds nothing open."""
    after: tuple[datetime, str] | None = None
    left = limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(_PAGE, left)
        with database.reading("reading turns") as connection:
            some = page(
                connection,
                app=app,
                since=since,
                until=until,
                defect_of=defect_of,
                session_id=session_id,
                after=after,
                limit=size,
            )
        yield from some
        if len(some) < size:
            return
        after = (some[-1].started_at, some[-1].turn_id)
        left = None if left is None else left - size


def page(
    connection: Connection,
    *,
    app: str | None,
    since: datetime | None,
    until: datetime | None,
    defect_of: Sequence[str] | None,
    session_id: str | None,
    after: tuple[datetime, str] | None,
    limit: int,
) -> tuple[Turn, ...]:
    """Return turns by start time and id, the first of them behind `after`."""
    statement: Select[tuple[object, ...]] = _WITH_TEXT
    if app is not None:
        statement = statement.where(turns.c.app == app)
    if since is not None:
        statement = statement.where(turns.c.started_at >= since)
    if until is not None:
        statement = statement.where(turns.c.started_at < until)
    if session_id is not None:
        statement = statement.where(turns.c.session_hash == pseudonyms.of_session(connection, session_id))
    if defect_of is not None:
        statement = statement.where(_is_defect(defect_of))
    if after is not None:
        at, turn_id = after
        behind = or_(turns.c.started_at > at, turns.c.turn_id > turn_id)
        statement = statement.where(turns.c.started_at >= at, behind)
    rows = connection.execute(statement.order_by(turns.c.started_at, turns.c.turn_id).limit(limit))
    return tuple(turn_from(row) for row in rows)


def _is_defect(metrics: Sequence[str]) -> ColumnElement[bool]:
    """Whether a verdict of one of these metrics calls the turn a defect; () for whichever metric."""
    verdict = select(outcomes.c.turn_id).where(outcomes.c.turn_id == turns.c.turn_id, outcomes.c.defect)
    return exists(verdict.where(outcomes.c.metric.in_(metrics)) if metrics else verdict)


def extents(
    connection: Connection, app: str, *, since: datetime, until: datetime, ended_since: datetime, single_calls: bool
) -> tuple[Extent, ...]:
    """Return when turns were; see `TurnStore.extents`."""
    # Flags are a JSON list of plain words.
    single = turns.c.flags.contains(json_text("single_call"), autoescape=True)
    statement = (
        select(turns.c.trace_id, turns.c.started_at, turns.c.ended_at, single.label("single"), turn_texts.c.response)
        .join(turn_texts, and_(turn_texts.c.turn_id == turns.c.turn_id, single), isouter=True)
        .where(
            # Under `other` stand those of all apps that have no place, this one perhaps among them.
            turns.c.app.in_((label(app), OTHER)),
            turns.c.started_at >= since,
            turns.c.started_at < until,
            turns.c.ended_at >= ended_since,
            *([single] if single_calls else []),
        )
    )
    return tuple(
        Extent(
            trace_id=row.trace_id,
            started_at=row.started_at,
            ended_at=row.ended_at,
            single_call=bool(row.single),
            response=row.response,
        )
        for row in connection.execute(statement)
    )


def of_ids(connection: Connection, turn_ids: Sequence[str]) -> dict[str, Turn]:
    """Return those of the turns that are there, with their text, by id."""
    by_id: dict[str, Turn] = {}
    for part in batches(sorted(set(turn_ids))):
        rows = connection.execute(_WITH_TEXT.where(turns.c.turn_id.in_(part)))
        by_id.update((row.turn_id, turn_from(row)) for row in rows)
    return by_id


def unsampled(connection: Connection, limit: int) -> tuple[Turn, ...]:
    """Return turns without a decision, oldest first."""
    statement = _WITH_TEXT.where(turns.c.decided_at.is_(None)).order_by(turns.c.started_at, turns.c.turn_id)
    return tuple(turn_from(row) for row in connection.execute(statement.limit(limit)))


def _lock_traces(
    connection: Connection, newest: Mapping[str, Assembly], *, now: datetime
) -> tuple[tuple[Assembly, ...], frozenset[str]]:
    """Return the assemblies neither behind the stored ones nor of erased traces, and which traces are closed."""
    ids = sorted(newest)
    if not ids:
        return (), frozenset()
    fresh = {"through": 0, "turns": 0, "unread": "{}", "assembled_at": now, "pruned": False}
    connection.execute(
        insert(connection, traces).on_conflict_do_nothing(), [{"trace_id": trace_id, **fresh} for trace_id in ids]
    )
    rows: list[Row[tuple[str, int, bool]]] = []
    for part in batches(ids):
        statement = select(traces.c.trace_id, traces.c.through, traces.c.pruned).where(traces.c.trace_id.in_(part))
        rows += connection.execute(statement.order_by(traces.c.trace_id).with_for_update())
    # Looked up under the lock: whoever erases them has it, too.
    erased = erased_traces.among(connection, ids)
    kept = [row for row in rows if row.trace_id not in erased]
    current = tuple(newest[row.trace_id] for row in kept if newest[row.trace_id].through >= row.through)
    return current, frozenset(row.trace_id for row in rows if row.pruned)


def _known_turns(connection: Connection, trace_ids: Sequence[str]) -> dict[str, tuple[str, _StoredTurn]]:
    """Return the stored turns of these traces by id, with their trace, locked against a decision made meanwhile."""
    columns = (
        turns.c.turn_id,
        turns.c.trace_id,
        turns.c.app,
        turns.c.environment,
        turns.c.started_at,
        turns.c.content_hash,
    )
    stored: dict[str, tuple[str, _StoredTurn]] = {}
    for part in batches(trace_ids):
        statement = select(*columns).where(turns.c.trace_id.in_(part)).order_by(turns.c.turn_id).with_for_update()
        for row in connection.execute(statement):
            stored[row.turn_id] = (
                row.trace_id,
                _StoredTurn(
                    app=row.app,
                    environment=row.environment,
                    started_at=row.started_at,
                    content_hash=row.content_hash,
                ),
            )
    return stored


def _delete(connection: Connection, *, gone: Sequence[str], changed: Sequence[str]) -> None:
    for part in batches(gone):
        connection.execute(delete(turns).where(turns.c.turn_id.in_(part)))
    for part in batches(changed):
        connection.execute(delete(jobs).where(jobs.c.turn_id.in_(part)))
        connection.execute(delete(outcomes).where(outcomes.c.turn_id.in_(part)))


def _write(connection: Connection, written: Sequence[Turn]) -> None:
    if not written:
        return
    statement = insert(connection, turns)
    new = statement.excluded
    same = turns.c.content_hash == new.content_hash
    values: dict[str, ColumnElement[object]] = {c.name: new[c.name] for c in turns.c}
    values["decided_at"] = case((same, turns.c.decided_at))
    values["asked"] = case((same, turns.c.asked), else_="")
    values["proxy"] = case((same, turns.c.proxy))
    values["proxy_version"] = case((same, turns.c.proxy_version), else_="")
    ordered = sorted(written, key=lambda t: t.turn_id)
    session_key = pseudonyms.key(connection, pseudonyms.SESSION)
    connection.execute(
        statement.on_conflict_do_update(index_elements=["turn_id"], set_=values),
        [turn_row(t, session_key=session_key) for t in ordered],
    )
    statement = insert(connection, turn_texts)
    new = statement.excluded
    values = {c.name: new[c.name] for c in turn_texts.c}
    connection.execute(
        statement.on_conflict_do_update(index_elements=["turn_id"], set_=values), [turn_text_row(t) for t in ordered]
    )


def _note_assembled(connection: Connection, current: Sequence[Assembly], *, now: datetime) -> None:
    """Count the fragments that were read as assembled, and note what became of each trace."""
    read = select(spans.c.position).where(spans.c.trace_id == bindparam("trace"), spans.c.position <= bindparam("last"))
    connection.execute(
        delete(unassembled).where(unassembled.c.position.in_(read)),
        [{"trace": a.trace_id, "last": a.through} for a in current],
    )
    connection.execute(
        update(traces).where(traces.c.trace_id == bindparam("trace")),
        [
            {
                "trace": a.trace_id,
                "through": a.through,
                "turns": len(a.turns),
                "unread": json_text(dict(a.unread)),
                "assembled_at": now,
                "rules": a.rules,
                "failed": a.failed,
            }
            for a in current
        ],
    )
