"""Text that databases and JSON refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.text.repair import decoded, repaired


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
def test_sound_text(text: str) -> None:
    """Text that both databases take is left as the same object."""
    assert repaired(text) is text


@given(st.text(st.characters()))
def test_any_text(text: str) -> None:
    """Whatever the text, both databases take what becomes of it, and repairing again changes nothing."""
    sound = repaired(text)
    assert "\x00" not in sound
    assert sound == sound.encode().decode() == repaired(sound)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x00b", "a\ufffdb"),
        ("\x00", "\ufffd"),
        ("\ud800", "\ufffd"),
        ("é\udfff", "é\ufffd"),
        ("\ud83d\ude00 \ud83d", "\U0001f600 \ufffd"),
    ],
)
def test_odd_text(text: str, expected: str) -> None:
    """NUL and half a surrogate pair become U+FFFD; a pair becomes the character that it stands for."""
    assert expected == repaired(text)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"plain", ("plain", False)),
        ("said \ufffd".encode(), ("said \ufffd", False)),
        (b"caf\xe9", ("caf\ufffd", True)),
        (b"cut in two \xe2\x82", ("cut in two \ufffd", True)),
        (b"a\x00b", ("a\ufffdb", True)),
        (b"\xe9\x00", ("\ufffd\ufffd", True)),
    ],
)
def test_bytes(raw: bytes, expected: tuple[str, bool]) -> None:
    """Each sequence of bytes that is not UTF-8 becomes one U+FFFD; what the sender wrote as U+FFFD is no repair."""
    assert expected == decoded(raw)
