"""`rag-monitor reassemble`: which traces wait to be read again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from monitor.cli.main import commands
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
        ([], ["1", "2", "3"]),
        (["--app", "shop"], ["1", "2"]),
        (["--app", "shop", "--since", "1d"], ["1"]),
        (["--trace", "3333"], ["3"]),
        (["--trace", "3" * 32], ["3"]),
        (["--trace", "34"], []),
        (["--app", "nobody"], []),
    ],
)
def test_chosen_traces(store: SqlStore, store_path: Path, arguments: Sequence[str], reopened: Sequence[str]) -> None:
    """The traces of the app, since then, with that id are due at once; the others are left as they are."""
    url = f"sqlite:///{store_path}"
    ended = CliRunner().invoke(commands, ["reassemble", "--store", url, *arguments], catch_exceptions=False)
    assert f"{len(reopened)} traces will be read again by `rag-monitor run`\n" == ended.output
    due = store.due(
        quiet_since=datetime.now(UTC) - AssembleSettings().quiet, open_since=NOW - timedelta(days=9), limit=9
    )
    assert reopened == sorted(trace_id[0] for trace_id in due)
