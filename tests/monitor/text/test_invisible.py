"""What nobody sees in a name is shown, and what is spelling or part of a picture stays."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.text.invisible import escaped, visible

HIDDEN = "\x00\x1b\x7f\u00ad\u034f\u061c\u115f\u200b\u200c\u200d\u200e\u200f\u2028\u202e\u2066\ufe0f\ufeff\U000e0041"


@pytest.mark.parametrize("character", HIDDEN, ids=ascii)
def test_hidden(character: str) -> None:
    """A character that nobody sees becomes one that everybody sees in a name, and an escape on a screen."""
    assert visible(f"sh{character}op") == "sh\ufffdop"
    assert escaped(f"sh{character}op") == f"sh{character.encode('unicode_escape').decode()}op"


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم", "क्\u200dष", "\u2764\ufe0f", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u2764\ufe0f\u200d\U0001f525", "Grüße, 东京 [x] <b>", "\u0601",
    ],
    ids=ascii,
)  # fmt: skip
def test_kept(text: str) -> None:
    """Joiners of scripts that join, and of pictures, are no trick; nor is anything that is seen."""
    assert (text, text) == (visible(text), escaped(text))


@given(st.text())
def test_nothing_is_left(text: str) -> None:
    """No control, direction or end of line is left, and what was done needs no doing again."""
    for shown in (visible(text), escaped(text)):
        assert (shown, shown) == (visible(shown), escaped(shown))
        assert not {c for c in shown if unicodedata.category(c) in {"Cc", "Zl", "Zp", "Cs"}}
        left = {c for c in shown if unicodedata.bidirectional(c) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI"}}
        assert not left
