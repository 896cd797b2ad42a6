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
    from monitor.model.spans import Fragment
    from monitor.model.turns import Turn

RECEIVED = datetime(2026, 6, 1, tzinfo=UTC)

Recorded: TypeAlias = "Callable[[str], tuple[Turn, ...]]"


@pytest.fixture
def recorded(shared: Path, rules: ReadingRules) -> Recorded:
    """Read a body of the folder of acceptance cases."""

    def of(name: str) -> tuple[Turn, ...]:
        body = (shared / "cases" / "round2" / "payloads" / name).read_bytes()
        by_trace: defaultdict[str, list[Fragment]] = defaultdict(list)
        for fragment in split_otlp(body, "traces", received_at=RECEIVED, encoding="json").fragments:
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
