"""Measuring an answer's words against its documents."""

import pytest
from judged_turn import judged_turn

from monitor.judging.coded.coverage import LONGEST_ANSWER, LONGEST_CONTEXT, MOST_SENTENCES, Coverage, cover, unmarked
from monitor.model.judgements import Reason
from monitor.model.turns import Citation


def _covered(response: str, *documents: str, query: str = "") -> Coverage:
    coverage = cover(judged_turn(response, *documents, query=query))
    assert isinstance(coverage, Coverage)
    return coverage


def test_copied_answer() -> None:
    """An answer copied from its documents has nothing missing and every word pair."""
    text = "Refunds are paid within 14 days to the card used for the order."
    assert (1.0, 1.0, 1.0, 0.0, 0.0) == _covered(text, text).features()


def test_invented_answer() -> None:
    """An answer about something else has next to nothing of its documents."""
    coverage = _covered("Penguins colonised Antarctica 34 million years ago.", "Refunds are paid within 14 days.")
    covq, worst, pairs, numbers, _ = coverage.features()
    assert (0.0, 0.0, 0.0, 1.0) == (covq, worst, pairs, numbers)
    assert ("34",) == coverage.sentences[0].numbers


def test_question_words_are_known() -> None:
    """Words of the question may be repeated without counting as invented, but not as documented."""
    (sentence,) = _covered(
        "The gold card costs 5 euro.", "It costs 5 euro.", query="What does the gold card cost?"
    ).sentences
    assert () == sentence.missing
    assert 1.0 == sentence.known
    assert sentence.documented < 1.0


def test_worst_sentence() -> None:
    """The worst sentence is the one least covered, numbered as in the answer."""
    coverage = _covered(
        "Hello! Refunds are paid within 14 days. Penguins fly south.", "Refunds are paid within 14 days."
    )
    assert 3 == coverage.worst().index


def test_foreign_name() -> None:
    """A capitalised word inside a sentence that no document holds is a foreign name."""
    (sentence,) = _covered("Refunds are paid by Klarna.", "Refunds are paid by Adyen.").sentences
    assert ("klarna",) == sentence.names


def test_numbers_in_other_spellings() -> None:
    """A number is the same with other separators, and as a word up to fifteen."""
    (sentence,) = _covered("It costs 1,250.50 for 5 days.", "It costs 1250.5 for five days.").sentences
    assert () == sentence.numbers


@pytest.mark.parametrize(
    "marked",
    [
        "Refunds take 14 days [kb-7].",
        "Refunds take 14 days[1][2].",
        "Refunds take 14 days [1, 2].",
        "Refunds take 14 days [kb-7, returns-02].",
        "Refunds take 14 days (kb-7).",
        "Refunds take 14 days [Returns policy].",
        "Refunds take 14 days (source: 3) 【3:0†returns.md】.",
        "Refunds take 14 days [^1].",
        "Refunds take 14 days [ghost-99].",
    ],
)
def test_citation_marks(marked: str) -> None:
    """Marks that cite are no words and no numbers of the answer."""
    document = Citation(id="kb-7", title="Returns policy", content="Refunds take 14 days.")
    coverage = cover(judged_turn(marked.replace("(source: 3)", "(source 3)"), document))
    assert isinstance(coverage, Coverage)
    assert [((), ())] == [(s.missing, s.numbers) for s in coverage.sentences]


def test_brackets_that_cite_nothing() -> None:
    """Brackets with words of the answer stay."""
    assert "Refunds (and credits) take 14 days [in most cases]." == unmarked(
        "Refunds (and credits) take 14 days [in most cases].", ["kb-7"]
    )


def test_japanese() -> None:
    """Languages without spaces are compared by pairs of characters."""
    grounded = _covered("返金は14日以内です。", "返金は14日以内に行われます。")
    invented = _covered("送料は地域により異なります。", "返金は14日以内に行われます。")
    assert grounded.features()[0] > 0.7
    assert invented.features()[0] < 0.4


@pytest.mark.parametrize(
    ("response", "document", "reason"),
    [
        (None, "Refunds take 14 days.", Reason.NO_RESPONSE),
        ("  ", "Refunds take 14 days.", Reason.NO_RESPONSE),
        ("Refunds take 14 days.", "", Reason.NO_CONTEXT),
        ("You're welcome!", "Refunds take 14 days.", Reason.NO_CLAIMS),
        ("I could not find that in the documentation.", "Refunds take 14 days.", Reason.NO_CLAIMS),
        ("!!!", "Refunds take 14 days.", Reason.NO_CLAIMS),
        ("Yes.", "Refunds take 14 days.", Reason.NOT_SUPPORTED),
        (
            "Het bedrag wordt binnen veertien dagen op de rekening gestort.",
            "The amount is paid to the account within fourteen days and there is no fee for it.",
            Reason.NOT_SUPPORTED,
        ),
    ],
)
def test_abstains(response: str | None, document: str, reason: Reason) -> None:
    """Where words cannot tell, the reason is said instead of a score."""
    assert reason == cover(judged_turn(response, document))


def test_a_long_answer() -> None:
    """Of an answer and of its documents so many characters are looked at."""
    text = "Refunds are paid within 14 days. "
    assert LONGEST_ANSWER // len(text) + 1 == len(_covered(text * 3000, text).sentences)
    assert MOST_SENTENCES == len(_covered("1. " * MOST_SENTENCES * 2, text).sentences)
    (sentence,) = _covered(text, "A mill. " * (LONGEST_CONTEXT // 8) + text).sentences
    assert 0.0 == sentence.documented
