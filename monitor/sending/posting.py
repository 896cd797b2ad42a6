"""A channel that makes one message of each alert and posts it, whatever the alert's state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from monitor.model.trends import Alert
from monitor.sending.endpoint import Endpoint, json_body
from monitor.sending.sections import alert_link


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedMessages:
    """A `Channel` over `message`, which makes JSON of an alert and the web page about it ("" without one)."""

    endpoint: Endpoint
    link: str | None
    """As in `Destination`."""
    message: Callable[[Alert, str], dict[str, object]]

    async def send(self, alert: Alert) -> None:
        """Post the message; see `Endpoint.post` for errors."""
        await self.endpoint.post(json_body(self.message(alert, alert_link(self.link, alert.alert_id))))

    async def check(self) -> None:
        """See whether somebody answers there; see `Endpoint.check` for errors."""
        await self.endpoint.check()
