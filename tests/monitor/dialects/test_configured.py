"""Fields that the settings name: read before what a convention finds (case T08), and nothing else is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.assembly.join import join
from monitor.assembly.rules import reading_rules
from monitor.assembly.trace_turns import read_trace
from monitor.dialects._configured import Fields, NamedDialect, Places, places
from monitor.model.spans import Attributes, Decoded, Span, instant
from monitor.model.turns import Turn
from monitor.payloads.otlp.fragments import decode_otlp, split_otlp
from monitor.ports import Dialect
from monitor.runtime.build import load_dialects
from monitor.runtime.isolation import PluginFailures
from monitor.settings.tree import Settings

BEGAN = 1_767_225_600_000_000_000
NOWHERE = Places(())


def span(number: int, attributes: Attributes, *, parent: bool = False, scope: str = "acme") -> Span:
    """A span; with `parent` below number 0."""
    return Span(
        trace_id="ab" * 16,
        span_id=f"{number + 1:016x}",
        parent_id=f"{1:016x}" if parent else None,
        name="step",
        kind=1,
        start_ns=BEGAN + number,
        end_ns=BEGAN + 1_000_000,
        attributes=attributes,
        resource={"service.name": "shop"},
        scope=scope,
    )


def turns(*spans: Span, dialects: tuple[Dialect, ...], **named: list[str]) -> tuple[Turn, ...]:
    """The turns of a trace where the settings name these fields."""
    given = {name: places(named.get(name, ())) for name in ("query", "response", "documents", "session_id", "user_id")}
    fields = Fields(**given)
    decoded = fields.identified(Decoded(spans=spans))
    rules = reading_rules((NamedDialect(fields, dialects), *dialects), hash_user=lambda user: f"hash of {user}")
    return read_trace(join("ab" * 16, [decoded]), rules).assembly.turns


def test_attributes_nobody_knows(dialects: tuple[Dialect, ...]) -> None:
    """Spans of no convention become a turn with documents, session and user."""
    hits = json.dumps({"hits": [{"id": "d1", "content": "Twenty kilos."}]})
    (turn,) = turns(
        span(0, {"shop.q": "Max weight?", "shop.a": "20 kg.", "shop.conv": "c-1", "shop.customer": "u-1"}),
        span(1, {"shop.found": hits}, parent=True),
        dialects=dialects,
        query=["shop.q"],
        response=["shop.a"],
        documents=["shop.found#hits"],
        session_id=["shop.conv"],
        user_id=["shop.customer"],
    )
    assert ("Max weight?", "20 kg.", "c-1", "hash of u-1") == (
        turn.query,
        turn.response,
        turn.session_id,
        turn.user_id,
    )
    assert [("d1", "Twenty kilos.")] == [(c.id, c.content) for c in turn.citations or ()]


@pytest.mark.parametrize("where", ["shop.q", "input.value#payload.texts.1"])
def test_before_the_convention(dialects: tuple[Dialect, ...], where: str) -> None:
    """A named field wins over the convention's, and what is not named stays as the convention says."""
    sent = {"question": "the template", "payload": {"texts": ["no", "Max weight?"]}}
    root = {
        "openinference.span.kind": "CHAIN",
        "input.value": json.dumps(sent),
        "output.value": "20 kg.",
        "session.id": "s",
    }
    (turn,) = turns(span(0, {**root, "shop.q": "Max weight?"}), dialects=dialects, query=[where])
    (plain,) = turns(span(0, root), dialects=dialects)
    assert ("the template", "Max weight?") == (plain.query, turn.query)
    assert ("20 kg.", "s", "openinference") == (turn.response, turn.session_id, turn.dialect)


def test_elsewhere(dialects: tuple[Dialect, ...]) -> None:
    """A turn without the named attributes is read as ever; the first place that holds something counts."""
    root = {"openinference.span.kind": "CHAIN", "input.value": "Max weight?", "output.value": "20 kg."}
    assert turns(span(0, root), dialects=dialects) == turns(
        span(0, root), dialects=dialects, query=["shop.q", "input.value#text"], documents=["shop.docs"]
    )
    (turn,) = turns(span(0, {**root, "b": "B?"}), dialects=dialects, query=["a", "b", "input.value"])
    assert "B?" == turn.query


@pytest.mark.parametrize("held", ["", "not json", "[1, 2]", '{"a": null}', '{"b": 1}', 5, True, (), ("x",)])
def test_nothing_at_the_path(held: object) -> None:
    """A path that leads nowhere is nothing."""
    assert places(["shop.q#a.b"]).value({"shop.q": held}) is None
    assert places(["shop.q#a"]).text({"shop.q": held}) is None


@pytest.mark.shared
def test_t08_configured(dialects: tuple[Dialect, ...], shared: Path) -> None:
    """Paths of the settings decide about JSON inputs and outputs."""
    body = (shared / "cases" / "payloads" / "T08-A.json").read_bytes()
    split = split_otlp(body, "traces", received_at=instant(BEGAN), encoding="json")
    first = next(span for one in split.fragments for span in decode_otlp(one).spans)
    (turn,) = turns(first, dialects=dialects, query=["output.value#answer"], response=["input.value#question"])
    assert ("20 kg.", "Max weight?") == (turn.query, turn.response)


def test_settings() -> None:
    """Named fields put their reader before all conventions; without them there is none."""
    named = Settings.model_validate({"assemble": {"fields": {"query": ["shop.q"]}}})
    assert "configured" == load_dialects(named, PluginFailures())[0].name
    assert "configured" not in {dialect.name for dialect in load_dialects(Settings(), PluginFailures())}
