"""LangSmith's OpenTelemetry export: `langsmith.span.kind`, inputs and outputs of a run as JSON.

`gen_ai.operation.name` is not to be trusted (a retriever says `embeddings`); a failed run has status OK, an exception
event and `{"output": null}`. `langsmith.trace.session_name` is the project.
"""

from __future__ import annotations

from dataclasses import replace

from monitor.extract.attributes import integer, is_mapping, mapping, text
from monitor.extract.component_names import role_by_name
from monitor.extract.convention import Convention, FacetKeys, InLanguage, Setup, Table
from monitor.extract.failure import exception
from monitor.extract.operations import DecodedValue, decoded_value, step_with_io
from monitor.extract.session_and_user import SessionAndUserKeys
from monitor.model.spans import Role, Span, Step

NAME = "langsmith"

TABLE = Table(
    model=("gen_ai.response.model",),
    request_model=("gen_ai.request.model", "langsmith.metadata.ls_model_name"),
    input_tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    output_tokens=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    response_id=("gen_ai.response.id",),
    streaming=("langsmith.request.streaming",),
    facets=(("provider", "langsmith.metadata.ls_provider"),),
)

KIND = "langsmith.span.kind"
ROLES = {
    "chain": Role.CHAIN,
    "llm": Role.LLM,
    "retriever": Role.RETRIEVAL,
    "embedding": Role.EMBEDDING,
    "tool": Role.TOOL,
    "prompt": Role.NOISE,
    "parser": Role.NOISE,
}
INPUT, OUTPUT = "gen_ai.prompt", "gen_ai.completion"
TOOL_NAMES = ("gen_ai.tool.name", "ai.toolCall.name")
"""LangSmith's exporter adds its attributes to the spans of the Vercel AI SDK, which are named for the operation."""
_OUTPUT = {"output"}


def claims(span: Span) -> bool:
    """Return whether the span names its kind of run, or comes from LangSmith's exporter."""
    return KIND in span.attributes or span.scope == "langsmith"


def role(span: Span) -> Role:
    """Return the role of the run's kind, of a mere function by its name; unheard-of kinds wrap others."""
    kind = str(span.attributes.get(KIND, "")).lower()
    if kind == "chain" and span.parent_id is not None:
        return role_by_name(span.name) or Role.CHAIN
    return ROLES.get(kind, Role.CHAIN)


def read(span: Span) -> Step:
    """Translate one run; an exception that left no output ended it."""
    attributes = span.attributes
    step = TABLE.step(span, role(span), NAME)
    usage = mapping(attributes, "langsmith.metadata.usage_metadata")
    outputs = decoded_value(attributes.get(OUTPUT))
    if is_mapping(outputs.value) and outputs.value.keys() == _OUTPUT:
        outputs = DecodedValue(outputs.value["output"], outputs.cut)
    step = replace(
        step,
        error=step.error or (exception(span) if outputs.value in (None, "", {}) else None),
        input_tokens=step.input_tokens if step.input_tokens is not None else integer(usage, "input_tokens"),
        output_tokens=step.output_tokens if step.output_tokens is not None else integer(usage, "output_tokens"),
    )
    if step.role is Role.TOOL:
        step = replace(step, tool=text(attributes, *TOOL_NAMES))
    return step_with_io(step, decoded_value(attributes.get(INPUT)), outputs)


DIALECT = Convention(
    name=NAME,
    priority=52,
    url="https://docs.langchain.com/langsmith/trace-with-opentelemetry",
    versions="langsmith 0.4 to 0.15 for Python, 0.12 for JavaScript",
    setup=Setup(
        lines=(
            "LANGSMITH_TRACING=true LANGSMITH_OTEL_ENABLED=true LANGSMITH_OTEL_ONLY=true\n"
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://rag-monitor:4318\n"
            "initializeOTEL({ globalTracerProvider: provider })  "
            "// JavaScript; a provider that names the service, with LangSmithOTLPSpanProcessor"
        ),
        remark="leave LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS unset",
        session='metadata={"session_id": ..., "user_id": ...} in the run\'s config',
        documents='decorate the function that retrieves with @traceable(run_type="retriever")',
        languages=("python",),
        elsewhere={
            "nodejs": InLanguage(
                session="metadata: { session_id, user_id } in the run's config",
                documents='traceable(..., { run_type: "retriever" }) around the function that retrieves',
            ),
        },
    ),
    session_and_user=SessionAndUserKeys(metadata_prefixes=("langsmith.metadata.",)),
    facet_keys=FacetKeys(component=("ls_retriever_name",), index_embedding=("ls_embedding_provider",)),
    claims=claims,
    role=role,
    read=read,
)
