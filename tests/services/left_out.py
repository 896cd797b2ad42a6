"""What a run of the tests leaves out, said in its last line: tests that are long, and those that `-m` deselects."""

from collections import Counter
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
_LONG_FOLDERS = ("e2e", "examples", "scenarios")
"""Each of their tests starts processes."""
_KINDS = {
    "kafka": "Kafka",
    "postgres": "PostgreSQL",
    "pgbouncer": "PgBouncer",
    "alertmanager": "Prometheus Alertmanager",
    "faketime": "libfaketime",
    "sandbox": "Bubblewrap",
    "wheel": "the wheel",
    "long": "long",
}
"""Marker -> what the last line says of tests that carry it; the first that fits counts."""
_counts = pytest.StashKey[Counter[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin to count."""
    config.stash[_counts] = Counter()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of folders in which every test is long, before `-m` selects by it."""
    for item in items:
        if item.path.is_relative_to(_TESTS) and item.path.relative_to(_TESTS).parts[0] in _LONG_FOLDERS:
            item.add_marker("long")


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count what `-m` leaves out, by its kind."""
    for item in items:
        kind = next((word for marker, word in _KINDS.items() if item.get_closest_marker(marker)), "others")
        item.config.stash[_counts][kind] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the counts of a worker to the process that prints: every worker collects everything."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = dict(session.config.stash[_counts])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Take the counts of one worker: all of them collected the same tests."""
    config, output = getattr(node, "config", None), getattr(node, "workeroutput", {})
    if config is not None and "left_out" in output:
        config.stash[_counts] = Counter(output["left_out"])


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the line, after pytest's own last one."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    counts = config.stash.get(_counts, Counter())
    if reporter is None or hasattr(config, "workeroutput") or config.option.collectonly:
        return
    parts = [f"{count} {kind}" for kind, count in sorted(counts.items())]
    parts += [f"{len(skipped)} skipped, for the reasons above"] if (skipped := reporter.stats.get("skipped")) else []
    if parts:
        reporter.write_line(f"left out: {', '.join(parts)}; `make check` runs all that this machine can run")
