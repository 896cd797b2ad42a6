"""Langfuse SDK 3 and later: `langfuse.observation.type`, input and output as raw text or JSON.

Errors are a level and a status, without an exception event. `langfuse.trace.*` is what the app set for the whole trace.
"""

from __future__ import annotations

from dataclasses import replace

from monitor.extract.attributes import integer, mapping, text
from monitor.extract.component_names import role_by_name
from monitor.extract.convention import Convention, FacetKeys, InLanguage, Setup, Table
from monitor.extract.operations import decoded_value, step_with_io
from monitor.extract.session_and_user import SessionAndUserKeys
from monitor.model.spans import Role, Span, Step

NAME = "langfuse"

TABLE = Table(
    model=("langfuse.observation.model.name",),
    request_model=("langfuse.observation.model.name",),
    facets=(
        ("prompt_template", "langfuse.observation.prompt.name"),
        ("prompt_version", "langfuse.observation.prompt.version"),
    ),
)

KIND = "langfuse.observation.type"
ROLES = {
    "span": Role.CHAIN,
    "chain": Role.CHAIN,
    "agent": Role.AGENT,
    "generation": Role.LLM,
    "embedding": Role.EMBEDDING,
    "retriever": Role.RETRIEVAL,
    "tool": Role.TOOL,
    "event": Role.NOISE,
    "guardrail": Role.NOISE,
    "evaluator": Role.EVALUATION,
}
INPUT, OUTPUT = "langfuse.observation.input", "langfuse.observation.output"
TRACE_INPUT, TRACE_OUTPUT = "langfuse.trace.input", "langfuse.trace.output"
_USAGE = "langfuse.observation.usage_details"
_FIRST_TOKEN = "langfuse.observation.completion_start_time"  # noqa: S105 -- an attribute
_PLAIN = {"", "span"}


def claims(span: Span) -> bool:
    """Return whether the span is an observation; a session or user that Langfuse's SDK put on others is not."""
    return KIND in span.attributes or INPUT in span.attributes or span.scope == "langfuse-sdk"


def role(span: Span) -> Role:
    """Return the role of the observation's type, of a mere span by its name; unheard-of types wrap others."""
    kind = str(span.attributes.get(KIND, "")).lower()
    if kind in _PLAIN and span.parent_id is not None:
        return role_by_name(span.name) or Role.CHAIN
    return ROLES.get(kind, Role.CHAIN)


def read(span: Span) -> Step:
    """Translate one observation."""
    attributes = span.attributes
    usage = mapping(attributes, _USAGE)
    step = TABLE.step(span, role(span), NAME)
    failed = attributes.get("langfuse.observation.level") == "ERROR"
    step = replace(
        step,
        input_tokens=integer(usage, "input", "prompt_tokens", "input_tokens"),
        output_tokens=integer(usage, "output", "completion_tokens", "output_tokens"),
        streaming=True if _FIRST_TOKEN in attributes else None,
        error=step.error or ("error" if failed else None),
    )
    inputs, outputs = attributes.get(INPUT), attributes.get(OUTPUT)
    if step.role in {Role.CHAIN, Role.AGENT}:
        inputs = text(attributes, TRACE_INPUT) or inputs
        outputs = text(attributes, TRACE_OUTPUT) or outputs
    return step_with_io(step, decoded_value(inputs), decoded_value(outputs))


DIALECT = Convention(
    name=NAME,
    priority=22,
    url="https://langfuse.com/integrations/native/opentelemetry",
    versions="langfuse 3 to 5 for Python, 4 and 5 for JavaScript",
    setup=Setup(
        lines=(
            'pip install langfuse\nLangfuse(base_url="http://rag-monitor:4318", public_key="any", secret_key="any")\n'
            'new LangfuseSpanProcessor({ baseUrl: "http://rag-monitor:4318" })  // JavaScript, keys as above'
        ),
        remark="give no mask function that removes input and output",
        session="with propagate_attributes(session_id=..., user_id=...): around each turn",
        documents='decorate the function that retrieves with @observe(as_type="retriever")',
        languages=("python",),
        elsewhere={
            "nodejs": InLanguage(
                session="propagateAttributes({ sessionId, userId }, ...)",
                documents='startActiveObservation("retrieve", ..., { asType: "retriever" })',
            ),
        },
    ),
    session_and_user=SessionAndUserKeys(
        session_id=("langfuse.session.id",),
        user_id=("langfuse.user.id",),
        metadata_prefixes=("langfuse.trace.metadata.", "langfuse.observation.metadata."),
    ),
    facet_keys=FacetKeys(arguments=(INPUT,), prompt_template=("langfuse.observation.prompt.name",)),
    claims=claims,
    role=role,
    read=read,
)
