"""How much text the turns of one trace keep, and how much of it is repaired."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from monitor.assembly.text_limits import LONGEST_TEXT, MOST_TEXT, TEXT_LIMIT, limited
from monitor.extract import json_text
from monitor.model.turns import Citation, Message, Turn

if TYPE_CHECKING:
    from tests.monitor.conftest import Make, Turns

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
TURN = Turn(turn_id="t", trace_id="0" * 32, span_id="s", app="shop", started_at=NOW, ended_at=NOW, query="Why?")


def size(turn: Turn) -> int:
    """Return how many characters of text a turn holds."""
    texts = [turn.query, turn.response, turn.ground_truth, *turn.retrieval_queries]
    texts += [message.content for message in turn.history]
    texts += [text for c in turn.citations or () for text in (c.id, c.title, c.source, c.content)]
    return sum(len(text or "") for text in texts)


def test_turns_of_usual_size() -> None:
    """Up to the limit nothing changes."""
    whole = replace(TURN, response="a" * LONGEST_TEXT, citations=(Citation(id="k", content="b"),))
    assert [TURN, whole] == limited([TURN, whole])


def test_a_long_text() -> None:
    """Of one text so many characters are kept, and the turn is flagged."""
    (turn,) = limited([replace(TURN, response="a" * LONGEST_TEXT + "b")])
    assert ("a" * LONGEST_TEXT, {TEXT_LIMIT}) == (turn.response, turn.flags)


def test_many_texts_of_a_turn() -> None:
    """The documents that come first are kept, and messages of the past only where there is room left."""
    documents = tuple(Citation(id=str(n), content="a" * LONGEST_TEXT) for n in range(5))
    history = (Message(role="user", content="b" * 9),)
    (turn,) = limited([replace(TURN, citations=documents, history=history)])
    assert [LONGEST_TEXT, LONGEST_TEXT, LONGEST_TEXT, LONGEST_TEXT - 8, 0] == [
        len(citation.content or "") for citation in turn.citations or ()
    ]
    assert ((), True, MOST_TEXT) == (turn.history, TEXT_LIMIT in turn.flags, size(turn))


def test_the_latest_messages() -> None:
    """The latest messages are kept, in their order."""
    history = tuple(Message(role="user", content=str(n) + "b" * (LONGEST_TEXT - 1)) for n in range(6))
    (turn,) = limited([replace(TURN, history=history)])
    assert ["2", "3", "4", "5"] == [message.content[0] for message in turn.history]


def test_many_turns() -> None:
    """All turns of a trace share the room; the later ones are flagged."""
    turns = limited([replace(TURN, query=None, response="a" * LONGEST_TEXT)] * 6)
    assert [False] * 4 + [True] * 2 == [TEXT_LIMIT in turn.flags for turn in turns]
    assert sum(map(size, turns)) == MOST_TEXT


def test_broken_documents_of_a_trace(make: Make, turns: Turns) -> None:
    """So many characters of broken JSON are repaired in a trace; what is left unread flags its turns."""
    unit = '"some words",'
    text = "[" + unit * (json_text.LONGEST_REPAIRED // len(unit))
    with json_text.repairing() as repairs:
        read = [json_text.parse(f"[{number},{text}") for number in range(6)]
    assert (0, True, None) == (repairs.left, repairs.left_out, read[-1])
    (turn,) = turns([make.chain(1, "Why?", text + unit), make.call(2, [("user", "Why?")], "So.", parent=1)])
    assert TEXT_LIMIT in turn.flags


def test_a_broken_document_on_many_spans() -> None:
    """The same broken document is repaired once in a trace."""
    text = json.dumps([{"question": "Why?"}] * 100)[:-9]
    with json_text.repairing() as repairs:
        assert json_text.parse(text) is json_text.parse(text)
    assert json_text.MOST_REPAIRED - len(text) == repairs.left


def test_one_broken_document() -> None:
    """What stands within the limit is read, as if the rest had been cut."""
    parsed = json_text.parse('[{"question": "Why?"}' + ', "a"' * json_text.LONGEST_REPAIRED)
    assert parsed is not None
    assert (["question"], True) == (list(parsed.value[0]), len(parsed.value) < json_text.LONGEST_REPAIRED // 4)  # type: ignore[index, arg-type]


@pytest.mark.parametrize("text", ["[" * 500, '{"a":' * 500, "[1][2", '{"a": 1}\n{"b": '])
def test_what_is_no_document(text: str) -> None:
    """What nests without end, and what goes on behind a whole document, is plain text."""
    assert json_text.parse(text) is None
