"""`rag-monitor reassemble`: traces whose spans are still stored are read again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click

from monitor.cli.options import CONFIG, STORE, examples, moment, open_store_of, settings_of
from monitor.model.spans import StoredFragment
from monitor.model.stored import ReceivedTrace
from monitor.payloads.otlp.fragments import decode_otlp
from monitor.payloads.turn_records.fragments import decode_turns
from monitor.runtime.app import utc_now
from monitor.stages import assemble
from monitor.store.sql_store import SqlStore

_PAGE = 200


@click.command(
    epilog=examples("rag-monitor reassemble --since 2d --app shop", "rag-monitor reassemble --trace 4bf92f3577b34da6")
)
@CONFIG
@STORE
@click.option("--since", metavar="WHEN", help='Only what arrived since: a time ("2026-03-01T00:00Z") or an age ("2d").')
@click.option("--app", help="Only traces of this app.")
@click.option("--trace", "trace_id", metavar="ID", help="Only this trace, or those whose ids begin so.")
def reassemble(
    config: Path | None, store_url: str | None, since: str | None, app: str | None, trace_id: str | None
) -> None:
    """Read stored spans again, after a dialect or the settings learnt to read them better.

    `rag-monitor run` does it at its next ticks. What comes out as before keeps its scores, the rest is judged anew.
    """
    settings = settings_of(config, store_url).assemble
    opened = 0
    with open_store_of(config, store_url) as store:
        for page in _pages(store, since=None if since is None else moment(since), prefix=trace_id or ""):
            chosen = [trace.trace_id for trace in page if app is None or app in _apps(store, trace)]
            opened += assemble.reopen(store, chosen, settings, now=utc_now())
    click.echo(f"{opened} traces will be read again by `rag-monitor run`")


def _pages(store: SqlStore, *, since: datetime | None, prefix: str) -> Iterator[tuple[ReceivedTrace, ...]]:
    """Yield the traces whose ids begin with `prefix`, which stand together where ids are in order."""
    after = prefix[:-1]
    while page := store.received(since=since, after=after, limit=_PAGE):
        yield tuple(trace for trace in page if trace.trace_id.startswith(prefix))
        after = page[-1].trace_id
        if prefix and after[: len(prefix)] > prefix:
            return


def _apps(store: SqlStore, trace: ReceivedTrace) -> frozenset[str]:
    """Return the apps of a trace; where no turn says so, its spans do."""
    return trace.apps or frozenset(
        name for stored in store.fragments([trace.trace_id])[trace.trace_id] for name in _named(stored)
    )


def _named(stored: StoredFragment) -> Iterator[str]:
    if stored.fragment.signal == "turns":
        yield from (turn.app for turn in decode_turns(stored.fragment).turns)
        return
    decoded = decode_otlp(stored.fragment)
    resources = [span.resource for span in decoded.spans] + [log.resource for log in decoded.logs]
    yield from (str(resource.get("service.name", "")) for resource in resources)
