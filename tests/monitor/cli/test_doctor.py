"""What the doctor says of what arrived."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest

from monitor.assembly.rules import reading_rules
from monitor.assembly.text_limits import LONGEST_TEXT
from monitor.cli.doctor import Examination, diagnose, lines
from monitor.payloads.otlp.fragments import decode_otlp, split_otlp
from monitor.ports import Dialect
from monitor.settings.tree import AssembleSettings
from monitor.stages.assemble import tick
from monitor.store.sql_store import open_store

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
WHOLE = {
    "openinference.span.kind": "CHAIN",
    "input.value": "Why is the sky blue?",
    "output.value": "Because of Rayleigh.",
    "session.id": "s",
}
FOUND = {
    "openinference.span.kind": "RETRIEVER",
    "retrieval.documents.0.document.content": "Air scatters blue light.",
}

Told: TypeAlias = Mapping[str, str]
Examine: TypeAlias = Callable[..., Examination]


def request(number: int, spans: Sequence[Told], app: str | None, dropped: int, language: str | None = None) -> bytes:
    """One trace of spans as OTLP/JSON, the first the root."""
    made = [
        {
            "traceId": f"{number:032x}",
            "spanId": f"{number * 100 + at:016x}",
            "parentSpanId": "" if at == 0 else f"{number * 100:016x}",
            "name": "step",
            "startTimeUnixNano": str(int(BEGAN.timestamp()) * 10**9 + at),
            "endTimeUnixNano": str((int(BEGAN.timestamp()) + 1) * 10**9),
            "droppedAttributesCount": dropped,
            "attributes": [{"key": key, "value": {"stringValue": held}} for key, held in told.items()],
        }
        for at, told in enumerate(spans)
    ]
    resource = [("service.name", app), ("service.version", "1.0")] if app else []
    resource += [("telemetry.sdk.language", language)] if language else []
    attributes = [{"key": key, "value": {"stringValue": held}} for key, held in resource]
    scoped = [{"scope": {"name": "acme.widgets"}, "spans": made}]
    return json.dumps({"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": scoped}]}).encode()


@pytest.fixture
def examine(tmp_path: Path, dialects: tuple[Dialect, ...]) -> Iterator[Examine]:
    """Deliver traces of one app, assemble them, and ask the doctor about the last minutes."""
    store = open_store(f"sqlite:///{tmp_path}/monitor.db")
    numbers = iter(range(1, 100))

    def of(
        *traces: Sequence[Told],
        app: str | None = "shop",
        dropped: int = 0,
        limit: int = 50,
        language: str | None = None,
        bodies: Sequence[bytes] = (),
    ) -> Examination:
        for body in (*(request(next(numbers), spans, app, dropped, language) for spans in traces), *bodies):
            store.append(split_otlp(body, "traces", received_at=BEGAN, encoding="json").fragments)
        now = BEGAN + timedelta(minutes=2)
        rules = reading_rules(dialects, hash_user=str)
        tick(store, AssembleSettings(), now=now, decode=decode_otlp, rules=rules, worker="1")
        return diagnose(store, dialects, since=BEGAN, limit=limit)

    yield of
    store.close()


def complaints(found: Examination) -> dict[str, tuple[int, int]]:
    """What is missing, in how many of how many."""
    return {complaint.what: (complaint.count, complaint.of) for one in found.apps for complaint in one.complaints}


def test_nothing_is_missing(examine: Examine) -> None:
    """An app whose turns are whole is told so, with what arrived."""
    found = examine([WHOLE, FOUND])
    assert ("shop: 1 turns; spans: openinference 2; log records: 0", "  nothing is missing") == tuple(lines(found))


def test_a_span_of_ones_own_for_the_session(examine: Examine) -> None:
    """The span that docs/dialects.md asks for, around a turn, is nothing that stays unread."""
    (one,) = examine([{"session.id": "s", "user.id": "u"}, WHOLE, FOUND]).apps
    assert ({"": 1, "openinference": 2}, 1, {}, ()) == (one.spans, one.turns, one.unread, one.complaints)


def test_the_events_of_a_web_request(examine: Examine) -> None:
    """FastAPI's spans for what is sent and received belong to the request, also those without a status."""
    (one,) = examine([{"http.route": "/answer"}, WHOLE, FOUND, {"asgi.event.type": "http.response.body"}]).apps
    assert ({"transport": 2, "openinference": 2}, {}) == (one.spans, one.unread)


@pytest.mark.parametrize("app", ["unknown_service", "unknown_service:node", "unknown_service:java"])
def test_a_name_that_an_sdk_made_up(examine: Examine, app: str) -> None:
    """What SDKs write in place of a service name, with or without the program's, is no name."""
    assert "no app" in complaints(examine([WHOLE, FOUND], app=app))


def test_nothing_arrived(examine: Examine) -> None:
    """An empty store is not a healthy one."""
    assert ("nothing arrived",) == tuple(line[:15] for line in lines(examine()))


def test_what_each_turn_lacks(examine: Examine) -> None:
    """Question, answer, documents and session are missed in as many turns as lack them."""
    call = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m"}
    found = examine([WHOLE, FOUND], [call])
    assert {
        "no question captured": (1, 2),
        "no answer captured": (1, 2),
        "no documents captured": (1, 2),
        "no session": (1, 2),
    } == complaints(found)


def test_the_switch_of_the_dialect_that_lacks(examine: Examine) -> None:
    """The setting is that of the turns that lack something, not of others in the same app."""
    call = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m"}
    (one,) = examine([WHOLE, FOUND], [call]).apps
    fix = next(complaint.fix for complaint in one.complaints if complaint.what == "no question captured")
    assert (True, False) == ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in fix, "OPENINFERENCE" in fix)


def test_dropped_attributes(examine: Examine) -> None:
    """An SDK's limit is seen on spans and turns."""
    found = examine([WHOLE, FOUND], dropped=3)
    assert {"cut or dropped values": (1, 1), "spans with dropped attributes": (2, 2)} == complaints(found)


def test_more_text_than_is_kept(examine: Examine) -> None:
    """An answer longer than what is kept of one is told."""
    found = examine([{**WHOLE, "output.value": "a" * (LONGEST_TEXT + 1)}, FOUND])
    assert {"text left out": (1, 1)} == complaints(found)


def test_redacted_content(examine: Examine) -> None:
    """What a privacy switch took away is told apart from what was never there."""
    found = examine([{**WHOLE, "output.value": "__REDACTED__"}, FOUND])
    assert {"no answer captured": (1, 1), "redacted content": (1, 1)} == complaints(found)


def test_spans_nobody_reads(examine: Examine) -> None:
    """An app without a known instrumentation is told by the scopes of its spans."""
    (one,) = examine([{"widgets.count": "3"}]).apps
    assert ({"": 1}, 0, {"no_dialect": 1}) == (one.spans, one.turns, one.unread)
    assert ["acme.widgets" in complaint.fix for complaint in one.complaints] == [True]


def test_the_fallback(examine: Examine) -> None:
    """Turns that only the fallback reads are for a person to check."""
    found = examine([{"acme.question": "Why is the sky blue?", "acme.answer": "Rayleigh.", "session.id": "s"}])
    assert {"read by the fallback only", "no documents captured"} == set(complaints(found))


def test_an_app_without_a_name(examine: Examine) -> None:
    """Spans without a service name are one app, and told so."""
    found = examine([WHOLE, FOUND], app=None)
    assert ("unknown_service",) == tuple(one.app for one in found.apps)
    assert {"no app", "no release"} == set(complaints(found))


def test_what_is_printed(examine: Examine) -> None:
    """Every complaint and every reason comes with what to do, and no text of a user."""
    told = list(lines(examine([{**WHOLE, "session.id": ""}], [{"widgets.count": "3"}])))
    assert sum(line.startswith("    -> ") for line in told) == sum(line.startswith("  ") for line in told) / 2
    assert not any("sky" in line or "Rayleigh" in line for line in told)


@pytest.mark.parametrize("app", ["shop" * 25_000, "shop\n  nothing is missing\x1b[2J\n"])
def test_one_app_spoils_no_line(examine: Examine, app: str) -> None:
    """An app of any name is one app, told on lines of its own that stay short and that a terminal does not obey."""
    found = examine([WHOLE, FOUND], app=app)
    assert [1] == [one.turns for one in found.apps]
    first, *others = lines(found)
    assert "  filed under another name: 1 of 1" == others[0]
    assert 2 == len(others)
    assert first.startswith("shop")
    assert first.endswith(": 1 turns; spans: openinference 2; log records: 0")
    assert len(first) < 120
    assert first.isprintable()


def test_the_limit_is_told(examine: Examine) -> None:
    """Where more traces arrived than were looked at, that is said first; where none did, it is not."""
    traces = [[WHOLE, FOUND]] * 3
    told = [next(iter(lines(examine(*more, limit=limit)))) for more, limit in ((traces, 2), ((), 3), ((), 4))]
    assert "looked at the latest 2 traces; --limit for more" == told[0]
    assert ["shop: 3 turns"] * 2 == [line[:13] for line in told[1:]]


def test_own_attributes_are_named(examine: Examine) -> None:
    """Where no convention fits, the setting that names attributes is told, and its section in the documents."""
    found = examine([{"acme.question": "Why?", "acme.answer": "Rayleigh."}], [{"widgets.count": "3"}])
    setting, section = "assemble.fields", "Attributes of your own"
    told = [line for line in lines(found) if setting in line]
    assert 2 == len(told)
    assert all(section in line for line in told)
    assert f"## {section}" in (Path(__file__).parents[3] / "docs" / "dialects.md").read_text(encoding="utf-8")
    assert "fields" in AssembleSettings.model_fields


def fix_of(examination: Examination, what: str) -> str:
    """The advice on a complaint."""
    return next(complaint.fix for app in examination.apps for complaint in app.complaints if complaint.what == what)


def test_advice_that_was_followed(examine: Examine) -> None:
    """What other turns of the dialect have is switched on, and is not told to be switched on again."""
    call = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m"}
    whole = {
        **call,
        "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Why is the sky blue?"}]}]',
        "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "Rayleigh."}]}]',
        "gen_ai.conversation.id": "c",
    }
    switch = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    none, some = examine([call]), examine([call], [whole])
    for what in ("no question captured", "no answer captured"):
        assert (True, False) == (switch in fix_of(none, what), switch in fix_of(some, what))
        assert "rag-monitor explain" in fix_of(some, what)
    assert "other turns have one" in fix_of(some, "no session")


def test_turns_beside_spans_that_nobody_reads(examine: Examine) -> None:
    """Where turns come of an app's spans nobody says that they say nothing of turns."""
    assert "spans that say nothing of turns" not in complaints(
        examine([{"acme.question": "Why?", "acme.answer": "So."}])
    )
    assert "spans that say nothing of turns" in complaints(examine([{"widgets.count": "3"}], app="other"))


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("java", 'Span.current().setAttribute("session.id"'),
        ("nodejs", "setSession(context.active()"),
        ("dotnet", 'Activity.Current?.SetTag("session.id"'),
        ("python", "with using_attributes("),
        (None, "with using_attributes("),
    ],
)
def test_advice_in_the_language_of_the_app(examine: Examine, language: str | None, code: str) -> None:
    """The SDK says which language its app is written in; no other one's code is shown."""
    fix = fix_of(examine([{**WHOLE, "session.id": ""}], language=language), "no session")
    assert code in fix
    assert ("using_attributes" in fix) == (language in {"python", None})


def test_a_language_that_only_the_scope_tells(examine: Examine) -> None:
    """Java's scopes are named after packages."""
    whole = request(1, [{**WHOLE, "session.id": ""}], "shop", 0).replace(b"acme.widgets", b"com.arize.langchain4j")
    assert "Span.current()" in fix_of(examine(bodies=[whole]), "no session")


def test_objects_for_texts(examine: Examine) -> None:
    """The name of an object, and an object with its fields, are told with what Java does about it."""
    named = {**WHOLE, "output.value": "shop.Result@43b4fe19"}
    printed = {**WHOLE, "output.value": "Result[content=Because., sources=[]]"}
    found = examine([named], [printed], language="java")
    assert {"spans with an object's name for a text": (1, 2), "text is a printed object": (1, 2)}.items() <= complaints(
        found
    ).items()
    assert "Result" in fix_of(found, "text is a printed object")


def test_a_prompt_for_a_question_and_documents_in_one(examine: Examine) -> None:
    """A question in which the documents stand, and several documents in one, are told."""
    content = FOUND["retrieval.documents.0.document.content"]
    prompt = {**WHOLE, "input.value": f"You know this:\n{content}\nWhy is the sky blue?"}
    merged = {**FOUND, "retrieval.documents.0.document.content": "Air scatters light.\n\nGlass does not."}
    found = complaints(examine([prompt, FOUND], [WHOLE, merged]))
    assert {
        "question is the whole prompt": (1, 2),
        "documents that may be several in one": (1, 2),
    }.items() <= found.items()


def queued(link: str) -> bytes:
    """A request of one service and the turn that a worker makes of it, by a parent or a link to another trace."""

    def span(trace: str, number: int, parent: int | None, kind: int, **more: object) -> dict[str, object]:
        return {
            "traceId": trace * 32,
            "spanId": f"{number:016x}",
            "parentSpanId": f"{parent:016x}" if parent else "",
            "name": "step",
            "kind": kind,
            "startTimeUnixNano": str(int(BEGAN.timestamp()) * 10**9 + number),
            "endTimeUnixNano": str((int(BEGAN.timestamp()) + 1) * 10**9),
            **more,
        }

    def resource(app: str, spans: list[dict[str, object]]) -> dict[str, object]:
        attributes = [{"key": "service.name", "value": {"stringValue": app}}]
        return {"resource": {"attributes": attributes}, "scopeSpans": [{"spans": spans}]}

    whole = [{"key": key, "value": {"stringValue": text}} for key, text in WHOLE.items() if key != "session.id"]
    links = [{"traceId": link * 32, "spanId": f"{1:016x}"}] if link else []
    trace, parent = ("b", None) if link else ("a", 1)
    route = [{"key": "http.route", "value": {"stringValue": "/ask"}}]
    web = resource("web", [span("a", 1, None, 2, attributes=route)])
    consumer = span(trace, 2, parent, 5, links=links)
    worker = resource("worker", [consumer, span(trace, 3, 2, 1, attributes=whole)])
    return json.dumps({"resourceSpans": [web, worker]}).encode()


@pytest.mark.parametrize(("link", "told"), [("", "began in web"), ("a", "began in another service")])
def test_turns_of_a_worker(examine: Examine, link: str, told: str) -> None:
    """A turn that a queue brought to a worker is told as the worker's, with where its request began."""
    found = examine(bodies=[queued(link)])
    assert told in fix_of(found, "filed under a worker")
    assert "link not followed" not in complaints(found)
    assert "spans that say nothing of turns" not in complaints(found)


def test_a_link_that_leads_nowhere(examine: Examine) -> None:
    """The trace that is linked to must arrive, too."""
    assert (1, 1) == complaints(examine(bodies=[queued("c")]))["link not followed"]


def test_a_generic_search_beside_an_answer_by_convention(examine: Examine) -> None:
    """Where only the search has attributes of common names, the turn is not read by the fallback alone."""
    search = {"retrieval.query": "Why?", "documents": '[{"id": "a", "content": "Rayleigh."}]'}
    assert "read by the fallback only" not in complaints(examine([search, WHOLE]))


@pytest.mark.parametrize(("language", "switch"), [("nodejs", "=true, and a log exporter"), ("python", "=SPAN_ONLY ")])
def test_switch_for_content_in_the_language_of_the_app(examine: Examine, language: str, switch: str) -> None:
    """OpenTelemetry's package for JavaScript knows no `SPAN_ONLY`."""
    call = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m"}
    assert switch in fix_of(examine([call], language=language), "no question captured")
