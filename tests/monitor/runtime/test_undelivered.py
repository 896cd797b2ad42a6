"""What a channel does not take is seen, and sent once somebody mends it: on a real store and a real receiver."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from incident import alert_about, rise
from webhook_receiver import Receiver

from monitor.model.trends import Alert, AlertState
from monitor.runtime.build import build_channels, open_parts
from monitor.runtime.channel_digests import channel_digests
from monitor.runtime.pipeline import Pipeline
from monitor.runtime.vitals import Vitals
from monitor.settings.tree import Settings
from monitor.store.sql_store import open_store
from monitor.telemetry import Telemetry

NOW = datetime(2026, 5, 4, 14, 0, tzinfo=UTC)
SAMPLE = re.compile(r"^rag_monitor_(notifications_\w+|problem)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def pending() -> Alert:
    """Return an alert as detection leaves it."""
    return alert_about(rise(detected_at=NOW), AlertState.PENDING)


async def monitored(
    folder: Path, now: datetime, *urls: str
) -> tuple[Mapping[str, str], Mapping[tuple[str, str], float]]:
    """Start with channels 0, 1, ... at these addresses, deliver once, and return the problems and the numbers."""
    channels = [{"kind": "webhook", "name": str(i), "url": url} for i, url in enumerate(urls)]
    settings = Settings.model_validate({"store": {"url": f"sqlite:///{folder / 'm.db'}"}, "channels": channels})
    telemetry = Telemetry("test")
    async with open_parts(settings) as parts:
        built = build_channels(settings, parts.failures)
        digests = channel_digests(settings, key=parts.store.key("channels"))
        await Pipeline(parts=parts, channels=built, channel_digests=digests).alert(now)
        vitals = Vitals(parts.store, telemetry, clock=lambda: now + timedelta(seconds=90))
        vitals.watch_channels(tuple(built), settings.alert)
        async with vitals:
            samples = SAMPLE.findall(telemetry.render().decode())
            problems = vitals.problems()
    telemetry.close()
    return problems, {(name, labels): float(value) for name, labels, value in samples}


async def test_a_channel_with_a_wrong_url_is_seen_until_it_is_mended(tmp_path: Path, receiver: Receiver) -> None:
    """A 404 is a problem and a number at once; with the right URL the message is sent at the next start."""
    receiver.statuses = {"/wrong": 404}
    store = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    store.save_alerts([pending()])
    store.close()
    problems, numbers = await monitored(tmp_path, NOW, f"{receiver.origin}/wrong")
    assert problems == {
        "channel.0": "1 message not delivered, the oldest since 4 May 2026 14:00 UTC (http_404); "
        "sent again until taken or given up"
    }
    assert numbers == {
        ("notifications_undelivered", 'channel="0",state="waiting"'): 1,
        ("notifications_undelivered", 'channel="0",state="given_up"'): 0,
        ("notifications_undelivered_seconds", 'channel="0"'): 90,
        ("problem", 'part="channel.0"'): 1,
    }
    await monitored(tmp_path, NOW + timedelta(minutes=1), f"{receiver.origin}/wrong")
    assert [path for path, _, _ in receiver.taken] == ["/wrong"]
    problems, numbers = await monitored(tmp_path, NOW + timedelta(minutes=2), f"{receiver.origin}/right")
    assert [path for path, _, _ in receiver.taken] == ["/wrong", "/right"]
    assert problems == {}
    assert set(numbers.values()) == {0}


async def test_a_channel_that_is_added_hears_what_is_firing(tmp_path: Path, receiver: Receiver) -> None:
    """After a restart with one channel more, that one is sent the incident, and the other one is not again."""
    store = open_store(f"sqlite:///{tmp_path / 'm.db'}")
    store.save_alerts([pending()])
    store.close()
    urls = (f"{receiver.origin}/a", f"{receiver.origin}/b")
    await monitored(tmp_path, NOW, urls[0])
    for minutes in (1, 2):
        await monitored(tmp_path, NOW + timedelta(minutes=minutes), *urls)
    assert [path for path, _, _ in receiver.taken] == ["/a", "/b"]
