"""Alerts to Opsgenie or Jira Service Management, which call people: created, then closed, by their `alert_id`.

Source: docs.opsgenie.com, "Alert API". An alert that is created again while it is open is counted, not doubled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from pydantic import Field, SecretStr

from monitor.display.alert_details import alert_details
from monitor.display.alert_text import explanation, headline, one_line, plain
from monitor.model.trends import Alert, AlertState
from monitor.ports import Channel
from monitor.sending.endpoint import Endpoint, json_body
from monitor.sending.sections import Destination, alert_link, endpoint, place
from monitor.settings.section import needed_secret

_LONGEST_MESSAGE, _LONGEST_DESCRIPTION = 130, 15_000


class Config(Destination):
    """An API integration."""

    api_key: SecretStr | None = None
    """The integration's key."""
    api_key_file: Path | None = None
    """A file that holds it."""
    priority: Literal["P1", "P2", "P3", "P4", "P5"] = "P3"
    """Of each alert."""
    teams: tuple[str, ...] = Field(default=(), max_length=50)
    """Names of the teams that respond; none leaves it to the integration."""
    url: str = "https://api.opsgenie.com/v2/alerts"
    """`https://api.eu.opsgenie.com/v2/alerts` for accounts in the EU,
    `https://api.atlassian.com/jsm/ops/integration/v2/alerts` for Jira Service Management."""


def build(config: Config, name: str) -> Channel:
    """Return the channel; `name` is what its errors call it.

    Raises:
        ConfigError: there is no key or no usable URL, or a file cannot be read.
    """
    key = needed_secret(config.api_key, config.api_key_file, "api_key", place(name))
    headers = {"Authorization": f"GenieKey {key}"}
    return _Opsgenie(
        endpoint=endpoint(config, name, url=config.url, headers=headers),
        priority=config.priority,
        teams=config.teams,
        link=config.link,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opsgenie:
    endpoint: Endpoint
    priority: str
    teams: tuple[str, ...]
    link: str | None

    async def send(self, alert: Alert) -> None:
        """Create or close."""
        if alert.state is not AlertState.RESOLVED:
            await self.endpoint.post(json_body(self._created(alert)))
            return
        url = f"{self.endpoint.url.rstrip('/')}/{quote(alert.alert_id, safe='')}/close?identifierType=alias"
        closed = {"source": "rag-monitor", "note": f"{headline(alert)}. {explanation(alert)}"}
        await replace(self.endpoint, url=url).post(json_body(closed))

    async def check(self) -> None:
        """See whether Opsgenie answers; the key is not tried."""
        await self.endpoint.check()

    def _created(self, alert: Alert) -> dict[str, object]:
        created: dict[str, object] = {
            "message": one_line(headline(alert), most=_LONGEST_MESSAGE),
            "alias": alert.alert_id,
            "description": one_line(f"{headline(alert)}. {explanation(alert)}", most=_LONGEST_DESCRIPTION),
            "source": "rag-monitor",
            "entity": plain(one_line(alert.regression.series.app)),
            "priority": self.priority,
            "tags": ["rag-monitor"],
            "details": dict(alert_details(alert, link=alert_link(self.link, alert.alert_id))),
        }
        if self.teams:
            created["responders"] = [{"type": "team", "name": team} for team in self.teams]
        return created
