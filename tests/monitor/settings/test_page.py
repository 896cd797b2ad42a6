"""docs/settings.md is what the classes say."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that writes the page."""
    spec = importlib.util.spec_from_file_location("settings_page", DOCS / "settings_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page(script: ModuleType) -> None:
    """The page is the one that the script writes."""
    assert script.page() == (DOCS / "settings.md").read_text(encoding="utf-8"), "python docs/settings_page.py --write"


def test_every_key_says_what_it_does(script: ModuleType) -> None:
    """No setting, of the monitor or of a plug-in that is shipped, is without a docstring."""
    assert [] == script.undocumented()


@pytest.mark.parametrize(
    "line",
    [
        "| `sample.rate` | number, at least 0 and at most 1 | `1.0` |",
        "| `web.port` | whole number, at least 0 and at most 65535 | `8080` |",
        "| `judge.budget.daily_usd` | US dollars, at least 0 | null |",
        "| `alert.hold` | duration | `0s` |",
        "| `collectors[].topics.<name>.app` | text | null |",
        "| `channels[].authorization_file` | file | null |",
        "| `sample.rules[].rate` | number, at least 0 and at most 1 | needed |",
    ],
)
def test_lines(script: ModuleType, line: str) -> None:
    """A line has key, value with its bounds, and default, whatever the kind."""
    assert any(shown.startswith(line) for shown in script.page().splitlines())
