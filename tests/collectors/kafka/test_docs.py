"""The page about Kafka says of every setting what it is by default."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

from collectors.kafka import collector as kafka
from collectors.kafka.settings import Topic
from monitor.settings.section import duration

PAGE = Path(__file__).parents[3] / "docs" / "kafka.md"


def shown(value: object) -> object:
    """A default as the page writes it."""
    if isinstance(value, dict):
        return ", ".join(value)
    return ",".join(value) if isinstance(value, tuple) else value


def meant(text: str) -> object:
    """What the page says as a value."""
    plain = text.strip("`")
    if (mebibytes := re.fullmatch(r"(\d+) MiB", plain)) is not None:
        return int(mebibytes[1]) * 1024 * 1024
    if plain.isdecimal():
        return int(plain)
    return duration(plain) if re.fullmatch(r"\d+[smh]", plain) else {"null": None, "earliest": None}.get(plain, plain)


def test_every_setting() -> None:
    """The table has a row for every setting, with its default, and names the options of a topic."""
    rows = re.findall(r"(?m)^\| `(\w+)` \| (\S[^|]*) \| ", PAGE.read_text(encoding="utf-8"))
    defaults = {name: shown(value) for name, value in kafka.Config()}
    assert defaults == {name: meant(default) for name, default in rows}
    (topics,) = re.findall(r"(?m)^\| `topics` \|.*$", PAGE.read_text(encoding="utf-8"))
    assert all(f"`{option}`" in topics for option in Topic.model_fields)
    assert timedelta(seconds=45) == defaults["session_timeout"]
