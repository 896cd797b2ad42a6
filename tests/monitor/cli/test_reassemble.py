"""`rag-monitor reassemble`: which traces wait to be read again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from monitor.cli.main import commands
from monitor.errors import Rejected
from monitor.payloads.otlp.fragments import split_otlp
from monitor.settings.tree import AssembleSettings
from monitor.store.sql_store import SqlStore

NOW = datetime.now(UTC)
SPAN = (
    '{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "%s"}}]},'
    ' "scopeSpans": [{"spans": [{"traceId": "%s", "spanId": "00000000000000a1", "name": "x"}]}]}]}'
)


@pytest.fixture
def store(store: SqlStore) -> SqlStore:
    """Three traces of two apps, that were all read and came to nothing."""
    for number, (app, age) in enumerate([("shop", 0), ("shop", 3), ("desk", 0)], 1):
        body = (SPAN % (app, f"{number:x}" * 32)).encode()
        received_at = NOW - timedelta(days=age)
        store.append(split_otlp(body, "traces", received_at=received_at, encoding="json").fragments)
    with store._database.writing("reading all") as connection:  # noqa: SLF001 -- as if they had been assembled
        connection.exec_driver_sql("DELETE FROM unassembled")
    return store


@pytest.mark.parametrize(
    ("arguments", "reopened"),
    [
        (["--all"], ["1", "2", "3"]),
        (["--since", "1d"], ["1", "3"]),
        (["--app", "shop"], ["1", "2"]),
        (["--app", "shop", "--since", "1d"], ["1"]),
        (["--trace", "3333"], ["3"]),
        (["--trace", "3" * 32], ["3"]),
        (["--since", "0s"], []),
    ],
)
def test_chosen_traces(store: SqlStore, store_path: Path, arguments: Sequence[str], reopened: Sequence[str]) -> None:
    """The traces of the app, since then, with that id are due at once; the others are left as they are."""
    url = f"sqlite:///{store_path}"
    ended = CliRunner().invoke(commands, ["reassemble", "--store", url, "--yes", *arguments], catch_exceptions=False)
    traces = "1 trace" if len(reopened) == 1 else f"{len(reopened)} traces"
    assert f"{traces} will be read again by `rag-monitor run`\n" == ended.output
    due = store.due(
        quiet_since=datetime.now(UTC) - AssembleSettings().quiet, open_since=NOW - timedelta(days=9), limit=9
    )
    assert reopened == sorted(trace_id[0] for trace_id in due)


@pytest.mark.parametrize("arguments", [[], ["--all", "--app", "shop"]])
def test_a_selection_is_asked_for(store_path: Path, store: SqlStore, arguments: Sequence[str]) -> None:
    """Everything is read again only for somebody who says so."""
    ended = CliRunner().invoke(commands, ["reassemble", "--store", f"sqlite:///{store_path}", *arguments])
    assert 2 == ended.exit_code
    assert "say which traces: --since, --app or --trace, or else --all" in ended.output
    assert not _is_due(store)


@pytest.mark.parametrize(("arguments", "count"), [(["--all"], 3), (["--app", "shop"], 2)])
def test_many_traces_are_counted_first(store_path: Path, store: SqlStore, arguments: Sequence[str], count: int) -> None:
    """More than one trace is read again only with --yes; without it their number is told."""
    ended = CliRunner().invoke(commands, ["reassemble", "--store", f"sqlite:///{store_path}", *arguments])
    assert f"{count} traces would be read again; nothing was done, --yes does it\n" == ended.output
    assert not _is_due(store)


def test_a_single_trace(store_path: Path, store: SqlStore) -> None:
    """One that was named is read again at once."""
    ended = CliRunner().invoke(commands, ["reassemble", "--store", f"sqlite:///{store_path}", "--trace", "3" * 32])
    assert "1 trace will be read again by `rag-monitor run`\n" == ended.output
    assert _is_due(store)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trace", "34"], "no trace whose id begins with '34' is stored"),
        (["--app", "nobody"], "no trace of app 'nobody' is stored; there are traces of desk, shop"),
        (["--app", "nobody", "--since", "1d"], "no trace of app 'nobody' arrived since "),
    ],
)
def test_unknown_traces(store_path: Path, store: SqlStore, arguments: Sequence[str], message: str) -> None:
    """A trace or app that nothing is stored of is an error that says what there is."""
    with pytest.raises(Rejected, match=message):
        CliRunner().invoke(
            commands, ["reassemble", "--store", f"sqlite:///{store_path}", *arguments], catch_exceptions=False
        )
    assert not _is_due(store)


def _is_due(store: SqlStore) -> bool:
    quiet_since = datetime.now(UTC) - AssembleSettings().quiet
    return bool(store.due(quiet_since=quiet_since, open_since=NOW - timedelta(days=9), limit=9))
