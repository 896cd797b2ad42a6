"""Alerts to PagerDuty, which calls people: an incident is triggered, then resolved, by its `alert_id`.

Source: developer.pagerduty.com, "Send an alert event" (Events API v2). An event that is sent again joins the alert
with the same key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from monitor.display.alert_details import alert_details
from monitor.display.alert_text import headline, one_line, plain
from monitor.model.trends import Alert, AlertState
from monitor.ports import Channel
from monitor.sending.endpoint import Endpoint, json_body
from monitor.sending.sections import Destination, alert_link, endpoint, place
from monitor.settings.section import needed_secret
from monitor.text.timestamps import rfc3339

_LONGEST_SUMMARY = 1024


class Config(Destination):
    """An integration "Events API V2" of a service."""

    routing_key: SecretStr | None = None
    """The integration's key."""
    routing_key_file: Path | None = None
    """A file that holds it."""
    severity: Literal["critical", "error", "warning", "info"] = "error"
    """What PagerDuty is told of each alert."""
    url: str = "https://events.pagerduty.com/v2/enqueue"
    """`https://events.eu.pagerduty.com/v2/enqueue` for accounts in the EU."""


def build(config: Config, name: str) -> Channel:
    """Return the channel; `name` is what its errors call it.

    Raises:
        ConfigError: there is no key or no usable URL, or a file cannot be read.
    """
    key = needed_secret(config.routing_key, config.routing_key_file, "routing_key", place(name))
    return _PagerDuty(
        endpoint=endpoint(config, name, url=config.url, headers={}),
        routing_key=key,
        severity=config.severity,
        link=config.link,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _PagerDuty:
    endpoint: Endpoint
    routing_key: str
    severity: str
    link: str | None

    async def send(self, alert: Alert) -> None:
        """Trigger or resolve."""
        event: dict[str, object] = {"routing_key": self.routing_key, "dedup_key": alert.alert_id}
        if alert.state is AlertState.RESOLVED:
            event["event_action"] = "resolve"
        else:
            event |= {"event_action": "trigger", "client": "rag-monitor", **self._details(alert)}
        await self.endpoint.post(json_body(event))

    async def check(self) -> None:
        """See whether PagerDuty answers; the key is not tried."""
        await self.endpoint.check()

    def _details(self, alert: Alert) -> dict[str, object]:
        link, series = alert_link(self.link, alert.alert_id), alert.regression.series
        payload = {
            "summary": one_line(headline(alert), most=_LONGEST_SUMMARY),
            "source": plain(one_line(series.app)),
            "severity": self.severity,
            "timestamp": rfc3339(alert.regression.began_at),
            "component": plain(one_line(series.metric)),
            "group": plain(one_line(series.environment)),
            "class": alert.regression.rule,
            "custom_details": alert_details(alert, link=link),
        }
        if not link:
            return {"payload": payload}
        return {"payload": payload, "client_url": link, "links": [{"href": link, "text": "Open the alert"}]}
