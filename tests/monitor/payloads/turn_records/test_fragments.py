"""Imported turns: the shapes people have, read strictly, kept durable."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from monitor.display.tables import turn_line
from monitor.errors import MalformedPayload
from monitor.model.turns import Citation, Message, Turn, turn_id
from monitor.payloads.turn_records.fragments import decode_turns, turn_fragment

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def turns(record: object, origin: str = "f:1") -> tuple[Turn, ...]:
    """Return what a record becomes."""
    fragment = turn_fragment(orjson.dumps(record), origin=origin, app="shop", received_at=NOW)
    decoded = decode_turns(fragment).turns
    assert len(decoded) == fragment.count
    return decoded


def test_question_line() -> None:
    """The QA line gives one turn with its context as the only citation."""
    (turn,) = turns({"question": "q", "context": "c", "answer": "a", "ground_truth": "g"})
    assert (turn.query, turn.response, turn.ground_truth, turn.app) == ("q", "a", "g", "shop")
    assert [c.content for c in turn.citations or ()] == ["c"]
    assert turn.started_at == NOW


def test_conversation_gives_a_turn_per_answer() -> None:
    """Each question that was answered is a turn with the messages before it as history."""
    answered = turns(
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
    assert [(t.query, t.response) for t in answered] == [("q1", "a1"), ("q2", "a2")]
    assert answered[0].citations is None
    assert answered[1].history == (Message(role="user", content="q1"), Message(role="assistant", content="a1"))
    assert [(c.id, c.title, c.rank) for c in answered[1].citations or ()] == [("7", "t", 1)]
    assert len({t.turn_id for t in answered}) == 2


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
    (turn,) = turns({"query": "q", "response": "a", "started_at": "2026-02-28T13:30:00-08:00"})
    assert turn.started_at == datetime(2026, 2, 28, 21, 30, tzinfo=UTC)


@pytest.mark.parametrize(("ahead", "expected"), [(5, (5, False)), (6, (0, True)), (24 * 60, (0, True))])
def test_clock_that_is_ahead(ahead: int, expected: tuple[int, bool]) -> None:
    """A turn that would begin more than five minutes after its arrival is dated by that, and flagged."""
    (turn,) = turns({"query": "q", "response": "a", "started_at": (NOW + timedelta(minutes=ahead)).isoformat()})
    assert ((turn.started_at - NOW) // timedelta(minutes=1), "time_repaired" in turn.flags) == expected


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
        (b'{"question": ["x"], "answer": "top secret"}', "wrong_shape"),
        (b'{"messages": [{"role": "user", "content": "x"}]}', "no_turn"),
    ],
)
def test_bad_record_says_why_without_its_text(record: bytes, reason: str) -> None:
    """The reason is a label, the message names keys, and neither repeats what the user said."""
    with pytest.raises(MalformedPayload) as caught:
        turn_fragment(record, origin="f:1", app="shop", received_at=NOW)
    assert caught.value.reason == reason
    assert "secret" not in str(caught.value)


def test_printed_turn_reads_back_whole() -> None:
    """What `turns --format jsonl` prints keeps ids, times, counts, facets and each citation as it was."""
    trace, span = "0123456789abcdef0123456789abcdef", "0123456789abcdef"
    turn = Turn(
        turn_id=turn_id(trace, span),
        trace_id=trace,
        span_id=span,
        app="helpdesk",
        environment="production",
        release="1.4",
        session_id="s-1",
        user_id="u",
        query="q",
        history=(Message(role="user", content="before"), Message(role="assistant", content="answered")),
        retrieval_queries=("rewritten",),
        citations=(
            Citation(id="a", title="t", content="c", score=0.25, score_kind="distance", source="s", rank=1, used=True),
            Citation(title="only a title", rank=2, used=False),
        ),
        response="a",
        ground_truth="g",
        relevant_ids=("kb-1",),
        model="m",
        input_tokens=0,
        output_tokens=7,
        error="APIError",
        streaming=False,
        started_at=NOW - timedelta(days=400, microseconds=1),
        ended_at=NOW - timedelta(days=399),
        dialect="openinference",
        facets={"language": "de"},
        flags=frozenset({"truncated", "root_missing"}),
    )
    fragment = turn_fragment(turn_line(turn).encode(), origin="f:1", app="shop", received_at=NOW)
    assert replace(turn, dialect="import") == decode_turns(fragment).turns[0]
    assert trace == fragment.trace_id


def test_printed_turn_without_citations() -> None:
    """Not knowing what was retrieved stays different from having retrieved nothing."""
    plain = turns({"question": "q", "answer": "a"})[0]
    none = turns({"question": "q", "context": [], "answer": "a"})[0]
    citations = [turns(orjson.loads(turn_line(turn)))[0].citations for turn in (plain, none)]
    assert [None, ()] == citations


def test_turns_of_one_printed_trace_stay_together() -> None:
    """Two printed turns of a trace are two fragments of that trace."""
    messages = [
        {"role": r, "content": c} for r, c in (("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4"))
    ]
    both = turns({"messages": messages})
    again = [turn_fragment(turn_line(t).encode(), origin="x", app="", received_at=NOW) for t in both]
    assert {both[0].trace_id} == {fragment.trace_id for fragment in again}
    assert [t.turn_id for t in both] == [decode_turns(fragment).turns[0].turn_id for fragment in again]


def test_foreign_ids_are_not_taken_over() -> None:
    """Only a turn id that is made of trace and span id makes a record part of that trace."""
    (turn,) = turns({"query": "q", "response": "a", "turn_id": "7", "trace_id": "ab" * 16, "span_id": "cd" * 8})
    assert turn.trace_id != "ab" * 16


def test_named_turn_is_one_wherever_it_is_read() -> None:
    """A `turn_id` of the app's own makes two places one turn, whose later version counts."""
    first, second = (
        turn_fragment(orjson.dumps({"turn_id": 7, "query": "q", "response": said}), origin=at, app="a", received_at=NOW)
        for said, at in (("old", "f:1"), ("new", "g:9"))
    )
    assert first.trace_id == second.trace_id
    assert first.digest != second.digest
    assert decode_turns(first).turns[0].turn_id == decode_turns(second).turns[0].turn_id


def test_numbers_are_text_where_text_is_meant() -> None:
    """Ids, labels, answers and reference answers come as numbers too."""
    record = {"question": 2, "answer": 4, "ground_truth": 4.5, "session_id": 17, "user_id": 3, "release": 2}
    (turn,) = turns(record)
    texts = (turn.query, turn.response, turn.ground_truth, turn.session_id, turn.user_id, turn.release)
    assert ("2", "4", "4.5", "17", "3", "2") == texts


def test_null_is_as_absent() -> None:
    """Programs that write every key write null for what they do not know."""
    keys = ("environment", "release", "history", "retrieval_queries", "facets", "tokens", "flags", "started_at", "app")
    bare = {"question": "q", "answer": "a"}
    assert turns(bare)[0].app == turns({**bare, **dict.fromkeys(keys)})[0].app
    assert turns({**bare, "messages": None})[0].query == "q"


@pytest.mark.parametrize(
    "stamp",
    ["2026-02-01T00:00:00Z", "2026-02-01T00:00:00", 1769904000, 1769904000000, 1769904000000000, 1769904000000000000],
)
def test_times_as_programs_write_them(stamp: object) -> None:
    """RFC 3339, or Unix time in seconds down to nanoseconds; without an offset it is UTC."""
    (turn,) = turns({"question": "q", "answer": "a", "timestamp": stamp})
    assert datetime(2026, 2, 1, tzinfo=UTC) == turn.started_at
    assert not turn.flags


@pytest.mark.parametrize("stamp", ["1970-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", 0])
def test_impossible_time_is_the_time_of_arrival(stamp: object) -> None:
    """A turn is never dated where nobody looks; the flag says that its time was repaired."""
    (turn,) = turns({"question": "q", "answer": "a", "started_at": stamp})
    assert (NOW, frozenset({"time_repaired"})) == (turn.started_at, turn.flags)


@pytest.mark.parametrize(
    ("record", "query"),
    [
        (b'\xef\xbb\xbf{"question": "q", "answer": "a"}\r\n', "q"),
        (b'{"question": "q\\ud83d", "answer": "a"}', "q\ufffd"),
        (b'{"question": "caf\xe9", "answer": "a"}', "caf\ufffd"),
        (b'{"question": "page 1\\u0000page 2", "answer": "a"}', "page 1\ufffdpage 2"),
        (b'{"question": "page 1\0page 2", "answer": "a"}', "page 1\ufffdpage 2"),
        (b'{"question": "q", "answer": "a", "context": [{"content": "c", "score": NaN}]}', "q"),
        (b'{"question": "q", "answer": NaN, "n": [1234567890123456789012345678901234567890]}', "q"),
        (b'{"question": "tab\there", "answer": "a"}', "tab\there"),
    ],
)
def test_sloppy_json(record: bytes, query: str) -> None:
    """A byte order mark, half a surrogate pair, another encoding, NUL, NaN and raw control characters lose no turn."""
    fragment = turn_fragment(record, origin="f:1", app="shop", received_at=NOW)
    (turn,) = decode_turns(fragment).turns
    assert query == turn.query
    assert ("text_repaired" in turn.flags) == (not record.startswith(b"\xef"))


def test_escaped_backslash_before_zeros() -> None:
    """Text that only looks like the escape of a NUL is kept as it is."""
    (turn,) = turns({"question": "What does \\u0000 mean?", "answer": "a"})
    assert ("What does \\u0000 mean?", frozenset()) == (turn.query, turn.flags)


@pytest.mark.parametrize("record", [b"[" * 200_000, b"[" * 900 + rb'"\u0000"' + b"]" * 900])
def test_deeply_nested_json_is_refused(record: bytes) -> None:
    """A line of brackets is one bad record, not the end of the reader; neither is a NUL deep within some."""
    with pytest.raises(MalformedPayload) as caught:
        turn_fragment(record, origin="f:1", app="shop", received_at=NOW)
    assert caught.value.reason == "not_json"


def test_conversation_with_tools_and_system_prompt() -> None:
    """What an assistant says while it calls tools is a step; the turn's answer is what it says in the end."""
    (turn,) = turns(
        {
            "messages": [
                {"role": "system", "content": "You help."},
                {"role": "assistant", "content": "Hello!"},
                {
                    "role": "User",
                    "content": [{"type": "text", "text": "Where?"}, {"type": "image_url", "image_url": {}}],
                },
                {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "find"}}]},
                {"role": "tool", "content": "found it"},
                {"role": "critic", "content": "not a chat role"},
                {"role": "assistant", "content": "Here.", "context": "map"},
                {"role": "ai", "content": "And there.", "context": {"citations": [{"id": 2, "content": "plan"}]}},
                {"role": "human", "content": "Unanswered?"},
            ]
        }
    )
    assert ("Where?\n[image]", "Here.\n\nAnd there.") == (turn.query, turn.response)
    assert (Message(role="assistant", content="Hello!"),) == turn.history
    assert [("map", 1), ("plan", 2)] == [(c.content, c.rank) for c in turn.citations or ()]


def test_record_says_its_reference_once() -> None:
    """A conversation's ground truth is about its last answer."""
    messages = [
        {"role": r, "content": c} for r, c in (("user", "1"), ("assistant", "2"), ("user", "3"), ("assistant", "4"))
    ]
    assert [None, "4"] == [t.ground_truth for t in turns({"messages": messages, "ground_truth": "4"})]
    assert [None, ("kb-1",)] == [t.relevant_ids for t in turns({"messages": messages, "relevant_ids": ["kb-1"]})]


def test_question_asked_again_before_the_answer() -> None:
    """The last question is the turn's; those before it are history."""
    messages = [{"role": r, "content": c} for r, c in (("user", "1"), ("user", "2"), ("assistant", ""))]
    (turn,) = turns({"messages": messages})
    assert ("2", "", (Message(role="user", content="1"),)) == (turn.query, turn.response, turn.history)


def test_documents_with_metadata() -> None:
    """Titles and sources come beside the text or in `metadata`, scores as text too."""
    documents = [
        {"page_content": "x", "metadata": {"source": "s", "title": "t"}, "score": "0.5"},
        {"text": "y", "id": "d2", "metadata": {"distance": 0.1}},
    ]
    (turn,) = turns({"userText": "q", "dataList": documents, "responseContent": "a"})
    assert (
        Citation(title="t", content="x", score=0.5, source="s", rank=1),
        Citation(id="d2", content="y", score=0.1, score_kind="distance", rank=2),
    ) == turn.citations


def test_error_is_a_class() -> None:
    """A message, which may quote the user, becomes the word `error`."""
    errors = [turns({"query": "q", "response": None, "error": e})[0].error for e in ("a.b.Timeout", "no: 'secret'", "")]
    assert ["Timeout", "error", None] == errors


def test_other_payload_is_unread() -> None:
    """A stored payload that is no turn is counted, never raised."""
    fragment = turn_fragment(b'{"question": "q", "answer": "a"}', origin="f:1", app="shop", received_at=NOW)
    for payload in (b"", b"[]", b'{"record": 1}', b'{"record": {"query": "q"}}'):
        assert {"unreadable": 1} == decode_turns(replace(fragment, payload=payload)).unread


@pytest.mark.parametrize(("name", "turns_in_all"), [("qa", 300), ("conversation", 1381)])
def test_seed_files(shared: Path, name: str, turns_in_all: int) -> None:
    """Every line of the seed files is read, with question, answer and documents."""
    lines = (shared / "data" / f"core_{name}_seed_format.jsonl").read_bytes().splitlines()
    fragments = [
        turn_fragment(line, origin=f"f:{number}", app="shop", received_at=NOW) for number, line in enumerate(lines, 1)
    ]
    decoded = [turn for fragment in fragments for turn in decode_turns(fragment).turns]
    assert turns_in_all == len(decoded)
    assert len(decoded) == sum(fragment.count for fragment in fragments)
    assert all(turn.query and turn.response for turn in decoded)
    # Sixteen lines say that nothing was retrieved.
    assert 284 == sum(1 for turn in decoded if turn.citations)
