"""A missing service skips with its reason, or fails where it is required."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from requirement import require_or_skip

_ROOT = Path(__file__).parents[2]
_TESTS = """
def test_broker(kafka_topic): pass
def test_captures(shared): pass
def test_nothing(): pass
"""
_SKIPS = """
import pytest

def test_skipped(): pytest.skip("no reason given")
@pytest.mark.xfail(reason="known")
def test_expected_failure(): assert False
"""
_SKIPPED_MODULE = """
import pytest

pytest.skip("no module", allow_module_level=True)
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a test session of its own on a machine that has neither Kafka nor the shared folder."""
    (tmp_path / "conftest.py").write_text((_ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_services.py").write_text(_TESTS)
    missing = {"RAG_MONITOR_KAFKA_HOME": str(tmp_path / "kafka"), "RAG_MONITOR_SHARED": str(tmp_path / "none")}

    def pytest_of(*arguments: str, require: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-c", _ROOT / "pyproject.toml", *arguments, tmp_path],
            env={**os.environ, **missing, "COLUMNS": "300", "PYTEST_ADDOPTS": "", "RAG_MONITOR_REQUIRE": require},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return pytest_of


def test_missing_service_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is not required skips, and the reason is the one given."""
    monkeypatch.setenv("RAG_MONITOR_REQUIRE", "kafka")
    with pytest.raises(pytest.skip.Exception, match=r"^no server$"):
        require_or_skip("postgres", "no server")


def test_missing_required_service_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A required service fails, and the message says who requires it and what is missing."""
    monkeypatch.setenv("RAG_MONITOR_REQUIRE", "kafka, postgres")
    with pytest.raises(pytest.fail.Exception, match=r"^postgres is required by RAG_MONITOR_REQUIRE: no server$"):
        require_or_skip("postgres", "no server")


def test_reasons_are_printed(run: Run) -> None:
    """A session says of each test that it skipped what was missing and how to get it."""
    session = run()
    assert "1 passed, 2 skipped" in session.stdout
    assert "kafka/libs (run `make services`, or set RAG_MONITOR_KAFKA_HOME)" in session.stdout
    assert "none (set RAG_MONITOR_SHARED)" in session.stdout
    assert 0 == session.returncode


def test_required_session(run: Run) -> None:
    """A session that requires a missing service fails where another one skips."""
    session = run(require="kafka,shared")
    assert "1 passed, 2 errors" in session.stdout
    assert 1 == session.returncode


def test_everything_required(run: Run, tmp_path: Path) -> None:
    """Where everything is required, no test and no module may skip for any reason; an expected failure is no skip."""
    (tmp_path / "test_skips.py").write_text(_SKIPS)
    (tmp_path / "test_skipped_module.py").write_text(_SKIPPED_MODULE)
    session = run("--continue-on-collection-errors", require="all")
    assert "1 failed, 1 passed, 1 xfailed, 3 errors" in session.stdout
    assert "RAG_MONITOR_REQUIRE=all allows no skip: Skipped: no reason given" in session.stdout
    assert "RAG_MONITOR_REQUIRE=all allows no skip: Skipped: no module" in session.stdout


def test_markers_follow_fixtures(run: Run) -> None:
    """`-m "not kafka"` leaves out a test that uses the broker, though nobody marked it."""
    assert "1 passed, 1 skipped, 1 deselected" in run("-m", "not kafka").stdout


def test_unknown_requirement(run: Run) -> None:
    """A service that no marker declares is refused, and the known ones are listed."""
    session = run(require="postgre")
    known = "alertmanager, all, faketime, kafka, pgbouncer, postgres, sandbox, shared"
    assert f"RAG_MONITOR_REQUIRE: no service ['postgre']; known: {known}" in session.stderr
    assert 4 == session.returncode
