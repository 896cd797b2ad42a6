"""Spans of instrumentations nobody told us about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.generic import DIALECT
from monitor.model.spans import Attributes, AttributeValue, Role, Step
from monitor.model.turns import Message

if TYPE_CHECKING:
    from tests.monitor.conftest import Make, Turns

CONTEXT = "Parcels from Graz take two days to reach Vienna by road."


def step(make: Make, attributes: Attributes, name: str = "do") -> Step:
    """A span that is claimed."""
    span = make.span(1, attributes, name=name)
    assert DIALECT.claims(span)
    return DIALECT.read(span)


@pytest.mark.parametrize(
    "attributes",
    [
        {"question": "When?", "answer": "On Friday."},
        {"app.userQuestion": "When?", "app.botResponse": "On Friday."},
        {"rag.user_query.text": "When?", "rag.generated_text": "On Friday."},
        {"x.question": '{"question": "When?"}', "x.answer": '{"answer": "On Friday.", "sources": []}'},
        {"question": "When?", "service_output": "On Friday."},
    ],
)
def test_a_question_and_its_answer(make: Make, attributes: Attributes) -> None:
    """The last words of a key say what it holds, in any spelling."""
    read = step(make, attributes)
    assert (Role.CHAIN, "When?", "On Friday.", True) == (read.role, read.query, read.response, "generic" in read.flags)


def test_weak_names(make: Make) -> None:
    """Input and output are believed in pairs and when they read like sentences, and are not certain then."""
    read = step(make, {"input": "When will it come?", "output": "On Friday."})
    assert ("When will it come?", {"query", "response"}) == (read.query, read.unsure)


@pytest.mark.parametrize(
    "attributes",
    [
        {"input": "When will it come?"},
        {"input": '{"rows": 3}', "output": "done"},
        {"input": "x", "output": "y"},
        {"input": "Chat(role='user', text='a b')", "output": "y"},
        {"http.request.query": "q=what is this", "http.response": "ok"},
        {"url.query": "question=why", "db.query.text": "select a from b", "db.response": "3 rows"},
        {"question_length": 12, "answer_tokens": 4, "prompt_version": "3"},
        {"question": "", "answer": "__REDACTED__"},
        {"documents": 12, "context": "eu-west"},
        {"nodes": ["a", "b"]},
        {"model": "m", "temperature": 0.1},
    ],
)
def test_what_is_left_alone(make: Make, attributes: Attributes) -> None:
    """Sizes, settings, other conventions and function arguments are no turn."""
    assert not DIALECT.claims(make.span(1, attributes))


def test_a_question_that_failed(make: Make) -> None:
    """A failing span was asked, and the turn without an answer must not be taken for another's."""
    read = DIALECT.read(make.span(1, {"input": "When will it come?"}, status=2))
    assert (Role.CHAIN, "When will it come?", None) == (read.role, read.query, read.response)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('[{"id": "d1", "content": "Parcels."}]', [("d1", "Parcels.")]),
        ({"documents": [{"id": "d1", "text": "Parcels."}]}, [("d1", "Parcels.")]),
        ([CONTEXT], [(None, CONTEXT)]),
        (CONTEXT, [(None, CONTEXT)]),
    ],
)
def test_documents(make: Make, value: AttributeValue, expected: list[tuple[str | None, str]]) -> None:
    """Objects with content, texts, or the whole context."""
    read = step(make, {"rag.retrieved_context": value, "rag.question": "When?"})
    assert (Role.RETRIEVAL, "When?", expected) == (
        read.role,
        read.retrieval_query,
        [(c.id, c.content) for c in read.documents or ()],
    )


def test_flattened_documents(make: Make) -> None:
    """Documents that were flattened are put together in numeric order."""
    attributes = {"r.documents.10.text": "Ten.", "r.documents.10.id": "d10", "r.documents.9.text": "Nine."}
    read = step(make, {**attributes, "r.documents.9.id": "d9", "r.documents.0.text": "None.", "r.documents.0.id": "d0"})
    assert ["d0", "d9", "d10"] == [citation.id for citation in read.documents or ()]


def test_a_model_call(make: Make) -> None:
    """Whoever names a model calls one."""
    talk = '[{"role": "user", "content": "Hi"}, {"role": "user", "content": "When?"}]'
    read = step(make, {"m.messages": talk, "m.response": "On Friday.", "m.model_name": "m", "m.response_model": "m-2"})
    assert (
        Role.LLM,
        "On Friday.",
        "m-2",
        (Message(role="user", content="Hi"), Message(role="user", content="When?")),
    ) == (
        read.role,
        read.output,
        read.model,
        read.messages,
    )


def test_what_was_embedded(make: Make) -> None:
    """Text that was embedded is no answer."""
    assert Role.EMBEDDING == step(make, {"input_text": "a b", "model": "e", "search_query": "a b"}, name="embed").role


def test_content_in_events(make: Make) -> None:
    """Some apps log what happened as events of the span."""
    events = [make.event("asked", {"question": "When?"}), make.event("done", {"answer": "On Friday."})]
    read = DIALECT.read(make.span(1, {}, events=events))
    assert ("When?", "On Friday.") == (read.query, read.response)


def test_a_request_that_says_what_was_asked(make: Make) -> None:
    """An app's attributes on its server span keep route and failure of the request."""
    read = step(make, {"http.route": "/chat", "http.response.status_code": 503, "app.question": "When?"})
    assert ("When?", {"route": "/chat"}, "503") == (read.query, read.facets, read.error)


def test_events_by_their_names(make: Make) -> None:
    """An event's name says what its only text is; documents may come one an event."""
    events = [
        make.event("user_message", {"text": "When will it come?"}),
        make.event("document_retrieved", {"doc.id": "d-1", "doc.text": CONTEXT, "doc.score": 0.5}),
        make.event("cache_hit", {"text": "nothing"}),
        make.event("assistant_message", {"text": "On Friday."}),
    ]
    span = make.span(1, {}, events=events)
    read = DIALECT.read(span)
    assert (True, Role.CHAIN, "When will it come?", "On Friday.") == (
        DIALECT.claims(span),
        read.role,
        read.query,
        read.response,
    )
    assert [("d-1", CONTEXT, 0.5)] == [(c.id, c.content, c.score) for c in read.documents or ()]


def test_ids_and_scores_beside_the_texts(make: Make) -> None:
    """Lists of the same length as the texts say more of each; others are left alone."""
    texts = [CONTEXT, CONTEXT + " More."]
    read = step(make, {"rag.docs": texts, "rag.doc_ids": ["a", "b"], "rag.scores": [0.5, 0.25]}, "retrieve")
    odd = step(make, {"rag.docs": texts, "rag.doc_ids": ["a"], "rag.distances": [0.5, 0.25]}, "retrieve")
    assert [("a", 0.5, "unknown"), ("b", 0.25, "unknown")] == [
        (c.id, c.score, c.score_kind) for c in read.documents or ()
    ]
    assert [(None, 0.5, "distance"), (None, 0.25, "distance")] == [
        (c.id, c.score, c.score_kind) for c in odd.documents or ()
    ]


def test_a_whole_turn_on_one_span(make: Make) -> None:
    """A span that was asked, found documents and answered is no mere model call, whatever model it names."""
    read = step(make, {"question": "When?", "answer": "On Friday.", "contexts": [CONTEXT], "llm.model": "m-mini"})
    assert (Role.CHAIN, "m-mini", 1) == (read.role, read.model, len(read.documents or ()))


def test_a_call_that_failed(make: Make) -> None:
    """A prompt and a model without an answer are a call that failed, if it did."""
    attributes: Attributes = {"llm.prompt": "When will it come?", "llm.model_name": "m-mini"}
    failed = make.span(1, attributes, status=2)
    assert (True, Role.LLM) == (DIALECT.claims(failed), DIALECT.role(failed))
    assert not DIALECT.claims(make.span(1, attributes))


def test_whose_turn_it_is(make: Make) -> None:
    """Ids and history under the app's own names, or inside the input."""
    history = '[{"role": "user", "content": "Hi"}]'
    own = step(make, {"app.question": "When?", "app.session_id": "s", "app.user_id": 7, "app.chat_history": history})
    assert ("s", "7", (Message(role="user", content="Hi"),)) == (own.session_id, own.user_id, own.history)
    given = step(make, {"input": '{"question": "When is it?", "session_id": "s"}', "output": "On Friday."})
    assert ("When is it?", "s") == (given.query, given.session_id)


def test_what_a_function_returned(make: Make) -> None:
    """A function that was given a query and returned documents retrieved; any other's rows are rows."""
    rows = f'[{{"id": "d", "text": "{CONTEXT}"}}]'
    read = step(make, {"query": "When will it come?", "return": rows})
    assert (Role.RETRIEVAL, "When will it come?", "d") == (
        read.role,
        read.retrieval_query,
        (read.documents or ())[0].id,
    )
    assert not DIALECT.claims(make.span(1, {"limit": 3, "return": rows}))


@pytest.mark.parametrize(
    "attributes",
    [
        {"bot.user_utterance": "When is it?", "bot.bot_utterance": "On Friday."},
        {"input_query": "When is it?", "final_output": "On Friday."},
        {"app.frage": "When is it?", "app.antwort": "On Friday."},
        {"request.body": '{"question": "When is it?"}', "response.body": '{"answer": "On Friday."}'},
    ],
)
def test_other_words_for_it(make: Make, attributes: Attributes) -> None:
    """Names in other words and languages, and the bodies of a request that say what they hold."""
    read = step(make, attributes)
    assert ("When is it?", "On Friday.", frozenset()) == (read.query, read.response, read.unsure)


def test_a_search_of_a_shop(make: Make) -> None:
    """What was searched for is no turn's retrieval where nothing says that texts were retrieved."""
    attributes: Attributes = {"http.route": "/search", "search.query": "red shoes size 9"}
    assert not DIALECT.claims(make.span(1, attributes, name="GET /search"))
    assert DIALECT.claims(make.span(1, attributes, name="vector search"))


def test_an_answer_that_is_no_text(make: Make, turns: Turns) -> None:
    """A number is kept as JSON, and a question without an answer is a turn."""
    spans = [make.span(1, {"shop.question": "How many?", "shop.answer": 42}), make.span(1, {"shop.question": "Why?"})]
    assert [("How many?", "42"), ("Why?", None)] == [
        (turn.query, turn.response) for span in spans for turn in turns([span])
    ]


@pytest.mark.parametrize(
    ("exchange", "expected"),
    [
        ({"input.value": "How long is it?", "output.value": "Two years."}, ("How long is it?", "Two years.")),
        ({"input.value": "Why?", "output.value": "So."}, ("Why?", "So.")),
        ({"input.value": 5, "output.value": "Menu five."}, ("5", "Menu five.")),
        ({"input.value": 2.5, "output.value": 7}, ("2.5", "7")),
        ({"input.value": True, "output.value": False}, ("true", "false")),
        ({"input.value": ("Why?",), "output.value": "So."}, ("Why?", "So.")),
    ],
)
@pytest.mark.parametrize("kind", [None, "CHAIN"])
def test_an_exchange_on_one_root_span(
    make: Make, turns: Turns, kind: str | None, exchange: Attributes, expected: tuple[str, str]
) -> None:
    """A root with `input.value` and `output.value`, of whatever scalar type, is a turn, also without a kind of span."""
    (turn,) = turns([make.span(1, exchange | ({"openinference.span.kind": kind} if kind else {}))])
    assert expected == (turn.query, turn.response)
    assert (kind is None) == ("generic" in turn.flags)


def test_a_step_without_a_kind(make: Make, turns: Turns) -> None:
    """A function below another span that was handed something and returned something is no turn."""
    exchange = {"input.value": "tokenize this", "output.value": "tokenize, this"}
    assert () == turns([make.span(1, {"http.route": "/chat"}), make.span(2, exchange, parent=1)])
