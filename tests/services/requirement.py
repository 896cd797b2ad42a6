"""What a missing service means: a skip with its reason, or a failure where RAG_MONITOR_REQUIRE names the service.

`RAG_MONITOR_REQUIRE=postgres,kafka` is how a run says that these services must be there; `all` allows no skip, whatever
its reason. Every test that uses the fixture of a service carries the marker of its name, so `-m "not kafka"` leaves no
such test behind.
"""

import os
from collections.abc import Generator
from typing import NoReturn, TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

_VARIABLE = "RAG_MONITOR_REQUIRE"
_ALL = "all"
_MARKER_OF_FIXTURE = {
    "kafka_broker": "kafka",
    "postgres_server": "postgres",
    "pgbouncer": "pgbouncer",
    "alertmanager": "alertmanager",
    "wall_clock": "faketime",
    "shared": "shared",
    "image": "sandbox",
}
_MARKERS_OF_DATABASE = {"postgresql": ("postgres",), "pooled": ("postgres", "pgbouncer")}
"""Of a test that runs once for each database, where the name of one is a parameter."""


def required_services() -> frozenset[str]:
    """The services named in RAG_MONITOR_REQUIRE, separated by commas, or "all"; empty when it is unset."""
    return frozenset(name.strip() for name in os.environ.get(_VARIABLE, "").split(",") if name.strip())


def require_or_skip(service: str, reason: str) -> NoReturn:
    """Skip the running test with `reason`, or fail it where RAG_MONITOR_REQUIRE names `service` or "all"."""
    if {service, _ALL} & required_services():
        pytest.fail(f"{service} is required by {_VARIABLE}: {reason}", pytrace=False)
    pytest.skip(reason)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a name in RAG_MONITOR_REQUIRE that no marker "NAME: needs ..." declares: a typo would allow skips."""
    declared = (line.partition(":") for line in config.getini("markers"))
    known = {_ALL} | {name.strip() for name, _, meaning in declared if meaning.strip().startswith("needs ")}
    if unknown := required_services() - known:
        raise pytest.UsageError(f"{_VARIABLE}: no service {sorted(unknown)}; known: {', '.join(sorted(known))}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the markers of the services that its fixtures or its database use, before `-m` selects by them."""
    for item in items:
        markers = [marker for name, marker in _MARKER_OF_FIXTURE.items() if name in getattr(item, "fixturenames", ())]
        for value in item.callspec.params.values() if hasattr(item, "callspec") else ():
            markers += _MARKERS_OF_DATABASE.get(value, ()) if isinstance(value, str) else ()
        for marker in markers:
            if item.get_closest_marker(marker) is None:
                item.add_marker(marker)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a skipped test where everything is required."""
    report = yield
    return fail_if_skipped(report)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail a skipped module where everything is required."""
    report = yield
    return fail_if_skipped(report)


def fail_if_skipped(report: Report) -> Report:
    """`report`, turned into a failure where it is a skip (an expected failure is none) and everything is required."""
    if _ALL in required_services() and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{_VARIABLE}={_ALL} allows no skip: {reason}"
    return report
