"""What is to be judged and what came of it: per (turn, metric, rubric) one job or one outcome, never both.

Whoever writes either first locks the turns concerned, in order of their ids. So a job moves to its outcome while nobody
decides about the turn again or replaces its content.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    null,
    or_,
    select,
    tuple_,
    update,
)

from monitor.model.judgements import Job, Outcome, Reason, Sampling
from monitor.store import asked_metrics, changed_windows, under_way
from monitor.store.columns import label
from monitor.store.outcome_rows import exchange_row, job_from, job_row, outcome_row
from monitor.store.statements import batches, insert
from monitor.store.tables import exchanges, jobs, outcomes, turns

_WORTH_ASKING_AGAIN = (Reason.EXPIRED, Reason.BUDGET, Reason.UNAVAILABLE)
"""Nobody was asked, so asking now may give a verdict."""
_KEY = ("turn_id", "metric", "rubric_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class _LockedTurn:
    """A turn as far as jobs and outcomes depend on it, locked for the rest of the transaction."""

    content_hash: str
    decided: bool
    asked: str
    app: str
    environment: str
    started_at: datetime


def record(connection: Connection, samplings: Sequence[Sampling], *, length: timedelta) -> None:
    """Record decisions about turns that have none; see `JobStore.record_samplings`."""
    under_way.end(connection, "turn", [s.turn_id for s in samplings])
    locked = _lock_turns(connection, [s.turn_id for s in samplings])
    undecided: dict[str, Sampling] = {}
    for sampling in samplings:
        turn = locked.get(sampling.turn_id)
        if turn and not turn.decided and turn.content_hash == sampling.content_hash:
            undecided.setdefault(sampling.turn_id, sampling)
    if not undecided:
        return
    lists = {s.turn_id: asked_metrics.labelled(s.asked) for s in undecided.values()}
    names = asked_metrics.keep(connection, lists.values())
    connection.execute(
        update(turns).where(turns.c.turn_id == bindparam("decided")),
        [
            {
                "decided": s.turn_id,
                "decided_at": s.decided_at,
                "asked": names[lists[s.turn_id]],
                "proxy": s.proxy,
                "proxy_version": s.proxy_version,
            }
            for s in undecided.values()
        ],
    )
    unmet = {_key(u.job): u for s in undecided.values() for u in s.unscored}
    _write(connection, unmet, sampled=False)
    waiting = [(j, s.decided_at) for s in undecided.values() for j in s.jobs if _key(j) not in unmet]
    if waiting:
        rows = [job_row(job, created_at=at) for job, at in waiting]
        connection.execute(insert(connection, jobs).on_conflict_do_nothing(), rows)
    _mark(connection, [locked[i] for i in undecided], length=length)


def request(connection: Connection, samplings: Sequence[Sampling], *, length: timedelta) -> int:
    """Add jobs to turns that are decided about, and return how many are new; see `JobStore.request`."""
    locked = _lock_turns(connection, [s.turn_id for s in samplings])
    current = [
        s for s in samplings if (turn := locked.get(s.turn_id)) and turn.decided and turn.content_hash == s.content_hash
    ]
    _ask_about_more(connection, [(locked[s.turn_id].asked, s) for s in current])
    wanted = {_key(job): (job, s.decided_at) for s in current for job in s.jobs}
    for part in batches(sorted(wanted)):
        unasked = outcomes.c.reason.in_(_WORTH_ASKING_AGAIN)
        connection.execute(delete(outcomes).where(tuple_(*(outcomes.c[name] for name in _KEY)).in_(part), unasked))
    known = _keys_of(connection, outcomes, tuple(wanted))
    rows = [job_row(job, created_at=at) for key, (job, at) in sorted(wanted.items()) if key not in known]
    new = 0
    if rows:
        statement = insert(connection, jobs).on_conflict_do_nothing().returning(jobs.c.turn_id)
        new = len(connection.execute(statement, rows).all())
    _write(connection, {_key(u.job): u for s in current for u in s.unscored}, sampled=False)
    _mark(connection, [locked[s.turn_id] for s in current], length=length)
    return new


def asked_already(connection: Connection, wanted: Sequence[Job]) -> frozenset[Job]:
    """Return the jobs that wait, or have an outcome that stays; see `JobStore.asked_already`."""
    keys = [_key(job) for job in wanted]
    stays = or_(outcomes.c.reason.is_(None), outcomes.c.reason.not_in(_WORTH_ASKING_AGAIN))
    known = _keys_of(connection, jobs, keys) | _keys_of(connection, outcomes, keys, stays)
    return frozenset(job for job, key in zip(wanted, keys, strict=True) if key in known)


def claim(
    connection: Connection,
    *,
    now: datetime,
    lease: timedelta,
    limit: int,
    rubric_ids: Sequence[str] | None,
    call_of: Mapping[str, str] | None,
) -> tuple[Job, ...]:
    """Lease jobs that are due, or with `call_of` all of whole calls; see `JobStore.claim`."""
    if call_of is not None:
        return claim_calls(connection, now=now, lease=lease, limit=limit, call_of=call_of)
    wanted = jobs.c.claimable_at <= now
    if rubric_ids is not None:
        wanted = and_(
            jobs.c.rubric_id.in_(rubric_ids), jobs.c.claimable_at <= _horizon(connection, now, limit, rubric_ids)
        )
    # A CTE with a row lock is computed once. As a plain sub-select PostgreSQL may run it again for every row of the
    # join, skip what it locked itself, and so lease more than `limit`.
    due = (
        select(jobs.c.turn_id, jobs.c.metric, jobs.c.rubric_id)
        .where(wanted)
        .order_by(jobs.c.claimable_at, jobs.c.turn_id, jobs.c.metric)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("due")
    )
    rows = connection.execute(
        update(jobs)
        .where(*(jobs.c[name] == due.c[name] for name in _KEY))
        .values(attempt=jobs.c.attempt + 1, not_before=null(), leased_until=now + lease, claimable_at=now + lease)
        .returning(*jobs.c)
    )
    return tuple(job_from(row) for row in sorted(rows, key=lambda r: (r.created_at, r.turn_id, r.metric, r.rubric_id)))


def claim_calls(
    connection: Connection, *, now: datetime, lease: timedelta, limit: int, call_of: Mapping[str, str]
) -> tuple[Job, ...]:
    """Lease the jobs of up to `limit` calls that are due, with all jobs that share a call; see `JobStore.claim`.

    Whoever claims locks the turn first, so that two claimers never take one half of a call each. A turn that somebody
    else has locked is left for the next claim.
    """
    largest = max(Counter(call_of.values()).values(), default=1)
    # More than are wanted, since other claimers look at the same ones.
    enough = (4 * limit + 8) * largest
    horizon = _horizon(connection, now, enough, tuple(call_of))
    due = connection.execute(
        select(jobs.c.turn_id, jobs.c.rubric_id)
        .where(jobs.c.rubric_id.in_(tuple(call_of)), jobs.c.claimable_at <= horizon)
        .order_by(jobs.c.claimable_at, jobs.c.turn_id, jobs.c.metric)
        .limit(enough)
    )
    calls: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for turn_id, rubric_id in due:
        calls[turn_id][call_of[rubric_id]] = None
    chosen: list[tuple[str, str]] = []
    for turn_id in _lock_free_turns(connection, tuple(calls), limit):
        chosen += [(turn_id, call) for call in calls[turn_id]]
    wanted = [
        (turn_id, rubric_id) for turn_id, call in chosen[:limit] for rubric_id, of in call_of.items() if of == call
    ]
    rows = connection.execute(
        update(jobs)
        .where(tuple_(jobs.c.turn_id, jobs.c.rubric_id).in_(wanted), jobs.c.claimable_at <= now)
        .values(attempt=jobs.c.attempt + 1, not_before=null(), leased_until=now + lease, claimable_at=now + lease)
        .returning(*jobs.c)
    )
    return tuple(job_from(row) for row in sorted(rows, key=lambda r: (r.created_at, r.turn_id, r.metric, r.rubric_id)))


def reclaim(connection: Connection, *, now: datetime, longest: timedelta) -> int:
    """Make jobs due that would be more than `longest` from now; see `JobStore.reclaim`."""
    put_off = update(jobs).where(jobs.c.claimable_at > now + longest)
    return connection.execute(put_off.values(claimable_at=now, leased_until=null(), not_before=null())).rowcount


def finish(connection: Connection, finished: Sequence[Outcome], *, length: timedelta) -> None:
    """Replace jobs by their outcomes; see `JobStore.finish`.

    The first outcome stays, except that a verdict takes the place of a failure: it can only come from a judge who was
    given up on too early. An outcome from before the turn's present decision is as good as one from after it, but none
    is taken while there is no decision: it would be judged a second time.
    """
    under_way.end(connection, "job", sorted({o.job.subject for o in finished}))
    locked = _lock_turns(connection, [o.job.turn_id for o in finished])
    current: dict[tuple[str, str, str], Outcome] = {}
    for outcome in finished:
        turn = locked.get(outcome.job.turn_id)
        if turn and turn.decided and turn.content_hash == outcome.job.content_hash:
            current.setdefault(_key(outcome.job), outcome)
    if not current:
        return
    written = _write(connection, current, sampled=True)
    if written:
        statement = insert(connection, exchanges)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=_KEY, set_={c.name: statement.excluded[c.name] for c in exchanges.c}
            ),
            [exchange_row(current[key], started_at=locked[key[0]].started_at) for key in written],
        )
    connection.execute(delete(jobs).where(*_job_is()), [_named(key) for key in sorted(current)])
    _mark(connection, [locked[key[0]] for key in written], length=length)


def release(connection: Connection, leased: Sequence[Job], *, not_before: datetime) -> None:
    """Give leased jobs back, each with its failures; one that was leased again meanwhile is left alone."""
    if not leased:
        return
    connection.execute(
        update(jobs)
        .where(*_job_is(), jobs.c.attempt == bindparam("claimed"))
        .values(
            not_before=not_before, claimable_at=not_before, leased_until=null(), failures=bindparam("counted_failures")
        ),
        [
            {**_named(_key(job)), "claimed": job.attempt, "counted_failures": job.failures}
            for job in sorted(leased, key=_key)
        ],
    )


def orphans(
    connection: Connection, rubric_ids: Sequence[str], *, started_before: datetime, now: datetime, limit: int
) -> tuple[Job, ...]:
    """Return jobs of other rubrics on old turns; see `JobStore.orphans`."""
    statement = (
        select(jobs)
        .join(turns, turns.c.turn_id == jobs.c.turn_id)
        .where(
            jobs.c.rubric_id.not_in([label(rubric_id) for rubric_id in rubric_ids]),
            jobs.c.claimable_at <= now,
            func.coalesce(jobs.c.requested_at, turns.c.started_at) < started_before,
        )
        .order_by(jobs.c.turn_id, jobs.c.metric, jobs.c.rubric_id)
        .limit(limit)
    )
    return tuple(job_from(row) for row in connection.execute(statement))


def _ask_about_more(connection: Connection, decided: Sequence[tuple[str, Sampling]]) -> None:
    """Add what samplings ask to the lists of their turns, named first; a turn of which nobody knows keeps that."""
    lists = asked_metrics.of_names(connection, {name for name, _ in decided})
    longer = {s.turn_id: lists[name] | asked_metrics.labelled(s.asked) for name, s in decided if name}
    names = asked_metrics.keep(connection, longer.values())
    rows = [{"decided": turn_id, "list": names[asked]} for turn_id, asked in sorted(longer.items())]
    if rows:
        statement = update(turns).where(turns.c.turn_id == bindparam("decided")).values(asked=bindparam("list"))
        connection.execute(statement, rows)


def _keys_of(
    connection: Connection, table: Table, keys: Sequence[tuple[str, str, str]], *where: ColumnElement[bool]
) -> frozenset[tuple[str, str, str]]:
    """Return those of the keys that have a row in `jobs` or `outcomes`."""
    columns = [table.c[name] for name in _KEY]
    rows = [
        row
        for part in batches(keys)
        for row in connection.execute(select(*columns).where(tuple_(*columns).in_(part), *where))
    ]
    return frozenset((turn_id, metric, rubric_id) for turn_id, metric, rubric_id in rows)


def _lock_free_turns(connection: Connection, turn_ids: Sequence[str], limit: int) -> tuple[str, ...]:
    """Lock up to `limit` of the turns that nobody else has locked, the first ones first, and return them."""
    if not turn_ids:
        return ()
    place = case({turn_id: place for place, turn_id in enumerate(turn_ids)}, value=turns.c.turn_id)
    statement = select(turns.c.turn_id).where(turns.c.turn_id.in_(turn_ids)).order_by(place).limit(limit)
    return tuple(connection.execute(statement.with_for_update(skip_locked=True, key_share=True)).scalars())


def _horizon(connection: Connection, now: datetime, limit: int, rubric_ids: Sequence[str]) -> datetime:
    """Return an instant not after `now` up to which enough jobs of these rubrics have come due.

    It spares the claim from sorting all that waits for one rubric, or from walking past all that waits for the others.
    Twice the limit and a few more leaves room for what other workers are claiming right now.
    """
    enough = 2 * limit + 64
    first: list[datetime] = []
    for rubric_id in sorted(set(rubric_ids)):
        waiting = select(jobs.c.claimable_at).where(jobs.c.rubric_id == rubric_id, jobs.c.claimable_at <= now)
        first += connection.execute(waiting.order_by(jobs.c.claimable_at).limit(enough)).scalars()
    return sorted(first)[enough - 1] if len(first) >= enough else now


def _lock_turns(connection: Connection, turn_ids: Iterable[str]) -> dict[str, _LockedTurn]:
    locked: dict[str, _LockedTurn] = {}
    columns = (turns.c.turn_id, turns.c.content_hash, turns.c.decided_at, turns.c.asked)
    window = (turns.c.app, turns.c.environment, turns.c.started_at)
    for part in batches(sorted(set(turn_ids))):
        statement = select(*columns, *window).where(turns.c.turn_id.in_(part)).order_by(turns.c.turn_id)
        for row in connection.execute(statement.with_for_update(key_share=True)):
            locked[row.turn_id] = _LockedTurn(
                content_hash=row.content_hash,
                decided=row.decided_at is not None,
                asked=row.asked,
                app=row.app,
                environment=row.environment,
                started_at=row.started_at,
            )
    return locked


def _write(
    connection: Connection, current: Mapping[tuple[str, str, str], Outcome], *, sampled: bool
) -> tuple[tuple[str, str, str], ...]:
    """Write outcomes of locked turns; return the keys of those that were not there yet."""
    if not current:
        return ()
    statement = insert(connection, outcomes)
    new = statement.excluded
    rows = connection.execute(
        statement.on_conflict_do_update(
            index_elements=_KEY,
            set_={c.name: new[c.name] for c in outcomes.c},
            where=and_(outcomes.c.reason.is_not(None), new.reason.is_(None)),
        ).returning(*(outcomes.c[name] for name in _KEY)),
        [outcome_row(current[key], sampled=sampled) for key in sorted(current)],
    )
    return tuple((turn_id, metric, rubric_id) for turn_id, metric, rubric_id in rows)


def _mark(connection: Connection, locked: Iterable[_LockedTurn], *, length: timedelta) -> None:
    changed_windows.mark(connection, [(t.app, t.environment, t.started_at) for t in locked], length=length)


def _key(job: Job) -> tuple[str, str, str]:
    return job.turn_id, label(job.metric), label(job.rubric_id)


def _job_is() -> list[ColumnElement[bool]]:
    return [jobs.c[name] == bindparam(f"key_{name}") for name in _KEY]


def _named(key: tuple[str, str, str]) -> dict[str, object]:
    return {f"key_{name}": part for name, part in zip(_KEY, key, strict=True)}
