"""Which traces were erased, so that nothing of them comes back while a sender may repeat it.

Hashes of their ids under a key of the store are kept, and no longer than text is (`monitor.store.retention`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, select

from monitor.store import pseudonyms
from monitor.store.statements import batches, insert
from monitor.store.tables import erased_traces

_KEY = "trace"


def note(connection: Connection, trace_ids: Sequence[str], *, now: datetime) -> None:
    """Write that these are erased."""
    key = pseudonyms.key(connection, _KEY)
    hashes = sorted(pseudonyms.pseudonym(trace_id, key=key) for trace_id in trace_ids)
    statement = insert(connection, erased_traces)
    again = statement.on_conflict_do_update(
        index_elements=["trace_hash"], set_={"erased_at": statement.excluded.erased_at}
    )
    connection.execute(again, [{"trace_hash": trace_hash, "erased_at": now} for trace_hash in hashes])


def among(connection: Connection, trace_ids: Collection[str]) -> frozenset[str]:
    """Return those of the traces that were erased; where none ever was, that is one look at an empty table."""
    if connection.execute(select(erased_traces.c.trace_hash).limit(1)).first() is None:
        return frozenset()
    key = pseudonyms.key(connection, _KEY)
    named = {pseudonyms.pseudonym(trace_id, key=key): trace_id for trace_id in trace_ids}
    found: list[str] = []
    for part in batches(sorted(named)):
        known = select(erased_traces.c.trace_hash).where(erased_traces.c.trace_hash.in_(part))
        found += connection.execute(known).scalars()
    return frozenset(named[trace_hash] for trace_hash in found)


def forget(connection: Connection, *, before: datetime) -> None:
    """Let what was erased before an instant come back."""
    connection.execute(delete(erased_traces).where(erased_traces.c.erased_at < before))
