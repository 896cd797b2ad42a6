"""Two listeners on one port are told in the words of the settings, before anybody listens."""

from __future__ import annotations

import pytest

from monitor.errors import ConfigError
from monitor.runtime.listening import check_places
from monitor.settings.tree import Settings


def _settings(*collectors: dict[str, object], **web: object) -> Settings:
    return Settings.model_validate({"collectors": collectors, "web": web})


_HTTP, _GRPC = {"kind": "otlp_http"}, {"kind": "otlp_grpc"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            _settings(_HTTP, {**_GRPC, "port": 4318}),
            "collectors[1].port: port 4318 on localhost is taken by collectors[0].port; give each its own",
        ),
        (
            _settings(_HTTP, {**_HTTP, "name": "second", "host": "0.0.0.0", "open": True}),  # noqa: S104 -- not opened
            "collectors[1].port: port 4318 on 0.0.0.0 is taken by collectors[0].port",
        ),
        (_settings(_HTTP, {**_GRPC, "port": 4318, "host": "127.0.0.1"}), "collectors[1].port: port 4318 on 127.0.0.1"),
        (_settings({**_HTTP, "port": 8080}), "collectors[0].port: port 8080 on localhost is taken by web.port"),
        (_settings(_HTTP, port=4318), "collectors[0].port: port 4318 on localhost is taken by web.port"),
        (
            _settings({**_HTTP, "unix_socket": "/run/m.sock"}, {**_GRPC, "unix_socket": "/run/m.sock"}),
            "collectors[1].unix_socket: the socket /run/m.sock is taken by collectors[0].unix_socket",
        ),
    ],
)
def test_one_port_for_two(settings: Settings, message: str) -> None:
    """The second is refused, by its key and that of the first."""
    with pytest.raises(ConfigError) as caught:
        check_places(settings)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        _settings({**_HTTP, "port": 0}, {**_GRPC, "port": 0}, port=0),
        _settings({**_HTTP, "host": "127.0.0.1"}, {**_GRPC, "port": 4318, "host": "::1"}),
        _settings({**_HTTP, "unix_socket": "/run/a.sock"}, {**_GRPC, "unix_socket": "/run/b.sock"}),
        _settings({"kind": "file", "path": "spans"}, _HTTP),
    ],
)
def test_a_port_each(settings: Settings) -> None:
    """The defaults, any free ports, loopback addresses that differ, sockets and folders go together."""
    check_places(settings)
