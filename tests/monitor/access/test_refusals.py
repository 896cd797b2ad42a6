"""What the log is told of those who were not let in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from monitor.access.refusals import Refusals, peer_name

BEGIN = datetime(2026, 5, 4, tzinfo=UTC)


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> datetime:
        """Return the instant."""
        return self.now


def test_first_refusal_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """The first of a reason is a line with the peer and why."""
    refusals = Refusals("otlp_http", HandClock())
    refusals.refused("unauthenticated", "10.0.0.7", "no valid credentials")
    assert ["otlp_http: refused 10.0.0.7: no valid credentials"] == caplog.messages


def test_a_flood_is_one_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """What comes within a minute is counted, and told with its peers, of which five are named, in the next line."""
    clock = HandClock()
    refusals = Refusals("otlp_http", clock)
    for second in range(61):
        clock.now = BEGIN + timedelta(seconds=second)
        refusals.refused("unauthenticated", f"10.0.0.{second}", "no valid credentials")
    peers = "10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5 and others"
    assert [
        "otlp_http: refused 10.0.0.0: no valid credentials",
        f"otlp_http: refused 60 since the last such line, from {peers}: no valid credentials",
    ] == caplog.messages
    assert {"unauthenticated": 61} == refusals.counts()


def test_reasons_do_not_hide_each_other(caplog: pytest.LogCaptureFixture) -> None:
    """A flood for one reason keeps no line about another back."""
    refusals = Refusals("web", HandClock())
    for _ in range(3):
        refusals.refused("unauthenticated", "10.0.0.7", "no valid credentials")
    refusals.refused("tls_handshake", "10.0.0.8", "no certificate")
    assert ["web: refused 10.0.0.7: no valid credentials", "web: refused 10.0.0.8: no certificate"] == caplog.messages


def test_a_clock_that_is_set_back_keeps_no_line_back(caplog: pytest.LogCaptureFixture) -> None:
    """After a jump of the clock, of an hour into the past too, the next refusal is told."""
    clock = HandClock()
    refusals = Refusals("web", clock)
    for hours in (0, -1, 1):
        clock.now = BEGIN + timedelta(hours=hours)
        refusals.refused("unauthenticated", "10.0.0.7", "no valid credentials")
    assert ["web: refused 10.0.0.7: no valid credentials"] * 3 == caplog.messages


@pytest.mark.parametrize(
    ("host", "name"),
    [("10.0.0.7", "10.0.0.7"), ("::ffff:10.0.0.7", "10.0.0.7"), ("2001:db8::1", "2001:db8::1"), (None, "a process of")],
)
def test_peers_are_named_as_people_write_them(host: str | None, name: str) -> None:
    """An IPv4 peer of a listener for both families has its IPv4 address."""
    assert peer_name(host).startswith(name)
