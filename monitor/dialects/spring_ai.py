"""Spring AI's observations: `spring.ai.kind`, and GenAI names for model calls.

Since 1.0 prompts, answers and found documents go to the application's log when switched on, never to spans; before,
they were span attributes and events. Log records that are exported too carry the observation's span, and are read:
texts in quotation marks that are not escaped, below a heading such as `Chat Client Completion:`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from monitor.extract import genai
from monitor.extract.attributes import is_sequence, text, visible_text
from monitor.extract.chain_io import chain_input, clean_answer
from monitor.extract.convention import Convention, Setup
from monitor.extract.documents import documents
from monitor.extract.json_text import unwrap
from monitor.extract.session_and_user import SessionAndUserKeys
from monitor.extract.speakers import with_speakers
from monitor.model.spans import Attributes, AttributeValue, Role, Span, Step
from monitor.model.turns import Message

NAME = "spring_ai"

TABLE = replace(
    genai.TABLE,
    retrieval_query=("db.vector.query.content",),
    streaming=("spring.ai.chat.client.stream",),
    facets=(
        *genai.TABLE.facets,
        ("top_k", "db.vector.query.top_k"),
        ("index", "db.collection.name"),
        ("search_metric", "db.search.similarity_metric"),
    ),
)

KIND = "spring.ai.kind"
ROLES = {
    "chat_client": Role.CHAIN,
    "advisor": Role.NOISE,
    "vector_store": Role.RETRIEVAL,
    "tool_call": Role.TOOL,
}
SCOPE = "org.springframework"
PROMPTS = ("gen_ai.prompt", "spring.ai.chat.client.user.text")
COMPLETION = "gen_ai.completion"
CONTENT_EVENTS = ("gen_ai.content.prompt", "gen_ai.content.completion", "db.vector.content.query.response")
FOUND = "db.vector.query.response.documents"
LOGGED = {"Prompt Content": "gen_ai.prompt", "Completion": COMPLETION, "Query Response": FOUND}
_LOG = re.compile(
    r"(?:Chat Client|Chat Model|Vector Store) (Prompt Content|Completion|Query Response):\s*\[(.*)\]\s*", re.DOTALL
)
_NEXT = re.compile(r'",\s"')
_SPEAKER = re.compile(r'(system|user|assistant|tool)":"')
_NEXT_SPEAKER = re.compile(r'",\s"(?=(?:system|user|assistant|tool)":")')
_NONE = "none"
"""What Micrometer writes where there is no value."""
_SEARCHES = {"query", "similarity_search"}


def claims(span: Span) -> bool:
    """Return whether the span is an observation of Spring AI, or a GenAI one that Spring's tracer recorded."""
    attributes = span.attributes
    return KIND in attributes or (span.scope.startswith(SCOPE) and genai.OPERATION in attributes)


def role(span: Span) -> Role:
    """Return the role of the observation's kind; writing to a vector store is no retrieval."""
    kind = text(span.attributes, KIND)
    if kind is None:
        return genai.role(span)
    observed_role = ROLES.get(kind, Role.NOISE)
    wrote = text(span.attributes, "db.operation.name") or "query"
    return Role.DB if observed_role is Role.RETRIEVAL and wrote not in _SEARCHES else observed_role


def read(span: Span) -> Step:
    """Translate one span; content in span events is read as the attributes that they carry."""
    fields: dict[str, AttributeValue] = {key: value for key, value in span.attributes.items() if value != _NONE}
    span = replace(span, attributes=dict(fields))
    for event in span.events:
        event_fields = event.attributes if event.name in CONTENT_EVENTS else _log_fields(event.body)
        fields |= {key: value for key, value in event_fields.items() if not fields.get(key)}
    span_role = role(span)
    reader = _READERS.get(span_role)
    return TABLE.step(span, span_role, NAME) if reader is None else reader(TABLE.step(span, span_role, NAME), fields)


def _log_fields(body: AttributeValue) -> Attributes:
    """What a log record of the observation says, under the name of the attribute it was before."""
    match = _LOG.fullmatch(body) if isinstance(body, str) else None
    if match is None:
        return {}
    quoted = match[2].strip()
    if _SPEAKER.match(quoted, 1):
        return {LOGGED[match[1]]: _NEXT_SPEAKER.split(quoted[1:-1])}
    return {LOGGED[match[1]]: _whole(_NEXT.split(quoted[1:-1])) if quoted else []}


def _whole(pieces: Sequence[str]) -> list[str]:
    """The texts that were split at `", "`, which stands in texts too; within a pair of marks it is no end of a text."""
    unpaired = [at for at, piece in enumerate(pieces) if piece.count('"') % 2]
    ends = dict(zip(unpaired[::2], unpaired[1::2], strict=False))
    texts: list[str] = []
    at = 0
    while at < len(pieces):
        end = ends.get(at, at) + 1
        texts.append('", "'.join(pieces[at:end]))
        at = end
    return texts


def _chain(step: Step, fields: Attributes) -> Step:
    prompts = _texts(fields, *PROMPTS)
    messages = tuple(map(_prompt_message, prompts))
    asks = [m.content for m in messages if m.role == "user"]
    return replace(
        step,
        query=asks[-1] if asks else None,
        messages=messages if messages and all(map(_SPEAKER.match, prompts)) else None,
        response=_answer(fields),
    )


def _prompt_message(prompt: str) -> Message:
    """One text of a prompt; the log of a chat client says who speaks."""
    speaker = _SPEAKER.match(prompt)
    return (
        Message(role=speaker[1], content=prompt[speaker.end() :]) if speaker else Message(role="user", content=prompt)
    )


def _model_call(step: Step, fields: Attributes) -> Step:
    """The prompt is a list of texts; who speaks is known from their order and from the log of the chat client."""
    prompts = _texts(fields, "gen_ai.prompt")
    if not prompts and not fields.get(COMPLETION):
        genai_step = genai.read(step.span)
        return replace(genai_step, dialect=NAME)
    return replace(step, messages=with_speakers(prompts), output=_answer(fields), unsure=step.unsure | {"speakers"})


def _retrieval(step: Step, fields: Attributes) -> Step:
    retrieved = fields.get(FOUND)
    if retrieved is None:
        # The event of milestone releases calls the texts found what the attribute calls the text searched for.
        event = next((e for e in step.span.events if e.name == CONTENT_EVENTS[2]), None)
        retrieved = event.attributes.get("db.vector.query.content") if event is not None else None
    read = documents(unwrap(retrieved), trusted=True)
    return replace(step, documents=None if read is None else read.citations)


def _tool(step: Step, fields: Attributes) -> Step:
    read = documents(unwrap(fields.get("spring.ai.tool.call.result")))
    return replace(
        step,
        tool=text(fields, "spring.ai.tool.definition.name", "gen_ai.tool.name"),
        retrieval_query=chain_input(unwrap(fields.get("spring.ai.tool.call.arguments"))).query,
        documents=None if read is None else read.citations,
    )


_READERS: Mapping[Role, Callable[[Step, Attributes], Step]] = {
    Role.CHAIN: _chain,
    Role.LLM: _model_call,
    Role.RETRIEVAL: _retrieval,
    Role.TOOL: _tool,
}


def _texts(fields: Attributes, *keys: str) -> Sequence[str]:
    """The texts of the first key that holds any: an array, a printed array, or one text."""
    for key in keys:
        texts = unwrap(fields.get(key))
        if is_sequence(texts):
            return [only for only in texts if isinstance(only, str) and only.strip()]
        only = visible_text(fields, key)
        if only is not None:
            return [only]
    return ()


def _answer(fields: Attributes) -> str | None:
    texts = _texts(fields, COMPLETION)
    return clean_answer(texts[0]) if texts else None


DIALECT = Convention(
    name=NAME,
    priority=55,
    url="https://docs.spring.io/spring-ai/reference/observability/index.html",
    versions="Spring AI 1.0 milestones to 2.0",
    setup=Setup(
        lines=(
            "# Spring Boot 4, with spring-boot-starter-opentelemetry:\n"
            "management.opentelemetry.tracing.export.otlp.endpoint=http://rag-monitor:4318/v1/traces\n"
            "management.opentelemetry.logging.export.otlp.endpoint=http://rag-monitor:4318/v1/logs\n"
            "# Spring Boot 3, with micrometer-tracing-bridge-otel and opentelemetry-exporter-otlp:\n"
            "management.otlp.tracing.endpoint=http://rag-monitor:4318/v1/traces\n"
            "management.otlp.logging.endpoint=http://rag-monitor:4318/v1/logs\n"
            "# both:\n"
            "management.tracing.sampling.probability=1.0"
        ),
        content="spring.ai.chat.client.observations.log-prompt=true",
        remark=(
            "log-completion, chat.observations.* and vectorstore.observations.log-query-response too; Spring AI 2.0 "
            "logs nothing without beans of its handlers, and logs leave only by OpenTelemetry's logback appender: "
            "docs/dialects.md"
        ),
        session="the chat memory's conversation id; spring.reactor.context-propagation=auto keeps streamed turns whole",
        documents=(
            "log-query-response, with spring-ai-autoconfigure-vector-store-observation among the dependencies, else "
            "what an advisor's prompt shows"
        ),
    ),
    session_and_user=SessionAndUserKeys(session_id=("spring.ai.chat.client.conversation.id",)),
    claims=claims,
    role=role,
    read=read,
)
