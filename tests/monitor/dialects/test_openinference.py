"""OpenInference spans, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.openinference import DIALECT
from monitor.model.spans import Attributes, AttributeValue, Role, Step
from monitor.model.turns import Citation, Message

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


def step(make: Make, kind: str, attributes: Attributes) -> Step:
    """A span of a kind."""
    return DIALECT.read(make.span(1, {"openinference.span.kind": kind, **attributes}))


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        ("CHAIN", Role.CHAIN),
        ("AGENT", Role.AGENT),
        ("RETRIEVER", Role.RETRIEVAL),
        ("RERANKER", Role.RERANK),
        ("TOOL", Role.TOOL),
        ("EMBEDDING", Role.EMBEDDING),
        ("EVALUATOR", Role.EVALUATION),
        ("GUARDRAIL", Role.NOISE),
        ("PROMPT", Role.NOISE),
        ("SOMETHING_NEW", Role.CHAIN),
    ],
)
def test_kinds(make: Make, kind: str, role: Role) -> None:
    """Every kind has its role; one nobody has heard of wraps others."""
    span = make.span(1, {"openinference.span.kind": kind})
    assert (True, role, role) == (DIALECT.claims(span), DIALECT.role(span), DIALECT.read(span).role)


def test_spans_of_others(make: Make) -> None:
    """A span without a kind is claimed only from an OpenInference instrumentor."""
    assert (False, True) == (
        DIALECT.claims(make.span(1, {"input.value": "x"})),
        DIALECT.claims(make.span(1, {"input.value": "x"}, scope="openinference.instrumentation.dspy")),
    )


def test_a_chain(make: Make) -> None:
    """A chain says what was asked, what came before and what was answered, in JSON."""
    read = step(
        make,
        "CHAIN",
        {
            "input.value": '{"question": "Why?", "chat_history": [{"role": "user", "content": "Hi"}]}',
            "input.mime_type": "application/json",
            "output.value": '{"answer": "So.", "context": [{"page_content": "x", "metadata": {"title": "t"}}]}',
            "session.id": "s",
            "user.id": "u",
        },
    )
    assert ("Why?", (Message(role="user", content="Hi"),), "So.", "x", "s", "u") == (
        read.query,
        read.history,
        read.response,
        read.documents[0].content,
        read.session_id,
        read.user_id,
    )


def test_text_that_is_said_to_be_plain(make: Make) -> None:
    """With MIME type text/plain an answer stays what it is even when it looks like JSON."""
    assert '{"a": 1}' == step(make, "CHAIN", {"output.value": '{"a": 1}', "output.mime_type": "text/plain"}).response


def test_a_printed_dict(make: Make) -> None:
    """Apps that write `str(a_dict)` into their spans are read like JSON."""
    read = step(
        make, "CHAIN", {"input.value": "{'question': 'Why?', 'history': []}", "output.value": "{'answer': 'So.'}"}
    )
    assert ("Why?", (), "So.") == (read.query, read.history, read.response)


def test_a_redacted_chain(make: Make) -> None:
    """What the privacy switches replaced is absent, and flagged."""
    read = step(make, "CHAIN", {"input.value": "__REDACTED__", "output.value": "__REDACTED__"})
    assert (None, None, frozenset({"redacted"})) == (read.query, read.response, read.flags)


def test_a_model_call(make: Make) -> None:
    """A model call has its messages, its text, its tokens and the models asked for and answering."""
    read = step(
        make,
        "LLM",
        {
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": "Why?",
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "Be kind.",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "So.",
            "llm.model_name": "gpt-4o-mini-2024-07-18",
            "llm.invocation_parameters": '{"model": "gpt-4o-mini", "stream": true}',
            "llm.token_count.prompt": 10,
            "llm.token_count.completion": 2,
            "output.value": '{"id":"chatcmpl-5","model":"gpt-4o-mini-2024-07-18"}',
        },
    )
    assert (
        (Message(role="system", content="Be kind."), Message(role="user", content="Why?")),
        "So.",
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        (10, 2),
        True,
        "chatcmpl-5",
    ) == (
        read.messages,
        read.output,
        (read.model, read.request_model),
        (read.input_tokens, read.output_tokens),
        read.streaming,
        read.response_id,
    )


def test_a_failed_call_names_no_answering_model(make: Make) -> None:
    """The model of a call without an answer is the one that was asked."""
    read = DIALECT.read(make.call(1, [("user", "Why?")], None, status=2))
    assert (None, "m", "error") == (read.model, read.request_model, read.error)


def test_the_model_that_a_streamed_reply_names(make: Make) -> None:
    """LangChain puts the requested model into llm.model_name when streaming; the reply names its own."""
    read = step(
        make,
        "LLM",
        {
            "llm.model_name": "gpt-4o-mini",
            "llm.output_messages.0.message.content": "So.",
            "output.value": '{"generations": [[{"generation_info": {"model_name": "gpt-4o-mini-2024-07-18"}}]]}',
        },
    )
    assert "gpt-4o-mini-2024-07-18" == read.model


@pytest.mark.parametrize("name", ["bedrock.converse_stream", "GenerateContentStream", "OpenAI.astream_chat"])
def test_the_name_of_a_streaming_method(make: Make, name: str) -> None:
    """Instrumentors that mark nothing else name the span after the method that streams."""
    attributes: Attributes = {"openinference.span.kind": "LLM", "llm.model_name": "m", "output.value": "So."}
    streamed, whole = (DIALECT.read(make.span(1, attributes, name=n)).streaming for n in (name, "bedrock.converse"))
    assert (True, None) == (streamed, whole)


def test_the_model_of_a_raw_reply(make: Make) -> None:
    """An agent's output may hold the provider's reply, which names the model."""
    value = '{"response": {"role": "assistant", "blocks": [{"text": "So."}]}, "raw": {"model": "m-2"}}'
    read = step(make, "CHAIN", {"output.value": value, "output.mime_type": "application/json"})
    assert ("So.", "m-2") == (read.response, read.model)


def test_a_redacted_call(make: Make) -> None:
    """A call whose content was replaced still names the model that answered; a helper that was given text is none."""
    hidden: Attributes = {"input.value": "__REDACTED__", "output.value": "__REDACTED__"}
    settings: Attributes = {"llm.model_name": "m-2026", "llm.invocation_parameters": '{"model": "m"}'}
    call, helper = step(make, "LLM", hidden | settings), step(make, "LLM", {"input.value": "__REDACTED__"})
    assert (Role.LLM, "m-2026", "m", None) == (call.role, call.model, call.request_model, call.output)
    assert Role.NOISE is helper.role


def test_a_crew(make: Make) -> None:
    """CrewAI's kickoff had its inputs under a key of their own, and answers with what it made raw."""
    read = step(
        make,
        "CHAIN",
        {
            "crew_inputs": '{"question": "Why?", "history": [{"role": "user", "content": "Hi"}]}',
            "output.value": '{"raw": "So.", "pydantic": null, "tasks_output": [{"description": "Answer: Why?"}]}',
            "output.mime_type": "application/json",
        },
    )
    assert ("Why?", (Message(role="user", content="Hi"),), "So.") == (read.query, read.history, read.response)


def test_a_crew_without_inputs(make: Make) -> None:
    """A crew that was given no inputs is asked by its first task."""
    tasks = '[{"id": "7", "description": "Answer: Why?"}, {"id": "8", "description": "Check the answer."}]'
    read = step(make, "CHAIN", {"crew_inputs": "", "crew_tasks": tasks})
    assert ("Answer: Why?", {"query"}) == (read.query, read.unsure & {"query"})


def test_messages_without_their_prefix(make: Make) -> None:
    """The first instrumentor of Groq flattened messages without `message.`."""
    attributes: Attributes = {
        "llm.input_messages.0.role": "system",
        "llm.input_messages.0.content": "Be kind.",
        "llm.input_messages.1.role": "user",
        "llm.input_messages.1.content": "Why?",
        "output.value": "So.",
    }
    assert [("system", "Be kind."), ("user", "Why?")] == [
        (m.role, m.content) for m in step(make, "LLM", attributes).messages or ()
    ]


def test_a_request_among_its_settings(make: Make) -> None:
    """Early instrumentors of Bedrock have the whole request as invocation parameters, and nothing else of it."""
    request = '{"max_tokens": 9, "system": "Be kind.", "messages": [{"role": "user", "content": "Why?"}]}'
    read = step(make, "LLM", {"llm.invocation_parameters": request, "llm.model_name": "m", "output.value": "None"})
    assert (Message(role="system", content="Be kind."), Message(role="user", content="Why?")) == read.messages
    assert read.output is None


def test_tool_traffic_by_other_names(make: Make) -> None:
    """Smolagents' roles `tool-call` and `tool-response` are no words of the user."""
    messages: Attributes = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Why?",
        "llm.input_messages.1.message.role": "tool-call",
        "llm.input_messages.1.message.content": "Calling tools: []",
        "llm.input_messages.2.message.role": "tool-response",
        "llm.input_messages.2.message.content": "Observation: none",
        "output.value": "So.",
    }
    assert ["user", "tool", "tool"] == [m.role for m in step(make, "LLM", messages).messages or ()]


def test_the_model_that_answered_under_another_key(make: Make) -> None:
    """Spans that were translated from GenAI conventions still hold the answering model under its own key."""
    read = step(make, "LLM", {"llm.model_name": "m", "gen_ai.response.model": "m-2026", "output.value": "So."})
    assert ("m-2026", "m") == (read.model, read.request_model)


def test_tool_calls(make: Make) -> None:
    """A call that only asks for tools has no text."""
    read = step(
        make,
        "LLM",
        {
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "Stock?",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}",
        },
    )
    assert (None, 1) == (read.output, read.tool_calls)


def test_content_parts(make: Make) -> None:
    """Text parts are read, images become markers."""
    read = step(
        make,
        "LLM",
        {
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.type": "text",
            "llm.input_messages.0.message.contents.0.message_content.text": "What is it?",
            "llm.input_messages.0.message.contents.1.message_content.type": "image",
            "llm.input_messages.0.message.contents.1.message_content.image.image.url": "data:image/png;base64,AA",
            "output.value": "A lamp.",
        },
    )
    assert ("What is it?\n[image]", "A lamp.") == (read.messages[0].content, read.output)


def test_messages_in_the_request_only(make: Make) -> None:
    """Where the attribute limit dropped the flattened messages, the request body still holds them."""
    body = '{"model": "m", "messages": [{"role": "user", "content": "Why?"}]}'
    assert (Message(role="user", content="Why?"),) == step(
        make, "LLM", {"input.value": body, "output.value": "So."}
    ).messages


def test_the_question_in_template_variables(make: Make) -> None:
    """The variables of a prompt template hold the question without the template."""
    variables = '{"context_str": "long", "query_str": "Why?"}'
    assert "Why?" == step(make, "LLM", {"llm.prompt_template.variables": variables, "output.value": "So."}).query


def test_a_helper_that_calls_no_model(make: Make) -> None:
    """LlamaIndex gives kind LLM to helpers that only have an input."""
    assert Role.NOISE == step(make, "LLM", {"input.value": '{"memory": "Memory(token_limit=1)"}'}).role


def test_flattened_documents(make: Make) -> None:
    """Documents come in numeric order of their index, holes and all."""
    attributes = {}
    for i in (0, 10, 9):
        attributes[f"retrieval.documents.{i}.document.id"] = f"d{i}"
        attributes[f"retrieval.documents.{i}.document.score"] = 1
    read = step(make, "RETRIEVER", {"input.value": "Why?", **attributes})
    assert ("Why?", ["d0", "d9", "d10"], "similarity") == (
        read.retrieval_query,
        [citation.id for citation in read.documents],
        read.documents[0].score_kind,
    )


def test_ids_in_the_output_value(make: Make) -> None:
    """LangChain flattens content and metadata only; id and score stand in its output."""
    read = step(
        make,
        "RETRIEVER",
        {
            "retrieval.documents.0.document.content": "Five.",
            "retrieval.documents.0.document.metadata": '{"title": "Fees", "source": "f.md"}',
            "output.value": '{"documents": [{"id": "kb-1", "page_content": "Five.", "metadata": {"score": 0.5}}]}',
        },
    )
    assert (Citation(id="kb-1", title="Fees", content="Five.", score=0.5, source="f.md", rank=1),) == read.documents


@pytest.mark.parametrize(
    ("attributes", "dropped", "status", "expected"),
    [
        pytest.param({}, 0, 1, (), id="found-nothing"),
        pytest.param({"output.value": "[]"}, 0, 1, (), id="empty-output"),
        pytest.param({}, 30, 1, None, id="dropped-by-the-limit"),
        pytest.param({}, 0, 2, None, id="failed"),
        pytest.param({"output.value": "__REDACTED__"}, 0, 1, None, id="redacted"),
    ],
)
def test_a_retriever_without_documents(
    make: Make, attributes: dict[str, str], dropped: int, status: int, expected: tuple[()] | None
) -> None:
    """Finding nothing has no key of its own; it is told from documents that were dropped, redacted or never found."""
    named = {"openinference.span.kind": "RETRIEVER", "input.value": "Why?", **attributes}
    assert expected == DIALECT.read(make.span(1, named, dropped=dropped, status=status)).documents


@pytest.mark.parametrize(
    ("attributes", "status", "expected"),
    [
        ({"reranker.input_documents.0.document.content": "Text."}, 0, ()),
        ({"output.value": "[]"}, 0, ()),
        ({"output.value": '{"nodes": []}', "output.mime_type": "application/json"}, 0, ()),
        ({"reranker.input_documents.0.document.content": "Text."}, 2, None),
        ({"reranker.input_documents.0.document.content": "Text.", "output.value": "__REDACTED__"}, 0, None),
        ({"reranker.query": "Why?"}, 0, None),
    ],
)
def test_a_reranker_that_kept_nothing(
    make: Make, attributes: dict[str, AttributeValue], status: int, expected: tuple[Citation, ...] | None
) -> None:
    """Documents went in and none came out, or the output is an empty list; a failed or hidden one says nothing."""
    attributes = {"openinference.span.kind": "RERANKER", **attributes}
    assert expected == DIALECT.read(make.span(1, attributes, status=status)).documents


def test_broken_metadata(make: Make) -> None:
    """A document whose metadata is broken is kept, and that is flagged."""
    read = step(
        make,
        "RETRIEVER",
        {
            "retrieval.documents.0.document.id": "a",
            "retrieval.documents.0.document.content": "x",
            "retrieval.documents.0.document.metadata": "{broken",
        },
    )
    assert ("a", frozenset({"metadata_unread"})) == (read.documents[0].id, read.flags)


def test_a_tool_message(make: Make) -> None:
    """LangChain's tool message is unwrapped; its artifact are the documents themselves."""
    value = '{"type": "tool", "data": {"content": "text", "artifact": [{"id": "a", "page_content": "x"}]}}'
    read = step(make, "TOOL", {"tool.name": "search", "input.value": '{"query": "Why?"}', "output.value": value})
    assert ("a", "Why?", "search") == (read.documents[0].id, read.retrieval_query, read.tool)


def test_embeddings(make: Make) -> None:
    """One text that was embedded is what somebody searched for, several are a corpus."""
    one = {"embedding.embeddings.0.embedding.text": "Why?"}
    two = {**one, "embedding.embeddings.1.embedding.text": "Other."}
    assert ("Why?", None) == (
        step(make, "EMBEDDING", one).retrieval_query,
        step(make, "EMBEDDING", two).retrieval_query,
    )


def test_a_piece_of_a_streamed_answer(make: Make) -> None:
    """A span of kind LLM with nothing but an output is no call."""
    piece = {"openinference.span.kind": "LLM", "output.value": '{"text": "So"}', "output.mime_type": "application/json"}
    assert (Role.NOISE, Role.LLM) == (
        DIALECT.read(make.span(1, piece)).role,
        DIALECT.read(make.span(1, {**piece, "llm.model_name": "m"})).role,
    )
