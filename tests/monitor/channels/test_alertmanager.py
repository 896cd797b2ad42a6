"""Alerts to a Prometheus Alertmanager, against Debian's."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from alertmanager_service import Alertmanager
from announced import HOSTILE, LINK, firing, long_names, resolved
from webhook_receiver import Receiver

from monitor import plugins
from monitor.cli.channels import send_test
from monitor.display.alert_text import plain
from monitor.errors import ConfigError, Permanent, Retryable
from monitor.ports import Channel


def channel(url: str, **changes: object) -> Channel:
    """Return a channel."""
    section = {"kind": "alertmanager", "url": url, "link": LINK, **changes}
    return plugins.channel("alertmanager", section, "channels[0]", name="ops")


async def test_an_alert_fires_and_ends_there(alertmanager: Alertmanager) -> None:
    """People are told of the beginning and the end by Alertmanager, once of each, though both are sent twice."""
    ops = channel(alertmanager.url, labels={"severity": "critical"})
    await ops.check()
    assert [] == alertmanager.alerts()
    for _ in range(2):
        await ops.send(firing())
    (begun,) = alertmanager.told(1)
    labels = {
        "alertname": "RagMonitorDefectRate",
        "app": "shop",
        "environment": "production",
        "metric": "groundedness",
        "rubric_id": "r1",
        "rule": "release",
        "severity": "critical",
    }
    assert (begun["status"], begun["labels"]) == ("firing", labels)
    assert begun["startsAt"] == "2026-05-04T10:00:00Z"
    assert begun["generatorURL"] == "https://m.example/alerts/a1"
    summary = "groundedness of shop (production): defect rate rose to 20.0 % (normal: 5.00 %)"
    assert (begun["annotations"]["summary"], begun["annotations"]["alert_id"]) == (summary, "a1")
    (shown,) = alertmanager.alerts()
    assert timedelta(days=29) < datetime.fromisoformat(shown["endsAt"]) - datetime.now(UTC) <= timedelta(days=30)
    over = replace(resolved(), resolved_at=datetime.now(UTC))
    for _ in range(2):
        await ops.send(over)
    _, ended = alertmanager.told(2)
    assert (ended["status"], ended["labels"]) == ("resolved", labels)
    assert "incident is over" in ended["annotations"]["summary"]
    assert [] == alertmanager.alerts()


async def test_names_are_labels_whatever_is_in_them(alertmanager: Alertmanager) -> None:
    """A hostile name and one as long as a request are taken, on one line and cut; an alert is told from the other."""
    for series in (HOSTILE, long_names()):
        await channel(alertmanager.url).send(firing(series))
    told = {alert["labels"]["metric"] + alert["labels"]["app"][0]: alert for alert in alertmanager.told(2)}
    hostile, long = told["safety<"], told["safety&"]
    assert hostile["labels"]["slice"] == "a=\\u2028_b_"
    assert "\n" not in hostile["labels"]["app"]
    assert hostile["annotations"]["summary"].startswith(plain("safety of <!channel> <a href="))
    assert len(long["labels"]["app"]) == 200


async def test_a_test_message_leaves_nothing_behind(alertmanager: Alertmanager) -> None:
    """It fires and ends at once, so that nothing stays."""
    assert {"ops": ""} == await send_test({"ops": channel(alertmanager.url)}, now=datetime.now(UTC))
    assert [] == alertmanager.alerts()


async def test_what_alertmanager_refuses_is_permanent(alertmanager: Alertmanager) -> None:
    """An address that is not its API."""
    with pytest.raises(Permanent) as refused:
        await channel(f"{alertmanager.url}/elsewhere").send(firing())
    assert refused.value.reason == "http_404"


async def test_an_alertmanager_that_is_down_is_tried_again() -> None:
    """Nothing is lost by that."""
    with pytest.raises(Retryable, match="channel 'ops': no answer"):
        await channel("http://127.0.0.1:9", timeout="2s").send(firing())


async def test_the_authorization_is_sent(receiver: Receiver) -> None:
    """To a proxy in front of Alertmanager, which knows none itself; to the documented path, below a prefix."""
    await channel(f"{receiver.origin}/prefix/", authorization="Bearer t").send(firing())
    ((path, headers, body),) = receiver.taken
    assert (path, headers["Authorization"], len(body)) == ("/prefix/api/v2/alerts", "Bearer t", 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": None}, "url: "),
        ({"url": "alertmanager:9093"}, "url: not an http:// or https:// address"),
        ({"labels": {"my-team": "rag"}}, "letters, digits and _"),
        ({"labels": {"app": "rag"}}, "app is a label that every alert has"),
        ({"ends_after": "0s"}, "ends_after"),
    ],
)
def test_a_wrong_section_is_told(changes: dict[str, object], message: str) -> None:
    """What cannot work is said at start."""
    with pytest.raises(ConfigError, match=message):
        channel(**{"url": "http://h", **changes})  # type: ignore[arg-type]
