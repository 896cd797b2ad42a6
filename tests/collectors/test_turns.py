"""Imported turns: the shapes people have, read strictly, kept durable."""

from datetime import UTC, datetime

import orjson
import pytest

from collectors import _turns
from monitor.errors import MalformedPayload
from monitor.model import Message, Turn

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def turns(record: object, origin: str = "f:1") -> tuple[Turn, ...]:
    """Return what a record becomes."""
    made = _turns.fragment(orjson.dumps(record), origin=origin, app="shop", received_at=NOW)
    decoded = _turns.decode(made).turns
    assert len(decoded) == made.count
    return decoded


def test_question_line() -> None:
    """The QA line gives one turn with its context as the only citation."""
    (turn,) = turns({"question": "q", "context": "c", "answer": "a", "ground_truth": "g"})
    assert (turn.query, turn.response, turn.ground_truth, turn.app) == ("q", "a", "g", "shop")
    assert [c.content for c in turn.citations or ()] == ["c"]
    assert turn.started_at == NOW


def test_conversation_gives_a_turn_per_answer() -> None:
    """Each assistant message is a turn with the messages before it as history."""
    found = turns(
        {
            "messages": [
                {"role": "user", "content": "q1"},
                {"role": "assistant", "content": "a1"},
                {"role": "user", "content": "q2"},
                {
                    "role": "assistant",
                    "content": "a2",
                    "context": {"citations": [{"id": 7, "title": "t", "content": "c"}]},
                },
            ]
        }
    )
    assert [(t.query, t.response) for t in found] == [("q1", "a1"), ("q2", "a2")]
    assert found[0].citations is None
    assert found[1].history == (Message(role="user", content="q1"), Message(role="assistant", content="a1"))
    assert [(c.id, c.title, c.rank) for c in found[1].citations or ()] == [("7", "t", 1)]
    assert len({t.turn_id for t in found}) == 2


def test_spring_request() -> None:
    """Spring's EvaluationRequest triple is accepted, with documents as texts or objects."""
    (turn,) = turns({"userText": "q", "dataList": ["x", {"text": "y"}], "responseContent": "a"})
    assert (turn.query, turn.response) == ("q", "a")
    assert [c.content for c in turn.citations or ()] == ["x", "y"]


@pytest.mark.parametrize("context", [None, "", []])
def test_empty_context(context: object) -> None:
    """A context that is there and empty is an empty retrieval; an absent one is unknown."""
    (turn,) = turns({"question": "q", "context": context, "answer": "a"})
    assert not turn.citations


def test_own_time_wins() -> None:
    """`started_at` with any offset dates the turn in UTC."""
    (turn,) = turns({"query": "q", "response": "a", "started_at": "2026-03-01T13:30:00-08:00"})
    assert turn.started_at == datetime(2026, 3, 1, 21, 30, tzinfo=UTC)


def test_equal_lines_of_two_places_are_two_turns() -> None:
    """Two people may ask the same; the same line read again is the same turn."""
    record = {"question": "q", "answer": "a"}
    first, second, again = (turns(record, origin)[0].turn_id for origin in ("f:1", "f:2", "f:1"))
    assert first != second
    assert first == again


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"{", "not_json"),
        (b"[1]", "not_object"),
        (b'{"a": 1}', "no_turn"),
        (b'{"question": 3, "answer": "top secret"}', "wrong_shape"),
        (b'{"messages": [{"role": "user", "content": "x"}]}', "no_turn"),
    ],
)
def test_bad_record_says_why_without_its_text(record: bytes, reason: str) -> None:
    """The reason is a label, the message names keys, and neither repeats what the user said."""
    with pytest.raises(MalformedPayload) as caught:
        _turns.fragment(record, origin="f:1", app="shop", received_at=NOW)
    assert caught.value.reason == reason
    assert "secret" not in str(caught.value)
