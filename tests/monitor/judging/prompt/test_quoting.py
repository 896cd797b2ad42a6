"""Judged text as data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.judging.prompt.quoting import clean, fence, fit, tokens


def test_fence() -> None:
    """The mark depends on the key and the turn, and on nothing else."""
    assert fence(b"key", "turn") == fence(b"key", "turn")
    assert 4 == len({fence(key, turn) for key in (b"key", b"other") for turn in ("1", "2")})
    assert 12 == len(fence(b"key", "turn"))


def test_invisible_characters() -> None:
    """Controls, zero-width, bidirectional and tag characters go; tabs, newlines and all scripts stay."""
    text = "a\u200b\u202eb\x00\x1b\ufeff\u2066\U000e0041c\u00ad\r\n\td 返金 ½ 👍"
    assert "abc\n\td 返金 ½ 👍" == clean(text, "mark")


@pytest.mark.parametrize(
    "hidden",
    [
        "\u034f",
        "\u115f",
        "\u180e",
        "\u200c",
        "\u200d",
        "\u2064",
        "\u3164",
        "\ufe0f",
        "\uffa0",
        "\U000e0041",
        "\U000e0100",
        "\U000e01ef",
    ],
)
def test_hidden_text(hidden: str) -> None:
    """No character that nobody sees carries anything to the judge."""
    assert "supported" == clean(hidden.join("supported"), "mark")


@pytest.mark.parametrize("text", ["می‌خواهم", "ශ්‍රී ලංකා", "क्‍ष", "သည်", "ភាសាខ្មែរ"])
def test_spelling_with_joiners(text: str) -> None:
    """Joiners between letters of scripts that spell with them stay, so that a word is judged as it was written."""
    assert text == clean(text, "mark")


@given(st.text(alphabet="ab1\u200b\u200c\u200dم"), st.sampled_from(["ab", "aab", "1a1b"]))
def test_no_mark_is_left(text: str, mark: str) -> None:
    """The mark is in no cleaned text, however it was hidden or nested."""
    assert mark not in clean(text, mark)


@given(st.lists(st.text(alphabet="ab 返", max_size=300), max_size=8), st.integers(20, 400))
def test_fit(texts: list[str], budget: int) -> None:
    """Cut texts fit the budget, keep their heads and their number; short ones stay whole while longer ones are cut."""
    fitted = fit(texts, budget)
    assert len(texts) == len(fitted)
    if sum(len(text.encode()) for text in texts) <= budget * 4:
        assert tuple(texts) == fitted
        return
    assert sum(len(text.encode()) for text in fitted) <= budget * 4 + len(" […]".encode()) * len(texts)
    cut = [(old, new) for old, new in zip(texts, fitted, strict=True) if old != new]
    assert cut
    assert all(old.startswith(new.removesuffix(" […]")) for old, new in cut)
    shortest_cut = min(len(old.encode()) for old, _ in cut)
    whole = [old for old, new in zip(texts, fitted, strict=True) if old == new]
    assert all(len(old.encode()) <= shortest_cut for old in whole)


def test_tokens() -> None:
    """A token is about four letters, or somewhat more than one Chinese character."""
    assert 3 == tokens("twelve bytes")
    assert 3 == tokens("返金返金")
