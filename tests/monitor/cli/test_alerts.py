"""`rag-monitor alerts`: what it prints from a store."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from incident import BEGAN_AT, alert_about, rise
from json_schema import faults

from monitor.cli.main import commands
from monitor.model.trends import NEVER, Alert, AlertState, Notification
from monitor.store.sql_store import open_store

SCHEMA = Path(__file__).parents[3] / "docs" / "alert.schema.json"
HOUR = timedelta(hours=1)


def alert(state: AlertState, *, hour: int) -> Alert:
    """Return an alert that began so many hours later, as it is stored in this state."""
    began_at, over = BEGAN_AT + hour * HOUR, state is AlertState.RESOLVED
    return alert_about(
        rise(began_at=began_at, recovered_at=began_at + 9 * HOUR if over else None),
        state,
        alert_id=state.value,
        firing_at=None if state is AlertState.PENDING else began_at + 5 * HOUR,
        resolved_at=began_at + 10 * HOUR if over else None,
    )


def test_lines_fit_the_published_schema(tmp_path: Path) -> None:
    """Alerts in every state are printed with exactly the keys of docs/alert.schema.json, newest first."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with closing(open_store(url)) as store:
        store.save_alerts([alert(state, hour=hour) for hour, state in enumerate(AlertState)])
    output = CliRunner().invoke(commands, ("alerts", "--store", url, "--format", "jsonl"), standalone_mode=False).output
    lines = [json.loads(line) for line in output.splitlines()]
    schema = json.loads(SCHEMA.read_text())
    assert [faults(line, schema, schema) for line in lines] == [[], [], []]
    assert [list(line) for line in lines] == [list(schema["properties"])] * 3
    assert [(line["state"], line["recovered_at"], line["resolved_at"]) for line in lines] == [
        ("resolved", "2026-05-04T21:00:00Z", "2026-05-04T22:00:00Z"),
        ("firing", None, None),
        ("pending", None, None),
    ]


def test_messages_that_were_not_delivered_are_named(tmp_path: Path) -> None:
    """The last lines say which channel has not taken how many messages, since when and why."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    firing = alert(AlertState.FIRING, hour=0)
    assert firing.firing_at is not None
    queued = [
        Notification(alert_id="firing", channel=name, transition=AlertState.FIRING, waiting_since=firing.firing_at)
        for name in ("ops", "pager", "taken")
    ]
    with closing(open_store(url)) as store:
        store.save_alerts([firing])
        store.queue_notifications(queued)
        store.save_notification(replace(queued[0], attempt=30, failure="http_404", not_before=NEVER))
        store.save_notification(replace(queued[2], attempt=1, sent_at=firing.firing_at))
    output = CliRunner().invoke(commands, ("alerts", "--store", url), standalone_mode=False).output
    since = "1 message not delivered, the oldest since 4 May 2026 15:00 UTC"
    assert output.splitlines()[-2:] == [
        f"channel ops: {since} (http_404); given up until the channel's settings change",
        f"channel pager: {since}; not tried yet",
    ]


@pytest.mark.parametrize(("grafana_url", "lines"), [("http://grafana:3000", 1), (None, 0)])
def test_alerts_that_grafana_does_not_carry_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grafana_url: str | None, lines: int
) -> None:
    """With a Grafana, one line says how many and since when; what it carries, or never fired, is not counted."""
    monkeypatch.delenv("GRAFANA_URL", raising=False)
    if grafana_url:
        monkeypatch.setenv("GRAFANA_URL", grafana_url)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    carried = replace(alert(AlertState.RESOLVED, hour=0), alert_id="carried", annotated=True)
    with closing(open_store(url)) as store:
        store.save_alerts([carried, *(alert(state, hour=hour) for hour, state in enumerate(AlertState))])
    output = CliRunner().invoke(commands, ("alerts", "--store", url), standalone_mode=False).output
    expected = "Grafana: 2 alerts not annotated, the oldest since 4 May 2026 16:00 UTC; /readyz and the log say why"
    assert [line for line in output.splitlines() if line.startswith("Grafana")] == [expected] * lines
