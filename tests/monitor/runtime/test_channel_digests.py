"""What makes a channel's settings other ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from monitor.runtime.channel_digests import channel_digests
from monitor.settings.tree import Settings

KEY = b"k" * 32
SECTION = {"kind": "webhook", "name": "ops", "url": "https://example.org/s3cr3t", "headers": {"X": "1"}}


def digest(section: Mapping[str, object], key: bytes = KEY) -> str:
    """Return the digest of the only channel, which is called ops."""
    return channel_digests(Settings.model_validate({"channels": [section]}), key=key)["ops"]


@pytest.mark.parametrize(
    "change", [{"url": "https://example.org/other"}, {"headers": {"X": "2"}}, {"timeout": "5s"}, {"kind": "pager"}]
)
def test_any_value_changes_the_digest(change: Mapping[str, object]) -> None:
    """Whatever a person changes may be what was wrong."""
    assert digest({**SECTION, **change}) != digest(SECTION)


def test_the_order_of_keys_does_not_matter() -> None:
    """The same settings written otherwise are the same settings."""
    assert digest(dict(reversed(SECTION.items()))) == digest(SECTION)


def test_a_secret_cannot_be_guessed_from_the_digest() -> None:
    """The digest depends on the store's own key, and holds no part of the section."""
    assert digest(SECTION, b"l" * 32) != digest(SECTION)
    assert "s3cr3t" not in digest(SECTION)


def test_a_file_counts_with_what_is_in_it(tmp_path: Path) -> None:
    """A token that is renewed in its file is another setting; a file that is gone is none of our faults."""
    token = tmp_path / "token"
    section = {**SECTION, "authorization_file": str(token)}
    digests = [digest(section)]
    for text in ("wrong", "right"):
        token.write_text(text)
        digests.append(digest(section))
    assert len(set(digests)) == 3


def test_channels_have_digests_by_their_names() -> None:
    """A channel without a name is called as its kind."""
    sections = [SECTION, {"kind": "webhook", "url": "https://example.org/b"}]
    assert list(channel_digests(Settings.model_validate({"channels": sections}), key=KEY)) == ["ops", "webhook"]
