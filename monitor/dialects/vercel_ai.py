"""Vercel AI SDK, the spans named `ai.*`: `ai.operationId`, prompts and results as JSON text.

Retrieval is a tool call or an `ai.embed` of the app's. Releases 2 to 3.3 called responses results (`ai.result.text`).
Release 7 with `@ai-sdk/otel` speaks OpenTelemetry GenAI instead, which `genai` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from monitor.extract.attributes import is_mapping, is_sequence, text
from monitor.extract.chain_io import chain_input, chain_output, clean_answer
from monitor.extract.convention import Convention, FacetKeys, Setup, Table
from monitor.extract.documents import documents, tool_documents
from monitor.extract.json_text import dump, parse, unwrap
from monitor.extract.messages import ParsedMessage, before_last_user, conversation, messages_of, prompt_messages
from monitor.extract.session_and_user import SessionAndUserKeys
from monitor.model.spans import Attributes, AttributeValue, Role, Span, Step

NAME = "vercel_ai"

TABLE = Table(
    model=("gen_ai.response.model", "ai.response.model"),
    request_model=("gen_ai.request.model", "ai.model.id"),
    input_tokens=("gen_ai.usage.input_tokens", "ai.usage.inputTokens", "ai.usage.promptTokens"),
    output_tokens=("gen_ai.usage.output_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens"),
    response_id=("gen_ai.response.id", "ai.response.id"),
    facets=(
        ("provider", "ai.model.provider"),
        ("agent", "ai.telemetry.functionId"),
        ("prompt_version", "ai.telemetry.metadata.promptVersion"),
    ),
)

OPERATION = "ai.operationId"
ROLES = {
    "doGenerate": Role.LLM,
    "doStream": Role.LLM,
    "embed": Role.EMBEDDING,
    "embedMany": Role.EMBEDDING,
    "doEmbed": Role.EMBEDDING,
    "rerank": Role.RERANK,
    "doRerank": Role.RERANK,
    "toolCall": Role.TOOL,
}
PROMPT, MESSAGES = "ai.prompt", "ai.prompt.messages"
TEXTS = ("ai.response.text", "ai.result.text")
OBJECTS = ("ai.response.object", "ai.result.object")
CALLS = ("ai.response.toolCalls", "ai.result.toolCalls")


def claims(span: Span) -> bool:
    """Return whether the span names an operation of the SDK."""
    return _operation(span).startswith("ai.") and any(key.startswith("ai.") for key in span.attributes)


def role(span: Span) -> Role:
    """Return the role of the operation's last part; `ai.generateText` and its like wrap the steps of an answer."""
    return ROLES.get(_operation(span).rpartition(".")[2], Role.CHAIN)


def read(span: Span) -> Step:
    """Translate one span."""
    step = TABLE.step(span, role(span), NAME)
    reader = _READERS.get(step.role)
    return step if reader is None else reader(step, span.attributes)


def _operation(span: Span) -> str:
    """The operation; in `operation.name` the app's name for the call follows it after a blank."""
    operation = text(span.attributes, OPERATION, "operation.name") or span.name
    return operation.partition(" ")[0]


def _chain(step: Step, attributes: Attributes) -> Step:
    prompt, cut = _prompt(attributes)
    earlier, last = before_last_user(prompt)
    query = last.content.strip() or None if last else None
    response, shapeless = _answer(attributes)
    flags = set(step.flags)
    if cut is not None:
        flags.add("truncated")
        if query is not None and query == cut.strip():
            flags.add("input_truncated")
    return replace(
        step,
        query=query,
        history=conversation(earlier) if last else None,
        response=response,
        shapeless=shapeless,
        streaming=_streams(step.span),
        unsure=frozenset() if cut is None else frozenset({"history"}),
        flags=frozenset(flags),
    )


def _model_call(step: Step, attributes: Attributes) -> Step:
    prompt, cut = _prompt(attributes)
    calls = next((tool_calls for key in CALLS if (tool_calls := unwrap(attributes.get(key)))), None)
    response, shapeless = _answer(attributes)
    return replace(
        step,
        messages=prompt_messages(prompt),
        output=response or shapeless,
        tool_calls=len(calls) if is_sequence(calls) else 0,
        streaming=_streams(step.span),
        flags=step.flags if cut is None else step.flags | {"truncated"},
    )


def _tool(step: Step, attributes: Attributes) -> Step:
    tool = text(attributes, "ai.toolCall.name")
    read = tool_documents(tool, unwrap(attributes.get("ai.toolCall.result")))
    return replace(
        step,
        tool=tool,
        retrieval_query=chain_input(unwrap(attributes.get("ai.toolCall.args"))).query,
        documents=None if read is None else read.citations,
    )


def _embedding(step: Step, attributes: Attributes) -> Step:
    """A single value that was embedded is what somebody searched for; several are a corpus."""
    only = unwrap(attributes.get("ai.value"))
    return replace(step, retrieval_query=only if isinstance(only, str) and only.strip() else None)


def _rerank(step: Step, attributes: Attributes) -> Step:
    """`ai.ranking` says which of `ai.documents` were kept, in which order and how relevant; release 6 tells inside."""
    candidates = _each(attributes.get("ai.documents"))
    ranking: list[AttributeValue] = []
    places = _each(attributes.get("ai.ranking"))
    for place in places:
        at = place.get("index", place.get("originalIndex")) if is_mapping(place) else None
        if is_mapping(place) and isinstance(at, int) and 0 <= at < len(candidates):
            ranking.append({"document": _as_document(candidates[at]), "relevance_score": place.get("relevanceScore")})
    kept_none = not places and is_sequence(unwrap(attributes.get("ai.ranking")))
    read = documents(ranking, trusted=True) if ranking or kept_none else None
    return replace(
        step, retrieval_query=text(attributes, "ai.query"), documents=None if read is None else read.citations
    )


_READERS: Mapping[Role, Callable[[Step, Attributes], Step]] = {
    Role.CHAIN: _chain,
    Role.LLM: _model_call,
    Role.TOOL: _tool,
    Role.EMBEDDING: _embedding,
    Role.RERANK: _rerank,
}


def _prompt(attributes: Attributes) -> tuple[tuple[ParsedMessage, ...], str | None]:
    """The messages that went in, and the text that they were cut in (None: they were not cut)."""
    for key in (MESSAGES, PROMPT):
        value = attributes.get(key)
        if not value:
            continue
        parsed = parse(value) if isinstance(value, str) else None
        messages = value if parsed is None else parsed.value
        if is_mapping(messages) and (messages.get("messages") or messages.get("prompt")):
            messages = messages.get("messages") or messages.get("prompt")
        read = messages_of(messages)
        if read:
            return read, parsed.cut if parsed is not None else None
    return (), None


def _answer(attributes: Attributes) -> tuple[str | None, str | None]:
    """The answer as text; else compact JSON of an object in which no answer was found."""
    written = text(attributes, *TEXTS)
    if written is not None:
        return clean_answer(written), None
    result = next((unwrap(attributes[key]) for key in OBJECTS if attributes.get(key)), None)
    if result is None:
        return None, None
    answer = chain_output(result)
    return answer.response, answer.shapeless


def _streams(span: Span) -> bool:
    return ".stream" in _operation(span)


def _each(value: AttributeValue) -> tuple[AttributeValue, ...]:
    """The elements of a list in which each element is JSON text, or that is JSON text itself."""
    elements = unwrap(value)
    return tuple(unwrap(element) for element in elements) if is_sequence(elements) else ()


def _as_document(value: AttributeValue) -> AttributeValue:
    return value if is_mapping(value) else {"content": value if isinstance(value, str) else dump(value)}


DIALECT = Convention(
    name=NAME,
    priority=70,
    url="https://ai-sdk.dev/docs/ai-sdk-core/telemetry",
    versions="ai 3.1 to 6, and 7 with its legacy telemetry",
    setup=Setup(
        lines=(
            'experimental_telemetry: { isEnabled: true, functionId: "shop",\n'
            "  metadata: { sessionId, userId } }  // release 7: registerTelemetry(new OpenTelemetry()) of @ai-sdk/otel"
        ),
        remark="leave recordInputs and recordOutputs at true",
        session="metadata: { sessionId, userId }",
        documents="let the tool that retrieves return objects with id and content",
    ),
    session_and_user=SessionAndUserKeys(metadata_prefixes=("ai.telemetry.metadata.", "ai.settings.context.")),
    facet_keys=FacetKeys(arguments=("ai.toolCall.args",), reranker=("ai.model.id",)),
    claims=claims,
    role=role,
    read=read,
)
