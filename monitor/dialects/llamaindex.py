"""LlamaIndex's own OpenTelemetry observer: scope `llamaindex.opentelemetry.tracer`, everything in span events.

Spans are named after classes and methods and carry no attributes; events carry the fields of LlamaIndex's events,
nested ones with dotted keys, lists as JSON text. A chat engine's span says nothing itself: the synthesizer below it was
asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from monitor.extract.attributes import is_mapping, is_sequence, text
from monitor.extract.chain_io import chain_input, chain_output, clean_answer, first_answer
from monitor.extract.convention import Convention, Setup, Table
from monitor.extract.documents import documents, tool_documents
from monitor.extract.json_text import unwrap
from monitor.extract.messages import ParsedMessage, messages_of, prompt_messages
from monitor.model.spans import Attributes, AttributeValue, Role, Span, Step

NAME = "llamaindex"

TABLE = Table(
    session_id=("tags.session_id", "tags.thread_id", "tags.conversation_id"),
    user_id=("tags.user_id",),
    model=("response.raw.model", "response.raw.model_version"),
    request_model=("model_dict.model_name", "model_dict.model"),
    input_tokens=(
        "response.additional_kwargs.prompt_tokens",
        "response.raw.usage.prompt_tokens",
        "response.raw.usage.input_tokens",
    ),
    output_tokens=(
        "response.additional_kwargs.completion_tokens",
        "response.raw.usage.completion_tokens",
        "response.raw.usage.output_tokens",
    ),
    response_id=("response.raw.id",),
    facets=(("reranker", "model_name"),),
)

SCOPE = "llamaindex.opentelemetry.tracer"
EVENTS = (
    ("Retrieval", Role.RETRIEVAL),
    ("ReRank", Role.RERANK),
    ("Embedding", Role.EMBEDDING),
    ("SparseEmbedding", Role.EMBEDDING),
    ("LLM", Role.LLM),
    ("AgentToolCall", Role.TOOL),
    ("Query", Role.CHAIN),
    ("Synthesize", Role.CHAIN),
    ("StreamChat", Role.CHAIN),
    ("AgentChat", Role.AGENT),
    ("AgentRun", Role.AGENT),
)
"""Beginnings of event names and what their span does; the first that occurs counts."""
METHODS = (
    (("ChatEngine",), ("chat", "stream_chat", "achat", "astream_chat"), Role.CHAIN),
    (("QueryEngine",), ("query", "aquery"), Role.CHAIN),
    (("Agent", "AgentWorkflow", "AgentRunner"), ("run", "chat", "stream_chat", "achat", "astream_chat"), Role.AGENT),
    (("Workflow",), ("run",), Role.CHAIN),
    (("Retriever",), ("retrieve", "aretrieve"), Role.RETRIEVAL),
    (("Embedding",), (), Role.EMBEDDING),
    (("Tool",), ("call", "acall"), Role.TOOL),
)
"""Ends of class names, methods (any, when none is named) and the role of spans without events."""
ASKING = ("query", "query.query_str", "user_msg", "user_message", "message", "task_input")
ANSWERING = ("response.response", "response.message.blocks", "response.message.content", "response", "output")
DELTA = "StreamChatDeltaReceivedEvent"


def claims(span: Span) -> bool:
    """Return whether the span comes from the observer."""
    return span.scope == SCOPE


def role(span: Span) -> Role:
    """Return the role that the span's events tell, else its class and method."""
    for event in span.events:
        event_role = next((span_role for prefix, span_role in EVENTS if event.name.startswith(prefix)), None)
        if event_role is not None:
            return event_role
    kind, _, method = span.name.rpartition(".")
    for kinds, methods, span_role in METHODS:
        if kind.endswith(kinds) and (method in methods or not methods):
            return span_role
    return Role.NOISE


def read(span: Span) -> Step:
    """Translate one span; what its events say is read as its attributes, the latest word counts."""
    fields: dict[str, AttributeValue] = dict(span.attributes)
    for event in span.events:
        fields.update(event.attributes)
    step = replace(TABLE.step(replace(span, attributes=fields), role(span), NAME), span=span)
    reader = _READERS.get(step.role)
    return step if reader is None else reader(step, fields)


def _chain(step: Step, fields: Attributes) -> Step:
    deltas = "".join(text(e.attributes, "delta") or "" for e in step.span.events if e.name == DELTA)
    response = clean_answer(deltas)
    if response is None:
        response = next((r for key in ANSWERING if (r := chain_output(unwrap(fields.get(key))).response)), None)
    return replace(
        step,
        query=next((query for key in ASKING if (query := chain_input(unwrap(fields.get(key))).query)), None),
        response=response,
        streaming=True if deltas or step.span.name.rpartition(".")[2].startswith(("stream_", "astream_")) else None,
    )


def _model_call(step: Step, fields: Attributes) -> Step:
    prompt = messages_of(unwrap(fields.get("messages"))) or messages_of(fields.get("prompt"))
    replies = _replies(fields)
    method = step.span.name.rpartition(".")[2]
    return replace(
        step,
        messages=prompt_messages(prompt),
        output=first_answer(replies),
        tool_calls=_tool_calls(fields),
        streaming=True if method.startswith(("stream", "astream")) else None,
    )


def _retrieval(step: Step, fields: Attributes) -> Step:
    read = documents(unwrap(fields.get("nodes")), trusted=True)
    return replace(
        step,
        retrieval_query=chain_input(
            unwrap(text(fields, "str_or_query_bundle.query_str", "str_or_query_bundle", "query"))
        ).query,
        documents=None if read is None else read.citations,
    )


def _tool(step: Step, fields: Attributes) -> Step:
    tool = text(fields, "tool.name", "tool_name")
    read = tool_documents(tool, unwrap(text(fields, "output", "tool_output", "response")))
    return replace(
        step,
        tool=tool,
        retrieval_query=chain_input(unwrap(fields.get("arguments"))).query,
        documents=None if read is None else read.citations,
    )


def _embedding(step: Step, fields: Attributes) -> Step:
    """A single text that was embedded is what somebody searched for; several are a corpus."""
    chunks = unwrap(fields.get("chunks"))
    only = chunks[0] if is_sequence(chunks) and len(chunks) == 1 else None
    query = only if isinstance(only, str) and "query" in step.span.name else None
    return replace(step, retrieval_query=query, model=step.request_model)


_READERS: Mapping[Role, Callable[[Step, Attributes], Step]] = {
    Role.CHAIN: _chain,
    Role.AGENT: _chain,
    Role.LLM: _model_call,
    Role.RETRIEVAL: _retrieval,
    Role.RERANK: _retrieval,
    Role.TOOL: _tool,
    Role.EMBEDDING: _embedding,
}


def _replies(fields: Attributes) -> tuple[ParsedMessage, ...]:
    for key in ("response.message.blocks", "response.message.content", "response.text", "response", "output"):
        replies = messages_of(unwrap(fields.get(key)), default_role="assistant")
        if any(m.content for m in replies):
            return replies
    return ()


def _tool_calls(fields: Attributes) -> int:
    calls = unwrap(fields.get("response.message.additional_kwargs.tool_calls"))
    if is_sequence(calls):
        return len(calls)
    blocks = unwrap(fields.get("response.message.blocks"))
    return sum(is_mapping(b) and b.get("block_type") == "tool_call" for b in blocks) if is_sequence(blocks) else 0


DIALECT = Convention(
    name=NAME,
    priority=75,
    url="https://developers.llamaindex.ai/python/framework/module_guides/observability/",
    versions="llama-index-observability-otel 0.1 to 0.5",
    setup=Setup(
        lines=(
            "pip install llama-index-observability-otel\n"
            "resource = Resource.create()  # with the service's name and release, else it is named after LlamaIndex\n"
            "LlamaIndexOpenTelemetry(span_exporter=OTLPSpanExporter(), service_name_or_resource=resource)"
            ".start_registering()"
        ),
        session="set session.id on a span of your own around the turn",
        documents="retrievers emit their nodes",
    ),
    claims=claims,
    role=role,
    read=read,
)
