"""`rag-monitor erase`: whose text is found, and what is said about it."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from monitor.cli.main import commands
from monitor.model.spans import Fragment
from monitor.payloads.otlp.fragments import split_otlp
from monitor.payloads.turn_records.fragments import turn_fragment
from monitor.runtime.build import open_parts
from monitor.runtime.pipeline import Pipeline
from monitor.settings.tree import Settings
from monitor.store.sql_store import SqlStore

NOW = datetime.now(UTC)
ANNA = "anna@example.org"
CANARY = "canary-7f3c91"


def erase(path: Path, *arguments: str) -> str:
    """What the verb prints about the store at the path."""
    ended = CliRunner().invoke(
        commands, ["erase", "--store", f"sqlite:///{path}", *arguments], catch_exceptions=False, standalone_mode=False
    )
    return ended.output


def imported(number: int, **ids: str) -> Fragment:
    """An imported turn of somebody."""
    record = {"question": f"{CANARY} {number}?", "context": "Two years.", "answer": f"Two years, {CANARY}.", **ids}
    return turn_fragment(json.dumps(record).encode(), origin=f"t:{number}", app="shop", received_at=NOW)


def spans(number: int, key: str, value: str) -> bytes:
    """An OTLP body of one span, of which no turn is made, with an attribute."""
    span = {
        "traceId": f"{number:x}" * 32,
        "spanId": "00000000000000a1",
        "name": CANARY,
        "attributes": [{"key": key, "value": {"stringValue": value}}],
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


@pytest.fixture
def path(store: SqlStore, store_path: Path) -> Path:
    """A store with judged turns of three sessions and two users, and spans that came to no turn."""
    store.append(
        [imported(1, session_id="s-1", user_id=ANNA), imported(2, session_id="s-1"), imported(3, session_id="s-2")]
    )
    store.append([imported(4, session_id="s-3", user_id="berta@example.org")])

    async def judge() -> None:
        settings = Settings.model_validate({"store": {"url": f"sqlite:///{store_path}"}, "sample": {"rate": 1.0}})
        later = NOW + timedelta(hours=1)
        async with open_parts(settings) as parts:
            pipeline = Pipeline(parts=parts)
            await pipeline.assemble(later)
            await pipeline.sample(later)
            await pipeline.scorer(settings.score, clock=lambda: later).drain()

    asyncio.run(judge())
    bodies = (
        spans(1, "user.id", ANNA),
        spans(2, "app.customer", ANNA),
        spans(3, "top_k", "s-1"),
        spans(4, "session.id", "s-1"),
    )
    for body in bodies:
        store.append(split_otlp(body, "traces", received_at=NOW, encoding="json").fragments)
    return store_path


def test_session(path: Path, store: SqlStore) -> None:
    """Its turns and the spans that name it are erased; a short id under another key is none."""
    assert (
        "erased 3 traces: 3 fragments as received, the text of 2 turns, 2 exchanges with judges, 0 waiting jobs\n"
        "the tables were written anew\n"
    ) == erase(path, "--session", "s-1")
    assert ["s-2", "s-3"] == sorted(filter(None, (turn.session_id for turn in store.turns())))
    assert "nothing of it is stored\n" == erase(path, "--session", "s-1")
    assert 5 == len(store.received(since=None, after="", limit=99))


def test_user(path: Path, store: SqlStore) -> None:
    """A user is found by the hash in turns, and in spans under any key; others keep theirs."""
    printed = erase(path, "--user", ANNA, "--no-rewrite")
    assert printed.startswith("erased 3 traces: 3 fragments as received, the text of 1 turn, 1 exchange with judges")
    assert "anew" not in printed
    assert 1 == sum(turn.user_id is not None for turn in store.turns())
    assert 3 == sum(turn.query is not None for turn in store.turns())


def test_trace(path: Path, store: SqlStore) -> None:
    """A trace is erased by its id; one that is not stored is refused when it comes."""
    assert erase(path, "--trace", "3" * 32).startswith("erased 1 trace: 1 fragment as received, the text of 0 turns")
    assert "nothing of it is stored; 1 trace will be refused\n" == erase(path, "--trace", "9" * 32)
    fragments = split_otlp(spans(9, "k", "v"), "traces", received_at=NOW, encoding="json").fragments
    assert 0 == store.append(fragments)


def test_no_byte_is_left(path: Path, store: SqlStore, caplog: pytest.LogCaptureFixture) -> None:
    """When everybody was erased nothing of what they wrote is in the file, in its log, or in ours."""
    caplog.set_level(logging.DEBUG)
    assert CANARY.encode() in path.read_bytes() + path.with_name(f"{path.name}-wal").read_bytes()
    traces = [
        argument for trace in store.received(since=None, after="", limit=99) for argument in ("--trace", trace.trace_id)
    ]
    erase(path, *traces)
    left = [file.name for file in path.parent.iterdir() if file.is_file() and CANARY.encode() in file.read_bytes()]
    assert [] == left
    assert CANARY not in caplog.text
    assert ANNA not in caplog.text


def test_nobody_named(path: Path) -> None:
    """Without saying whose text nothing is done."""
    with pytest.raises(click.UsageError, match="say whose text: --session, --user or --trace"):
        erase(path)
