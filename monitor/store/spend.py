"""What each process spent on judges, a row a day: written whole each time, so that writing it again changes nothing."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select

from monitor.model.judgements import Spend
from monitor.store.statements import insert
from monitor.store.tables import spend as table


def record(connection: Connection, worker: str, *, day: datetime, spend: Spend) -> tuple[float, float]:
    """Set the row; return what all processes spent on that day and in its month; see `SpendStore.record_spend`."""
    statement = insert(connection, table).values(
        day=day,
        worker=worker,
        usd=spend.usd,
        calls=spend.calls,
        input_tokens=spend.input_tokens,
        output_tokens=spend.output_tokens,
    )
    values = {name: statement.excluded[name] for name in ("usd", "calls", "input_tokens", "output_tokens")}
    connection.execute(statement.on_conflict_do_update(index_elements=["day", "worker"], set_=values))
    return _usd(connection, day, day), _usd(connection, day.replace(day=1), day)


def between(connection: Connection, since: datetime, until: datetime) -> Spend:
    """Return what all processes spent on the days from `since`, inclusive, to `until`, exclusive."""
    rows = connection.execute(
        select(table.c.usd, table.c.calls, table.c.input_tokens, table.c.output_tokens).where(
            table.c.day >= since, table.c.day < until
        )
    )
    spends = (Spend(usd=r.usd, calls=r.calls, input_tokens=r.input_tokens, output_tokens=r.output_tokens) for r in rows)
    return sum(spends, Spend())


def _usd(connection: Connection, first: datetime, last: datetime) -> float:
    days = table.c.day >= first, table.c.day <= last
    return connection.execute(select(func.sum(table.c.usd)).where(*days)).scalar() or 0.0
