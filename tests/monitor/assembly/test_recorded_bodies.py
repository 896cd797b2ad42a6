"""Bodies that were recorded from apps which others complained of, and the turns that they must become."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

import pytest

from monitor.assembly.join import join
from monitor.assembly.trace_turns import read_trace
from monitor.payloads.otlp.fragments import decode_otlp, split_otlp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from monitor.assembly.rules import ReadingRules
    from monitor.model.spans import Fragment, Signal
    from monitor.model.turns import Turn

RECEIVED = datetime(2026, 6, 1, tzinfo=UTC)

Recorded: TypeAlias = "Callable[..., tuple[Turn, ...]]"


@pytest.fixture
def recorded(shared: Path, rules: ReadingRules) -> Recorded:
    """Read bodies of the folder of acceptance cases; one of log records says so in its name."""

    def of(*names: str) -> tuple[Turn, ...]:
        by_trace: defaultdict[str, list[Fragment]] = defaultdict(list)
        for name in names:
            body = (shared / "cases" / "round2" / "payloads" / name).read_bytes()
            signal: Signal = "logs" if ".logs." in name else "traces"
            for fragment in split_otlp(body, signal, received_at=RECEIVED, encoding="json").fragments:
                by_trace[fragment.trace_id].append(fragment)
        traces = [join(trace_id, [decode_otlp(part) for part in parts]) for trace_id, parts in by_trace.items()]
        return tuple(turn for trace in traces for turn in read_trace(trace, rules).assembly.turns)

    return of


def test_answers_that_are_no_text(recorded: Recorded) -> None:
    """Whatever a chain returned, it is a turn: other values are kept as JSON, empty and blank text is no answer."""
    expected = [
        ("Open tickets?", "0", True),
        ("Is it free?", "false", True),
        ("Sizes?", '["a","b"]', True),
        ("Max weight?", "20 kg.", False),
        ("Hello?", None, False),
        ("Hello?", None, False),
    ]
    turns = recorded("T08-B.json")
    assert expected == [(turn.query, turn.response, "unparsed_json" in turn.flags) for turn in turns]


def test_flattened_messages_under_any_kind(recorded: Recorded) -> None:
    """Messages of a model call count, whatever kind the span says it is."""
    assert [("Fee?", "5 EUR.", 0), ("Fee?", "5 EUR.", 11)] == [
        (turn.query, turn.response, len(turn.history)) for turn in recorded("T09-B.json")
    ]


def test_a_list_of_one_text(recorded: Recorded) -> None:
    """It is the text, as question and as answer."""
    turns = recorded("R12-array-answer.traces.json")
    assert [("How long is the warranty?", "It lasts two years.", False)] * 2 == [
        (turn.query, turn.response, "unparsed_json" in turn.flags) for turn in turns
    ]


def test_half_an_emoji_inside_json(recorded: Recorded) -> None:
    """It is U+FFFD, which ends no sentence and makes no question."""
    (turn,) = recorded("R14-half-emoji-in-nested-json.traces.json")
    assert ("What costs the party set \ufffd", "It costs 12 euros \ufffd only.") == (turn.query, turn.response)
    assert "text_repaired" in turn.flags


def test_a_tool_that_is_a_query_engine(recorded: Recorded) -> None:
    """Question, history and answer are the agent's, not those of the engine inside its tool."""
    (turn,) = recorded("agent-with-query-engine-tool.traces.json")
    assert ("And is the pump covered?", "Yes, for two years after delivery the pump is included.") == (
        turn.query,
        turn.response,
    )
    assert [("user", "Which kettle is best?"), ("assistant", "The Aurora.")] == [
        (message.role, message.content) for message in turn.history
    ]


def test_the_wait_in_a_queue(recorded: Recorded) -> None:
    """A consumer that begins long after its producer ended has the same clock; the worker that answers is the app."""
    (turn,) = recorded("async-worker-is-not-clock-skew.traces.json")
    assert (False, "shop-worker", "s1") == ("clock_skew" in turn.flags, turn.app, turn.session_id)


def test_sources_in_one_block(recorded: Recorded) -> None:
    """Each source of a prompt's block is a citation of its own."""
    (turn,) = recorded("azure-demo-sources-two-in-one.traces.json")
    assert ["warranty.pdf#page=1", "gift-cards.md"] == [citation.id for citation in turn.citations or ()]


def test_a_framework_that_rewords_the_question(recorded: Recorded) -> None:
    """Its call in a trace of its own is no turn."""
    assert [("And is the pump covered?", "Yes, for two years.")] == [
        (turn.query, turn.response) for turn in recorded("lc4j-query-compression-decoy.traces.json")
    ]


def test_an_object_that_java_printed(recorded: Recorded) -> None:
    """The answer is the call's text, and `unknown` is no model."""
    (turn,) = recorded("lc4j-result-tostring.traces.json")
    assert ("Two years.", None) == (turn.response, turn.model)


def test_documents_that_a_postprocessor_dropped(recorded: Recorded) -> None:
    """They were retrieved and are not used."""
    (turn,) = recorded("postprocessor-drops-nodes.traces.json")
    assert [("d0", True), ("d1", False)] == [(citation.id, citation.used) for citation in turn.citations or ()]


def test_texts_beside_their_similarity(recorded: Recorded) -> None:
    """What a tool returned as `{name, similarity}` is a document."""
    (turn,) = recorded("vercel-tool-result-name-similarity.traces.json")
    expected = [
        ("The warranty lasts two years from the day of delivery.", 0.71, None),
        ("Gift cards are valid for four years and cannot be returned.", 0.42, None),
    ]
    assert expected == [(citation.content, citation.score, citation.title) for citation in turn.citations or ()]


def test_a_row_that_python_printed(recorded: Recorded) -> None:
    """The text stands in Milvus' printed entity; a number in the prompt's sentences is no id."""
    (turn,) = recorded("milvus-entity-python-dict.traces.json")
    assert [("3", "The warranty lasts two years.")] == [(c.id, c.content) for c in turn.citations or ()]


def test_a_call_that_is_written_twice(recorded: Recorded) -> None:
    """LiteLLM's call counts, and not the provider's request below it, which Python printed."""
    (turn,) = recorded("litellm-raw-request.traces.json")
    assert ("How long is the warranty?", "Two years.", "user:user-42") == (turn.query, turn.response, turn.user_id)
    assert ["kb-1"] == [citation.id for citation in turn.citations or ()]
    assert (False, "litellm") == ("generic" in turn.flags, turn.dialect)


def test_a_memory_without_speakers(recorded: Recorded) -> None:
    """Spring AI logs a model's prompt as texts; with a chat memory these are instructions, history and question."""
    names = ("spring-chat-memory-history.traces.json", "spring-chat-memory-history.logs.json")
    (turn,) = recorded(*names)
    assert [("user", "How often should I descale it?"), ("assistant", "Every three months.")] == [
        (message.role, message.content) for message in turn.history
    ]
    assert ("Does the warranty cover the pump?", "Yes.") == (turn.query, turn.response)


def test_a_question_that_was_made_to_stand_alone(recorded: Recorded) -> None:
    """The chat client's question counts, not the template in which another call was asked to reword the same words."""
    names = ("spring-compression-empty-retrieval.traces.json", "spring-compression-empty-retrieval.logs.json")
    (turn,) = recorded(*names)
    assert ("Who painted it?", "I do not know.", ()) == (turn.query, turn.response, turn.citations or ())
