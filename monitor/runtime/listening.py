"""Where the settings have somebody listen, looked at before anybody does: two of them cannot have one port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from monitor import plugins
from monitor.errors import ConfigError
from monitor.settings.listener import LOCALHOST
from monitor.settings.tree import Settings, plugin_config

_EVERY_ADDRESS = frozenset(("0.0.0.0", "::", ""))  # noqa: S104 -- compared with, not listened on
_LOOPBACK = frozenset((LOCALHOST, "127.0.0.1", "::1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Somewhere to listen: `port` on `host`, or `unix_socket`."""

    key: str
    """The key path that says so, such as `collectors[1].port`."""
    host: str = ""
    port: int = 0
    """0 for any free one, or for a socket file."""
    unix_socket: Path | None = None

    def __str__(self) -> str:
        """Return what nobody else can have, in words."""
        return f"the socket {self.unix_socket}" if self.unix_socket else f"port {self.port} on {self.host}"

    def collides(self, other: Place) -> bool:
        """Return whether both cannot be listened on."""
        if self.unix_socket or other.unix_socket:
            return self.unix_socket == other.unix_socket
        return self.port == other.port != 0 and (
            self.host == other.host
            or bool({self.host, other.host} & _EVERY_ADDRESS)
            or (LOCALHOST in {self.host, other.host} and {self.host, other.host} <= _LOOPBACK)
        )


def check_places(settings: Settings) -> None:
    """Refuse settings of which two listeners would want the same port or socket.

    Raises:
        ConfigError: they do, or the section of a collector is wrong.
    """
    taken: list[Place] = []
    for place in _places(settings):
        for other in taken:
            if place.collides(other):
                raise ConfigError(f"{place} is taken by {other.key}; give each its own", where=place.key)
        taken.append(place)


def _places(settings: Settings) -> Iterator[Place]:
    yield Place(key="web.port", host=settings.web.host, port=settings.web.port)
    for i, section in enumerate(settings.collectors):
        where = f"collectors[{i}]"
        config = plugin_config(
            plugins.load("collectors", str(section.get("kind")), f"{where}.kind").Config, section, where
        )
        host, port = getattr(config, "host", None), getattr(config, "port", None)
        unix_socket = getattr(config, "unix_socket", None)
        if isinstance(unix_socket, Path):
            yield Place(key=f"{where}.unix_socket", unix_socket=unix_socket)
        elif isinstance(host, str) and isinstance(port, int):
            yield Place(key=f"{where}.port", host=host, port=port)
