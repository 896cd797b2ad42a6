"""Pieces of documents, and which of them are shown."""

import pytest

from monitor.judging.prompt.passages import Nearness, pieces, shorten
from monitor.judging.prompt.quoting import tokens


def _filler(number: int) -> str:
    return " ".join(f"Filler {number} says that thing {n} is here." for n in range(200))


def test_pieces() -> None:
    """Pieces are whole sentences within the budget, in order, and nothing is lost."""
    passages = pieces(["One is here. Two is here. Three is here.", "Four."], 7)
    assert [(0, 0, "One is here. Two is here."), (0, 1, "Three is here."), (1, 0, "Four.")] == [
        (piece.document, piece.rank, piece.text) for piece in passages
    ]


@pytest.mark.parametrize("text", ["word " * 500, "x" * 2000, "返金" * 500, "👍a" * 300, "a" * 79 + " " + "b" * 81])
def test_endless_sentence(text: str) -> None:
    """A sentence longer than a piece is several, and nothing of it is lost."""
    passages = pieces([text], 20)
    assert max(tokens(piece.text) for piece in passages) <= 21
    assert text.replace(" ", "") == "".join(piece.text for piece in passages).replace(" ", "")


def test_fact_in_a_line_without_stops() -> None:
    """JSON on one line is found wherever in it the fact stands."""
    rows = ", ".join(f'{{"plan": "plan {n}", "days": {n}}}' for n in range(200))
    assert '"plan 173"' in next(Nearness(pieces([rows], 100))("The plan 173 has 173 days")).text
    assert '"plan 173"' in shorten((rows,), ("The plan 173 has 173 days.",), 300)[0]


def test_nearest() -> None:
    """The piece that shares most words comes first, whatever its place; of equals heads come first."""
    passages = pieces(["Opening hours. Shipping is free.", "We ship late. Refunds take 14 days."], 6)
    assert "Refunds take 14 days." == next(Nearness(passages)("How long do refunds take, in days?")).text
    assert ["Opening hours.", "We ship late."] == [piece.text for piece in Nearness(passages)("Bonjour")][:2]


def test_japanese() -> None:
    """Pieces of a script without spaces are found by pairs of characters."""
    passages = pieces(["送料は無料です。返金は14日以内です。"], 9)
    assert "返金は14日以内です。" == next(Nearness(passages)("返金はいつですか")).text


def test_documents_that_fit() -> None:
    """Documents within the budget are left alone."""
    assert ("a b c", "d") == shorten(("a b c", "d"), ("x",), 10)


def test_the_passage_is_kept_wherever_it_stands() -> None:
    """What each sentence of the answer speaks of is shown though it stands in the middle of a long document."""
    hidden = "Refunds for skis are paid within 31 days."
    also = "Gift cards never expire in Norway."
    long = (f"{_filler(1)} {hidden} {_filler(2)}", f"{_filler(3)} {also} {_filler(4)}")
    shown = shorten(long, ("A refund for skis takes 31 days.", "Gift cards do not expire."), 600)
    assert hidden in shown[0]
    assert also in shown[1]
    assert sum(map(tokens, shown)) <= 600
    assert all("[…]" in document for document in shown)
    assert shown[0].startswith("Filler 1 says that thing 0")


def test_without_common_words() -> None:
    """Where no word is shared every document keeps its head."""
    shown = shorten((_filler(1), _filler(2)), ("返金はいつですか",), 300)
    assert [f"Filler {n} says that thing 0" for n in (1, 2)] == [document[:26] for document in shown]
    assert sum(map(tokens, shown)) <= 300


def test_many_documents() -> None:
    """With more documents than the budget holds pieces of, those that do not fit are left out, and marked."""
    shown = shorten(tuple(_filler(n) for n in range(50)), ("thing 7",), 400)
    assert 50 == len(shown)
    assert sum(map(tokens, shown)) <= 450
    assert all(shown)
