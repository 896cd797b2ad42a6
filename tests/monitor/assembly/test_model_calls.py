"""Which of a turn's model calls answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.monitor.conftest import Make, Turns

FACT = "The mill is run by the Berger family since the year 1900."
ANSWER = "It is run by the Berger family, as its documents say [k-1]."


@pytest.mark.parametrize("verdict", ["yes", '{"binary_score": "yes"}', "GROUNDED"])
def test_a_verdict_is_no_answer(make: Make, turns: Turns, verdict: str) -> None:
    """Apps grade documents before and answers after; who is shown an answer and says a word judges it."""
    (turn,) = turns(
        [
            make.span(1, {"session.id": "s"}, name="chat", lasts=9),
            make.retrieval(2, "Who runs it?", {"k-1": FACT}, parent=1, at=0.1),
            make.call(3, [("user", f"Document: {FACT} Question: Who runs it?")], "yes", parent=1, at=2),
            make.call(4, [("system", f"Context: {FACT}"), ("user", "Who runs it?")], ANSWER, parent=1, at=4),
            make.call(5, [("user", f"Facts: {FACT}\n\nAnswer: {ANSWER}")], verdict, parent=1, at=6),
        ]
    )
    assert ("Who runs it?", ANSWER) == (turn.query, turn.response)


def test_a_short_answer_after_a_long_one(make: Make, turns: Turns) -> None:
    """A conversation shows earlier answers as the model's own words; an answer may be short."""
    (turn,) = turns(
        [
            make.span(1, {"session.id": "s"}, name="chat", lasts=9),
            make.call(2, [("user", "Who runs it?")], ANSWER, parent=1, at=1),
            make.call(
                3, [("user", "Who runs it?"), ("assistant", ANSWER), ("user", "Since when?")], "1900.", parent=1, at=3
            ),
        ]
    )[-1:]
    assert "1900." == turn.response
