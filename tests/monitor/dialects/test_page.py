"""docs/dialects.md says for every dialect what its file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor import plugins
from monitor.extract.convention import Convention

PAGE = Path(__file__).parents[3] / "docs" / "dialects.md"
LANGUAGES = {"nodejs": "JavaScript", "java": "Java"}
KINDS = plugins.kinds("dialects")


def section(convention: Convention) -> str:
    """What the page says of a dialect below its heading."""
    setup = convention.setup
    told = [
        ("Releases", convention.versions),
        ("Content", {"": "on by default", None: ""}.get(setup.content, f"off; switch it on with `{setup.content}`")),
        ("Mind", setup.remark),
        ("Session", setup.session),
        ("Documents", setup.documents),
        *(
            (f"{what} ({LANGUAGES[language]})", words)
            for language, own in setup.elsewhere.items()
            for what, words in (("Content", own.content), ("Session", own.session), ("Documents", own.documents))
        ),
        ("Source", f"<{convention.url}>"),
    ]
    rows = "\n".join(f"- **{name}:** {value}" for name, value in told if value)
    return f"### `{convention.name}`\n\n```\n{setup.lines}\n```\n\n{rows}\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_section(kind: str) -> None:
    """Lines to add, the switch for content, session and documents stand in the page as the dialect's file has them."""
    found = plugins.load("dialects", kind, "test").DIALECT
    assert section(found) in PAGE.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_a_setup(kind: str) -> None:
    """Every dialect says what to add to an app."""
    assert plugins.load("dialects", kind, "test").DIALECT.setup.lines


def test_nothing_else() -> None:
    """The page has no section of a dialect that does not ship."""
    headings = [line.strip("# `") for line in PAGE.read_text().splitlines() if line.startswith("### `")]
    assert sorted(KINDS) == sorted(headings)
