"""Replies that are nothing but a number, or yes or no."""

import pytest

from monitor.errors import UnreadableReply
from monitor.judging.reply.findings import Scale
from monitor.judging.reply.plain_text import read_number, read_result, read_yes_no

_STARS = Scale(low=1, high=5, whole=True)
_SHARE = Scale(low=0, high=1)


def _bad(score: float) -> bool:
    return score <= 2


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("5", 5),
        (" 4\n", 4),
        ("**3**", 3),
        ("2.", 2),
        ("1.0", 1),
        ("4 stars", 4),
        ("Five stars", 5),
        ("one star.", 1),
        ("3/5", 3),
        ("4 out of 5", 4),
        ("4 out of five.", 4),
        ("# 2", 2),
        ("5 / 5", 5),
    ],
)
def test_number(text: str, score: int) -> None:
    """A number alone is the score, whatever its dress."""
    finding = read_number(text, _STARS, _bad)
    assert (float(score), score <= 2) == (finding.score, finding.defect)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "6",
        "45",
        "-3",
        "4.5",
        "I would say 4",
        "4 because it is good",
        "4 5",
        "none",
        "1 and 5",
        "٤٥٦",
        ".5",
        "-.5",
        "4/10",
        "4 out of 10",
        "4.0001",
        "1e0",
        "5%",
        "05 5",
        "5\u200b5",
        "½",
        "⑤",
        "NaN",
        "Infinity",
    ],
)
def test_no_number(text: str) -> None:
    """A number in prose, two of them, or one outside the scale is no score."""
    with pytest.raises(UnreadableReply):
        read_number(text, _STARS, _bad)


@pytest.mark.parametrize(("text", "score"), [("0.7", 0.7), ("1", 1), ("0", 0), ("**0.25**.", 0.25), ("0.5/1", 0.5)])
def test_share(text: str, score: float) -> None:
    """On a scale of numbers a decimal is read too."""
    assert score == read_number(text, _SHARE, _bad).score


@pytest.mark.parametrize("text", [".7", "0,7", "70%", "7", "-0.1", "1.1", "0.5/5", "0.5 0.6"])
def test_no_share(text: str) -> None:
    """A share in another form, or of another scale, is no score."""
    with pytest.raises(UnreadableReply, match="a number from 0 to 1"):
        read_number(text, _SHARE, _bad)


def test_result() -> None:
    """The number below the one result line counts, and what stands before it is the reason."""
    finding = read_result("doc 1 fits: 5\n# Overall Reason\nOne does.\n# Result\n4", _STARS, _bad)
    assert (4.0, "doc 1 fits: 5\n# Overall Reason\nOne does.") == (finding.score, finding.reason)
    assert 2.0 == read_result("# Result: 2", _STARS, _bad).score


@pytest.mark.parametrize("text", ["4", "# Result\n", "# Result\n5\n# Result\n1", "# Result\nabout 4", "# Result\n7"])
def test_no_result(text: str) -> None:
    """No such line, two of them, or anything but a number of the scale below it is no score."""
    with pytest.raises(UnreadableReply):
        read_result(text, _STARS, _bad)


@pytest.mark.parametrize(
    ("text", "label"),
    [("YES", "yes"), ("yes\n", "yes"), ("**No**", "no"), ("No.", "no"), (" Yes, it is.", "yes"), ('"NO"', "no")],
)
def test_yes_no(text: str, label: str) -> None:
    """The first word decides, whatever its case and what follows."""
    finding = read_yes_no(text, lambda score: score < 0.5)
    assert (label, float(label == "yes"), label == "no") == (finding.label, finding.score, finding.defect)


@pytest.mark.parametrize("text", ["", "maybe", "The answer is yes.", "Not sure", "nope", "yesterday", "是"])
def test_neither(text: str) -> None:
    """Anything else is unreadable and no "no"."""
    with pytest.raises(UnreadableReply):
        read_yes_no(text, lambda score: score < 0.5)
