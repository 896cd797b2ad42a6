"""`rag-monitor erase`: a person's text leaves the store; what was counted stays counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from monitor.cli.hidden_users import leaves, texts
from monitor.cli.options import CONFIG, STORE, examples, open_store_of
from monitor.errors import MalformedPayload, StoreUnavailable
from monitor.extract import session_and_user
from monitor.model.spans import Attributes, StoredFragment
from monitor.model.stored import Erased
from monitor.payloads.otlp.fragments import decode_otlp
from monitor.payloads.turn_records.fragments import decode_turns
from monitor.store.kept_text import REWRITTEN
from monitor.store.sql_store import SqlStore

_LONG = 8
"""Characters from which on an id under any key is taken for it; a shorter one may stand there by chance."""


@click.command(epilog=examples("rag-monitor erase --session 7f3a-c2", "rag-monitor erase --user anna@example.org"))
@CONFIG
@STORE
@click.option("--session", "session_id", metavar="ID", help="Every trace of this session, by the id that the app sent.")
@click.option("--user", "user_id", metavar="ID", help="Every trace of this user, by the id that the app sent.")
@click.option("--trace", "trace_ids", metavar="ID", multiple=True, help="This trace; may be repeated.")
@click.option("--no-rewrite", "is_quick", is_flag=True, help="Delete only; leave the database's files as they are.")
def erase(
    config: Path | None,
    store_url: str | None,
    session_id: str | None,
    user_id: str | None,
    trace_ids: tuple[str, ...],
    *,
    is_quick: bool,
) -> None:
    """Remove the text of a person or a trace everywhere, and say what that was. Scores and counts stay.

    The tables are written anew, so that no byte is left in the database's files: meanwhile writers wait, and what is
    stored needs its room twice. What the app sends of these traces is refused for as long as text is kept.
    """
    if session_id is None and user_id is None and not trace_ids:
        raise click.UsageError("say whose text: --session, --user or --trace")
    with open_store_of(config, store_url) as store:
        found = {*trace_ids, *store.kept_text.traces_of(session_id=session_id, user_id=user_id)}
        for wanted in filter(None, (session_id, user_id)):
            found |= set(_with_id(store, wanted, found))
        erased = store.kept_text.erase(sorted(found))
        click.echo(_removed(erased))
        if not is_quick and (erased.fragments or erased.turns or erased.exchanges):
            _rewrite(store)


def _with_id(store: SqlStore, wanted: str, known: set[str]) -> Iterator[str]:
    """Yield traces that carry the id in what was received: some have no turn, or none yet.

    One that cannot be read is taken for theirs where the id is long enough not to stand in it by chance.
    """
    for trace_id in store.kept_text.traces_with(wanted.encode()):
        if trace_id not in known:
            fragments = store.fragments([trace_id])[trace_id]
            if any(_is_theirs(stored, wanted) for stored in fragments):
                yield trace_id


def _is_theirs(stored: StoredFragment, wanted: str) -> bool:
    try:
        return wanted in _ids(stored, wanted)
    except MalformedPayload:
        return len(wanted) >= _LONG and wanted.encode() in stored.fragment.payload


def _ids(stored: StoredFragment, wanted: str) -> Iterator[str | None]:
    if stored.fragment.signal == "turns":
        for turn in decode_turns(stored.fragment).turns:
            yield from (turn.session_id, turn.user_id)
        return
    decoded = decode_otlp(stored.fragment)
    for span in decoded.spans:
        yield from _known(span.attributes)
        if len(wanted) >= _LONG:
            yield from texts(span)
    for record in decoded.logs:
        yield from _known(record.event.attributes)
        if len(wanted) >= _LONG:
            yield from leaves(record.event.attributes)
            yield from leaves(record.event.body)


def _known(attributes: Attributes) -> Sequence[str | None]:
    return session_and_user.session(attributes), session_and_user.user(attributes)


def _removed(erased: Erased) -> str:
    if not (erased.fragments or erased.turns or erased.exchanges):
        return "nothing of it is stored" + (
            f"; {_counted(erased.traces, 'trace')} will be refused" if erased.traces else ""
        )
    parts = (
        _counted(erased.fragments, "fragment") + " as received",
        "the text of " + _counted(erased.turns, "turn"),
        _counted(erased.exchanges, "exchange") + " with judges",
        _counted(erased.jobs, "waiting job"),
    )
    return f"erased {_counted(erased.traces, 'trace')}: {', '.join(parts)}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _rewrite(store: SqlStore) -> None:
    by_hand = f"`VACUUM FULL {', '.join(REWRITTEN)}` on PostgreSQL, `VACUUM` on SQLite"
    try:
        is_done = store.kept_text.rewrite()
    except StoreUnavailable:
        click.echo(f"it is deleted, and bytes of it are left in the database's files until {by_hand}", err=True)
        raise
    if not is_done:
        click.echo(f"bytes of it are left in the database's files: the tables' owner has to run {by_hand}", err=True)
        raise click.exceptions.Exit(1)
    click.echo("the tables were written anew")
