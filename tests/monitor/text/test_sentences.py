"""Cutting answers into sentences."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.text.sentences import split


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ("One.", "Two!", "Three?", "Four")),
        ("返金は14日以内です", ("返金は14日以内です",)),
        ("返金は14日です。手数料は無料です！いつ？", ("返金は14日です。", "手数料は無料です！", "いつ？")),
        ("退款需要14天。免费！", ("退款需要14天。", "免费！")),
        ("धन 14 दिन में। हाँ।", ("धन 14 दिन में।", "हाँ।")),
        ("هل هذا صحيح؟ نعم.", ("هل هذا صحيح؟", "نعم.")),
        ("It costs 3.5 euro. Dr. No pays.", ("It costs 3.5 euro.", "Dr. No pays.")),
        ("See no. 5 in fig. 2. The answer is no. Done.", ("See no. 5 in fig. 2.", "The answer is no.", "Done.")),
        ("Cards, e.g. Visa, cost approx. five euro.", ("Cards, e.g. Visa, cost approx. five euro.",)),
        ("J. K. Rowling wrote it. The U.S. Army came.", ("J. K. Rowling wrote it.", "The U.S. Army came.")),
        ('He said "No." Then he left.', ('He said "No."', "Then he left.")),
        ("it grew fast. then it fell.", ("it grew fast.", "then it fell.")),
        ("Steps:\n1. Open it. Wait.\n2. Close it", ("Steps:", "1. Open it.", "Wait.", "2. Close it")),
        ("- one\n- two\n\n# Head\ntext", ("- one", "- two", "# Head", "text")),
        ("A line that was\nwrapped by a mailer.", ("A line that was wrapped by a mailer.",)),
        (
            "Do so:\n```python\nx = 1. \ny = f(x). Z\n```\nDone.",
            ("Do so:", "```python\nx = 1. \ny = f(x). Z\n```", "Done."),
        ),
        ("```\nnever closed. At all", ("```\nnever closed. At all",)),
        ("...\n---\n|---|", ()),
        ("", ()),
    ],
)
def test_cut(text: str, expected: tuple[str, ...]) -> None:
    """Sentences end where a reader of their language ends them; code, items and headings stand for themselves."""
    assert expected == split(text)


def test_more_than_the_limit() -> None:
    """Over the limit neighbours are joined evenly, and none is lost."""
    sentences = [f"Fact {number} holds." for number in range(100)]
    pieces = split(" ".join(sentences), limit=40)
    assert 40 == len(pieces)
    assert " ".join(sentences) == " ".join(pieces)


@given(st.text(alphabet=st.sampled_from('ab1 .!?\n。`-Dr"”|*#'), max_size=200))
def test_nothing_is_lost(text: str) -> None:
    """Every letter and digit of the text is in its sentences, in order."""
    assert [c for c in text if c.isalnum()] == [c for s in split(text) for c in s if c.isalnum()]


def test_thai() -> None:
    """Thai writes no stops: a long answer is cut at the spaces between its clauses, a short one and its numbers not."""
    clause = "การคืนเงินจะดำเนินการภายใน 14 วันหลังจากได้รับสินค้าคืนแล้ว"
    assert (clause,) == split(clause)
    assert (clause, clause, "ขอบคุณค่ะ") == split(f"{clause} {clause} ขอบคุณค่ะ")


def test_long_text_of_other_scripts_is_left_whole() -> None:
    """Only scripts without stops are cut at spaces."""
    text = "one word after another and " * 20
    assert (text.strip(),) == split(text)


@pytest.mark.parametrize("piece", ["a. ", "e.g. ", "1. ", "x ", "```\n", "- ", "กาก า ", "...", "...a", "!?"])
def test_long_text_of_one_piece(piece: str) -> None:
    """A text that goes on for ever is cut in time that grows with its length, and nothing of it is lost."""
    text = piece * (100_000 // len(piece))
    started = time.process_time()
    pieces = split(text)
    # A quadratic search took half a minute.
    assert time.process_time() - started < 3
    assert text.count("a") == sum(sentence.count("a") for sentence in pieces)
