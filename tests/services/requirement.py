"""What a missing service means: a skip with its reason, or a failure where RAG_MONITOR_REQUIRE names the service.

`RAG_MONITOR_REQUIRE=postgres,kafka` is how a run says that these services must be there. Every test that uses the
fixture of a service carries the marker of its name, so `-m "not kafka"` leaves no such test behind.
"""

import os
from typing import NoReturn

import pytest

_VARIABLE = "RAG_MONITOR_REQUIRE"
_MARKER_OF_FIXTURE = {"kafka_broker": "kafka", "postgres_server": "postgres", "shared": "shared"}


def required_services() -> frozenset[str]:
    """The services named in RAG_MONITOR_REQUIRE, separated by commas; empty when it is unset."""
    return frozenset(name.strip() for name in os.environ.get(_VARIABLE, "").split(",") if name.strip())


def require_or_skip(service: str, reason: str) -> NoReturn:
    """Skip the running test with `reason`, or fail it where RAG_MONITOR_REQUIRE names `service`."""
    if service in required_services():
        pytest.fail(f"{service} is required by {_VARIABLE}: {reason}", pytrace=False)
    pytest.skip(reason)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a name in RAG_MONITOR_REQUIRE that no marker "NAME: needs ..." declares: a typo would allow skips."""
    declared = (line.partition(":") for line in config.getini("markers"))
    known = {name.strip() for name, _, meaning in declared if meaning.strip().startswith("needs ")}
    if unknown := required_services() - known:
        raise pytest.UsageError(f"{_VARIABLE}: no service {sorted(unknown)}; known: {', '.join(sorted(known))}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the markers of the services that its fixtures use, before `-m` selects by them."""
    for item in items:
        for fixture, marker in _MARKER_OF_FIXTURE.items():
            if fixture in getattr(item, "fixturenames", ()) and item.get_closest_marker(marker) is None:
                item.add_marker(marker)
