"""`rag-monitor turns`: what was captured, and what it was judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import click

from monitor.cli.known_names import check_names
from monitor.cli.options import CONFIG, FORMAT, STORE, examples, moment, open_store_of
from monitor.cli.output import TABLE_ROWS, print_rows
from monitor.display import tables
from monitor.model.judgements import Outcome
from monitor.model.turns import Turn
from monitor.store.sql_store import SqlStore

_AT_ONCE = 200


@click.command(
    epilog=examples(
        "rag-monitor turns --bad --since 2d",
        "rag-monitor turns --bad --metric groundedness",
        "rag-monitor turns --app shop --since 2d --format jsonl",
    )
)
@CONFIG
@STORE
@click.option("--app", help="Only turns of this app.")
@click.option("--session", "session_id", help="Only turns of the session with this id, as the app sent it.")
@click.option("--since", metavar="WHEN", help='A time ("2026-03-01T00:00Z") or an age ("2d").')
@click.option("--bad", "only_bad", is_flag=True, help="Only turns that a verdict calls a defect.")
@click.option("--metric", "metrics", multiple=True, help="With --bad: by verdicts of this metric; may be repeated.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many; a table stops at 50.")
@FORMAT
def turns(
    config: Path | None,
    store_url: str | None,
    app: str | None,
    session_id: str | None,
    since: str | None,
    metrics: tuple[str, ...],
    limit: int | None,
    form: str,
    *,
    only_bad: bool,
) -> None:
    """Print captured turns and their verdicts, oldest first. Their text is what users wrote: mind where you send it."""
    if metrics and not only_bad:
        raise click.UsageError("--metric goes with --bad")
    with open_store_of(config, store_url) as store:
        check_names(store, app=app, metrics=metrics)
        stored = store.turns(
            app=app,
            since=moment(since) if since is not None else None,
            defect_of=metrics if only_bad else None,
            session_id=session_id,
            limit=limit or (TABLE_ROWS if form == "table" else None),
        )
        print_rows(form, _judged(store, stored), lambda row: tables.turn_line(*row), tables.turn_table)


def _judged(store: SqlStore, stored: Iterator[Turn]) -> Iterator[tuple[Turn, Sequence[Outcome]]]:
    """Yield turns with their outcomes."""
    while page := tuple(islice(stored, _AT_ONCE)):
        outcomes = store.outcomes_of([turn.turn_id for turn in page])
        yield from ((turn, outcomes.get(turn.turn_id, ())) for turn in page)
