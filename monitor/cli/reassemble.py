"""`rag-monitor reassemble`: traces whose spans are still stored are read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import click

from monitor.cli.options import CONFIG, STORE, examples, moment, open_store_of, settings_of
from monitor.errors import Rejected
from monitor.model.spans import StoredFragment
from monitor.model.stored import ReceivedTrace
from monitor.payloads.otlp.fragments import decode_otlp
from monitor.payloads.turn_records.fragments import decode_turns
from monitor.runtime.app import utc_now
from monitor.stages import assemble
from monitor.store.sql_store import SqlStore

_PAGE = 200


@click.command(
    epilog=examples(
        "rag-monitor reassemble --since 2d --app shop --yes", "rag-monitor reassemble --trace 4bf92f3577b34da6"
    )
)
@CONFIG
@STORE
@click.option("--since", metavar="WHEN", help='Only what arrived since: a time ("2026-03-01T00:00Z") or an age ("2d").')
@click.option("--app", help="Only traces of this app.")
@click.option("--trace", "trace_id", metavar="ID", help="Only this trace, or those whose ids begin so.")
@click.option("--all", "wants_all", is_flag=True, help="Every trace that is stored.")
@click.option("--yes", "is_agreed", is_flag=True, help="Do it; without it more than one trace is only counted.")
def reassemble(
    config: Path | None,
    store_url: str | None,
    since: str | None,
    app: str | None,
    trace_id: str | None,
    *,
    wants_all: bool,
    is_agreed: bool,
) -> None:
    """Read stored spans again, after a dialect or the settings learnt to read them better.

    `rag-monitor run` does it at its next ticks. What comes out as before keeps its scores, the rest is judged anew.
    """
    if wants_all == any(option is not None for option in (since, app, trace_id)):
        raise click.UsageError("say which traces: --since, --app or --trace, or else --all")
    settings = settings_of(config, store_url).assemble
    with open_store_of(config, store_url) as store:
        chosen = _chosen(store, since=None if since is None else moment(since), app=app, prefix=trace_id or "")
        if len(chosen) > 1 and not is_agreed:
            click.echo(f"{len(chosen)} traces would be read again; nothing was done, --yes does it")
            return
        pages = (chosen[at : at + _PAGE] for at in range(0, len(chosen), _PAGE))
        opened = sum(assemble.reopen(store, page, settings, now=utc_now()) for page in pages)
    click.echo(f"{opened} {'trace' if opened == 1 else 'traces'} will be read again by `rag-monitor run`")
    if opened < len(chosen):
        click.echo(f"{len(chosen) - opened} are left as they are: not all of their spans are kept any more")


def _chosen(store: SqlStore, *, since: datetime | None, app: str | None, prefix: str) -> Sequence[str]:
    """Return the ids of the traces.

    Raises:
        Rejected: none begins with `prefix`, or none is of that app.
    """
    chosen: list[str] = []
    apps: set[str] = set()
    for page in _pages(store, since=since, prefix=prefix):
        for trace in page:
            its_apps = frozenset() if app is None else _apps(store, trace)
            apps |= its_apps
            if app is None or app in its_apps:
                chosen.append(trace.trace_id)
    arrived = "is stored" if since is None else f"arrived since {since:%Y-%m-%d %H:%M} UTC"
    if app is not None and not chosen and apps:
        known = ", ".join(sorted(filter(None, apps))) or "apps without a name"
        raise Rejected(f"no trace of app {app!r} {arrived}; there are traces of {known}", reason="no_such_app")
    if prefix and not chosen:
        raise Rejected(f"no trace whose id begins with {prefix!r} {arrived}", reason="no_such_trace")
    return chosen


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
