"""A channel that is made anew when a file that its section names has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from monitor.model.trends import Alert
from monitor.ports import Channel


@dataclass(frozen=True, slots=True)
class RenewedChannel:
    """Sends through the channel as the files have it now; satisfies `ports.Channel`."""

    present: Callable[[], Channel]

    async def send(self, alert: Alert) -> None:
        """Send the alert; see `ports.Channel`."""
        await self.present().send(alert)

    async def check(self) -> None:
        """Look whether the other side can be reached; see `ports.Channel`."""
        await self.present().check()
