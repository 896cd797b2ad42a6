"""`rag-monitor explain`: everything stored about one turn."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from monitor.cli.explanation import as_json, as_text, explanation_of
from monitor.cli.hidden_users import user_ids, without_users
from monitor.cli.options import CONFIG, FORMAT, STORE, examples, open_store_of
from monitor.cli.output import quiet_pipe
from monitor.store.pseudonyms import pseudonym


@click.command(epilog=examples("rag-monitor explain 3f9c", "rag-monitor explain 3f9c --format jsonl"))
@click.argument("turn_id")
@CONFIG
@STORE
@click.option("--user-ids", "shows_users", is_flag=True, help="Show users' ids as the app sent them.")
@FORMAT
def explain(turn_id: str, config: Path | None, store_url: str | None, form: str, *, shows_users: bool) -> None:
    """Print everything stored about a turn: spans, turn, sampling, prompt, reply, verdict, window.

    TURN_ID may be cut to its first characters.
    """
    with open_store_of(config, store_url) as store:
        explanation = explanation_of(turn_id, store)
        hashed = partial(pseudonym, key=store.key("user"))
    user_id = explanation.turn.user_id
    if shows_users:
        sent = user_ids(explanation.spans, pseudonym=hashed, user_id=user_id)
        explanation = replace(explanation, user_ids=tuple(sorted(sent)))
    else:
        hidden = without_users(explanation.spans, pseudonym=hashed, user_id=user_id)
        explanation = replace(explanation, spans=hidden)
    with quiet_pipe():
        click.echo(as_json(explanation) if form == "jsonl" else as_text(explanation))
