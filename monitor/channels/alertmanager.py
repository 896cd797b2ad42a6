"""Alerts to a Prometheus Alertmanager, which groups, silences and routes them to people.

Source: prometheus.io, "Alerts API", and `api/v2/openapi.yaml` of Alertmanager. An alert is known by its labels, so one
that is sent again is the same. Alertmanager ends what it hears nothing more of; each alert carries when that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from monitor.display.alert_text import explanation, headline, one_line
from monitor.model.trends import Alert, AlertState
from monitor.ports import Channel
from monitor.sending.endpoint import Endpoint, json_body
from monitor.sending.sections import Destination, alert_link, endpoint, place
from monitor.settings.section import Duration, HeaderSecret, header_secret
from monitor.text.timestamps import rfc3339

_OURS = ("alertname", "app", "environment", "slice", "metric", "rubric_id", "rule")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_LONGEST_LABEL = 200


def _label(name: str) -> str:
    if not _LABEL.fullmatch(name):
        raise ValueError("a label's name has letters, digits and _, and no digit first")
    if name in _OURS:
        raise ValueError(f"{name} is a label that every alert has: {', '.join(_OURS)}")
    return name


class Config(Destination):
    """One Alertmanager; of several that form a cluster, each needs a channel, as Prometheus sends to each."""

    url: str
    """`http://host:9093`, or with the prefix that it is served under."""
    authorization: HeaderSecret | None = None
    """Value of the `Authorization` header, such as `Bearer ...`."""
    authorization_file: Path | None = None
    """A file that holds it."""
    labels: Mapping[Annotated[str, AfterValidator(_label)], str] = Field(default_factory=dict)
    """Labels of each alert beside its own, for Alertmanager's routes, such as `severity: critical`."""
    ends_after: Duration = Field(default=timedelta(days=30), gt=timedelta(0))
    """Alertmanager takes an alert for resolved that it heard nothing more of for that long."""


def build(config: Config, name: str) -> Channel:
    """Return the channel; `name` is what its errors call it.

    Raises:
        ConfigError: there is no usable URL, or a file cannot be read.
    """
    authorization = header_secret(config.authorization, config.authorization_file, f"{place(name)}: authorization")
    headers = {} if authorization is None else {"Authorization": authorization}
    url = f"{config.url.rstrip('/')}/api/v2/alerts"
    return _Alertmanager(
        endpoint=endpoint(config, name, url=url, headers=headers),
        labels=config.labels,
        ends_after=config.ends_after,
        link=config.link,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alertmanager:
    endpoint: Endpoint
    labels: Mapping[str, str]
    ends_after: timedelta
    link: str | None

    async def send(self, alert: Alert) -> None:
        """Post the alert, as firing or as ended."""
        await self.endpoint.post(json_body([self._posted(alert, now=datetime.now(UTC))]))

    async def check(self) -> None:
        """See whether somebody answers there."""
        await self.endpoint.check()

    def _posted(self, alert: Alert, *, now: datetime) -> dict[str, object]:
        regression = alert.regression
        ends_at = now + self.ends_after
        if alert.state is AlertState.RESOLVED:
            ends_at = alert.resolved_at or now
        posted: dict[str, object] = {
            "labels": {**self.labels, **_labels(alert)},
            "annotations": {
                "summary": headline(alert),
                "description": explanation(alert),
                "alert_id": alert.alert_id,
            },
            "startsAt": rfc3339(regression.began_at),
            # One that ends before it starts is refused.
            "endsAt": rfc3339(max(ends_at, regression.began_at)),
        }
        if link := alert_link(self.link, alert.alert_id):
            posted["generatorURL"] = link
        return posted


def _labels(alert: Alert) -> Mapping[str, str]:
    """Return what the alert is known by: its series and its rule, which two alerts never share at once."""
    series = alert.regression.series
    values = (
        "RagMonitorDefectRate", series.app, series.environment, series.slice, series.metric, series.rubric_id,
        alert.regression.rule,
    )  # fmt: skip
    return {name: one_line(value, most=_LONGEST_LABEL) for name, value in zip(_OURS, values, strict=True) if value}
