"""`rag-monitor channels`: do people get what is sent to them. The only way to know is to send something."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from monitor.cli.options import CONFIG, examples, settings_of
from monitor.cli.output import FAILED, print_table
from monitor.errors import ConfigError, MonitorError
from monitor.model.trends import Alert, AlertState, Regression, Series
from monitor.ports import Channel
from monitor.runtime.app import utc_now
from monitor.runtime.build import build_channels
from monitor.runtime.isolation import PluginFailures
from monitor.settings.tree import Settings

_PATIENCE = timedelta(minutes=2)
"""As long as a message about an alert may take."""


@click.group(epilog=examples("rag-monitor channels test", "rag-monitor channels test on-call"))
def channels() -> None:
    """Try the channels that alerts are sent to."""


@channels.command("test", epilog=examples("rag-monitor channels test", "rag-monitor channels test on-call"))
@CONFIG
@click.argument("name", required=False)
def test(config: Path | None, name: str | None) -> int:
    """Send a test message to every channel, or to the one of this NAME: firing, then resolved, so that it is closed.

    The metric of a test message is TEST, its alert_id begins with "test-". Nothing is stored.
    """
    outcomes = asyncio.run(send_test(chosen(settings_of(config, None), name), now=utc_now()))
    table = Table(box=None, show_header=False)
    for channel, failure in outcomes.items():
        table.add_row("FAILED" if failure else "ok", escape(channel), escape(failure or "took firing and resolved"))
    print_table(table)
    return FAILED if any(outcomes.values()) else 0


def chosen(settings: Settings, name: str | None) -> Mapping[str, Channel]:
    """Return all configured channels, or the one of this name.

    Raises:
        ConfigError: there is none, or none of this name.
    """
    configured = build_channels(settings, PluginFailures())
    if not configured:
        raise ConfigError("none; expected a list with an entry such as {kind: webhook, url: ...}", where="channels")
    if name is None:
        return configured
    if name not in configured:
        raise ConfigError(f"no channel {name!r}; known: {', '.join(configured)}", where="channels test")
    return {name: configured[name]}


async def send_test(configured: Mapping[str, Channel], *, now: datetime) -> Mapping[str, str]:
    """Send a test incident to each channel at once; return by name why it was not taken, "" for one that was."""
    alert = sample_alert(now)
    failures = await asyncio.gather(*(_send(channel, alert) for channel in configured.values()))
    return dict(zip(configured, failures, strict=True))


def sample_alert(now: datetime) -> Alert:
    """Return an incident that never was: it is over at once, and says in words and values that it is a test."""
    regression = Regression(
        series=Series(app="rag-monitor", environment="", slice="", metric="TEST", rubric_id="test"),
        rule="continuous",
        began_at=now,
        detected_at=now,
        recovered_at=None,
        rate=0.0,
        rate_lower=0.0,
        rate_upper=0.0,
        baseline_rate=0.0,
        null_rate=0.0,
        evidence_log10=0.0,
        threshold_log10=0.0,
        promise="This is a test message, sent by rag-monitor channels test: nothing is wrong.",
    )
    return Alert(
        alert_id=f"test-{secrets.token_hex(14)}",
        fingerprint="test",
        state=AlertState.FIRING,
        regression=regression,
        pending_at=now,
        firing_at=now,
    )


async def _send(channel: Channel, alert: Alert) -> str:
    over = replace(
        alert,
        state=AlertState.RESOLVED,
        resolved_at=alert.firing_at,
        regression=replace(alert.regression, recovered_at=alert.regression.began_at),
    )
    try:
        async with asyncio.timeout(_PATIENCE.total_seconds()):
            await channel.send(alert)
            await channel.send(over)
    except MonitorError as error:
        return str(error)
    except TimeoutError:
        return f"not taken within {_PATIENCE}"
    return ""
