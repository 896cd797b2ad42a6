"""Acceptance cases of turn assembly, as OTLP/JSON requests through decoding, the tick and a real database."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest

from monitor.assembly.rules import reading_rules
from monitor.model.turns import Turn
from monitor.payloads.otlp.fragments import decode_otlp, split_otlp
from monitor.ports import Dialect
from monitor.settings.tree import AssembleSettings
from monitor.stages.assemble import tick
from monitor.store.sql_store import SqlStore

pytestmark = pytest.mark.shared

BEGAN = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
SETTINGS = AssembleSettings(quiet=timedelta(seconds=60))

Post: TypeAlias = Callable[..., tuple[Turn, ...]]


@pytest.fixture
def post(shared: Path, store: SqlStore, dialects: tuple[Dialect, ...]) -> Post:
    """Deliver payloads `seconds` after the beginning, let them settle, and return all turns."""

    def of(*names: str, seconds: float = 0, settle: bool = True) -> tuple[Turn, ...]:
        at = BEGAN + timedelta(seconds=seconds)
        for name in names:
            body = (shared / "cases" / "payloads" / name).read_bytes()
            store.append(split_otlp(body, "traces", received_at=at, encoding="json").fragments)
        now = at + timedelta(seconds=61 if settle else 30)
        tick(store, SETTINGS, now=now, decode=decode_otlp, rules=reading_rules(dialects, hash_user=str), worker="1")
        return tuple(store.turns())

    return of


REFUND = ("When is a refund paid?", "Within 14 days.", ["kb-1", "kb-2"])


def texts_of(turn: Turn) -> tuple[str | None, str | None, list[str | None]]:
    """Query, response and the ids of citations."""
    return turn.query, turn.response, [citation.id for citation in turn.citations or ()]


def test_t01_root_span_missing(post: Post) -> None:
    """Orphans become one turn, flagged."""
    (turn,) = post("T01-A.json")
    assert (REFUND, True) == (texts_of(turn), "root_missing" in turn.flags)


def test_t02_scored_before_complete(post: Post) -> None:
    """A turn that closed before its answer came is not an error; it is completed when the rest arrives."""
    (early,) = post("T02-A.1.json")
    waiting = post("T02-A.2.json", seconds=240, settle=False)
    (late,) = post("T02-A.3.json", seconds=241)
    assert (None, None, (early,), early.turn_id, REFUND) == (
        early.response,
        early.error,
        waiting,
        late.turn_id,
        texts_of(late),
    )


def test_t03_duplicate_spans(post: Post) -> None:
    """The same batch three times, once in reverse, is one turn with each citation once."""
    (turn,) = post("T03-A.1.json", "T03-A.2.json", "T03-A.3.json")
    assert REFUND == texts_of(turn)


def test_t04_fallback_calls(post: Post) -> None:
    """The last successful call answers, and the failed one is counted as retried."""
    (turn,) = post("T04-A.json")
    assert ("Press the blue key.", None, True) == (turn.response, turn.error, "retries=1" in turn.flags)


def test_t05_renamed_results(post: Post) -> None:
    """The answer is found under the names that three releases of one SDK gave it."""
    turns = post("T05-A.json")
    assert [("Opening hours?", "9 to 5.")] * 3 == [(turn.query, turn.response) for turn in turns]


def test_t06_tool_calls(post: Post) -> None:
    """The final text is the answer, neither the step that chose a tool nor the tool's output."""
    (turn,) = post("T06-A.json")
    assert ("Stock of A7?", "Three left.", None) == (turn.query, turn.response, turn.citations)


def test_t07_multimodal_parts(post: Post) -> None:
    """An image becomes a marker, and no base64 is kept."""
    (turn,) = post("T07-A.json")
    assert ("What is on the label?\n[image]", "Lot 4711.") == (turn.query, turn.response)


def test_t08_json_input_and_output(post: Post) -> None:
    """Question and answer are found inside JSON objects."""
    assert [("Max weight?", "20 kg.")] * 2 == [(turn.query, turn.response) for turn in post("T08-A.json")]


def test_t09_messages_in_many_dresses(post: Post) -> None:
    """Five shapes of output messages are five turns with the same answer."""
    assert [("Fee?", "5 EUR.", "c-1")] * 5 == [
        (turn.query, turn.response, turn.session_id) for turn in post("T09-A.json")
    ]


def test_t10_retriever_documents(post: Post) -> None:
    """Documents stand in numeric order over a hole, and broken metadata is flagged."""
    (turn,) = post("T10-A.json")
    ids = [f"d{i}" for i in (*range(11), 12)]
    assert (ids, 1.0, True) == (texts_of(turn)[2], turn.citations[0].score, "metadata_unread" in turn.flags)


def test_t11_rerankers(post: Post) -> None:
    """The reranker's documents are the citations, with its scores and in its order."""
    (turn,) = post("T11-A.json")
    assert [("n5", 0.99, 1), ("n2", 0.7, 2)] == [(c.id, c.score, c.rank) for c in turn.citations]


def test_t12_cut_prompt(post: Post) -> None:
    """A prompt that an attribute limit cut is read up to the cut, and the turn says so."""
    (turn,) = post("T12-A.json")
    assert ("5 EUR.", True, True) == (
        turn.response,
        (turn.query or "").startswith("x x x"),
        "input_truncated" in turn.flags,
    )


def test_t13_many_turns_in_one_trace(post: Post) -> None:
    """Three turns in order, each with its own citation, all of the root's session."""
    assert [(f"Q{i}?", f"A{i}.", [f"k{i}"], "s-13") for i in range(3)] == [
        (*texts_of(turn), turn.session_id) for turn in post("T13-A.json")
    ]


def test_t14_clock_skew(post: Post) -> None:
    """One turn, dated by its root, with a sane duration, flagged."""
    (turn,) = post("T14-A.json")
    assert (REFUND, BEGAN, timedelta(seconds=1), True) == (
        texts_of(turn),
        turn.started_at,
        turn.latency,
        "clock_skew" in turn.flags,
    )


def test_t15_very_long_trace(shared: Path, store: SqlStore, dialects: tuple[Dialect, ...]) -> None:
    """Five thousand spans in fifty batches, the root in the last, are one turn within the time allowed."""
    plan = json.loads((shared / "cases" / "payloads" / "T15-A.gen.json").read_text())
    total = plan["batches"] * plan["spans_per_batch"]
    trace_id, root = "15" * 16, f"{total:016x}"
    for batch in range(plan["batches"]):
        numbers = range(batch * plan["spans_per_batch"] + 1, (batch + 1) * plan["spans_per_batch"] + 1)
        spans = [_long_trace_span(number, trace_id, root, plan["kinds"]) for number in numbers]
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
        store.append(split_otlp(body, "traces", received_at=BEGAN, encoding="json").fragments)
    began = time.process_time()
    written = tick(
        store,
        SETTINGS,
        now=BEGAN + timedelta(seconds=61),
        decode=decode_otlp,
        rules=reading_rules(dialects, hash_user=str),
        worker="1",
    )
    assert (plan["expect"]["turns"], True) == (written, time.process_time() - began < plan["expect"]["close_s"])


def _long_trace_span(number: int, trace_id: str, root: str, kinds: list[str]) -> dict[str, object]:
    kind = "AGENT" if f"{number:016x}" == root else kinds[number % len(kinds)]
    values = {"openinference.span.kind": kind, "input.value": f"Step {number}?", "output.value": f"Done {number}."}
    start = 1_777_888_800_000_000_000 + number * 1000
    return {
        "traceId": trace_id,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if kind == "AGENT" else root,
        "name": kind.lower(),
        "startTimeUnixNano": str(start if kind != "AGENT" else start - 10_000_000),
        "endTimeUnixNano": str(start + 500),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in values.items()],
    }


def test_t16_sampled_retrieval(post: Post) -> None:
    """Without its retriever a turn has no citations rather than an empty retrieval."""
    (turn,) = post("T16-A.json")
    assert ("Within 14 days.", None) == (turn.response, turn.citations)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ("W02-A.json", (812, 31, None)),
        ("W11-A.json", (None, None, None)),
        ("W12-A.json", (None, None, "time_repaired")),
    ],
)
def test_odd_values_on_the_wire(post: Post, payload: str, expected: tuple[int | None, int | None, str | None]) -> None:
    """Counts as text, empty values and missing times leave the turn whole."""
    (turn,) = post(payload)
    flag = expected[2]
    assert (REFUND, *expected[:2], True) == (
        texts_of(turn),
        turn.input_tokens,
        turn.output_tokens,
        flag is None or flag in turn.flags,
    )
