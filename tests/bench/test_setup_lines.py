"""bench/setup_lines.py: every section of docs/dialects.md has an app, and one app runs here; the bench runs all."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from monitor import plugins

BENCH = Path(__file__).parents[2] / "bench"
WITHOUT_AN_APP = {"spring_ai"}
"""In Java."""


@pytest.fixture(scope="module")
def setup_lines() -> ModuleType:
    """The script, which finds its parts beside it."""
    sys.path.insert(0, str(BENCH))
    try:
        return importlib.import_module("setup_lines")
    finally:
        sys.path.remove(str(BENCH))


def test_every_dialect_has_an_app(setup_lines: ModuleType) -> None:
    """A new section comes with an app that its lines are run in."""
    assert set(plugins.kinds("dialects")) - WITHOUT_AN_APP == {app.dialect for app in setup_lines.apps()}


def test_the_lines_of_each_app(setup_lines: ModuleType) -> None:
    """Each app has a place for the lines of its language, unless it says that it is not run with them."""
    for app in setup_lines.apps():
        setup = plugins.load("dialects", app.dialect, "test").DIALECT.setup
        code, _ = setup_lines.page_lines(setup, javascript=app.path.suffix == ".mjs")
        made, _ = setup_lines.program(app, setup, setup_lines.MONITOR)
        wanted = [] if app.said("lines") == ["none"] else code
        assert (app.name, [], True) == (
            app.name,
            [line for line in wanted if line not in made],
            bool(app.said("gives")),
        )


@pytest.mark.long
def test_an_app_of_ones_own_spans(tmp_path: Path) -> None:
    """Lines for spans of one's own, run as printed, make the turn that the app answered."""
    (tmp_path / "generic").symlink_to(sys.prefix)
    command = [sys.executable, BENCH / "setup_lines.py", "--environments", tmp_path, "generic"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert "generic: ran; one turn: query citations response session" in ended.stdout
