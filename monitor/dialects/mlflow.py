"""MLflow 3 tracing: `mlflow.spanType`; every attribute of MLflow's is a JSON document, texts in quotes too."""

from __future__ import annotations

from dataclasses import replace

from monitor.extract.attributes import integer, mapping, text
from monitor.extract.component_names import role_by_name
from monitor.extract.convention import Convention, FacetKeys, Setup, Table
from monitor.extract.json_text import unwrap
from monitor.extract.operations import decoded_value, step_with_io
from monitor.extract.session_and_user import SessionAndUserKeys
from monitor.model.spans import Attributes, Role, Span, Step

NAME = "mlflow"

TABLE = Table()

KIND = "mlflow.spanType"
ROLES = {
    "CHAIN": Role.CHAIN,
    "WORKFLOW": Role.CHAIN,
    "TASK": Role.CHAIN,
    "UNKNOWN": Role.CHAIN,
    "AGENT": Role.AGENT,
    "LLM": Role.LLM,
    "CHAT_MODEL": Role.LLM,
    "RETRIEVER": Role.RETRIEVAL,
    "RERANKER": Role.RERANK,
    "EMBEDDING": Role.EMBEDDING,
    "TOOL": Role.TOOL,
    "EVALUATOR": Role.EVALUATION,
    "GUARDRAIL": Role.NOISE,
    "PARSER": Role.CHAIN,
    "MEMORY": Role.NOISE,
}
INPUT, OUTPUT = "mlflow.spanInputs", "mlflow.spanOutputs"
_USAGE = "mlflow.chat.tokenUsage"
_CHUNKS = ("mlflow.chunk", "new_token")


def claims(span: Span) -> bool:
    """Return whether MLflow recorded the span."""
    return KIND in span.attributes or INPUT in span.attributes or span.scope == "mlflow.tracing.provider"


def role(span: Span) -> Role:
    """Return the role of the span's type, without one by its name; types nobody has heard of wrap others."""
    kind = _json_text(span.attributes, KIND) or "UNKNOWN"
    if kind == "UNKNOWN" and span.parent_id is not None:
        return role_by_name(span.name) or Role.CHAIN
    return ROLES.get(kind, Role.CHAIN)


def read(span: Span) -> Step:
    """Translate one span."""
    attributes = span.attributes
    step = TABLE.step(span, role(span), NAME)
    usage = mapping(attributes, _USAGE)
    facets = {"provider": model} if (model := _json_text(attributes, "mlflow.llm.provider")) else {}
    step = step_with_io(
        replace(
            step,
            input_tokens=integer(usage, "input_tokens", "prompt_tokens"),
            output_tokens=integer(usage, "output_tokens", "completion_tokens"),
            streaming=True if _streams(span) else None,
            facets=facets,
        ),
        decoded_value(attributes.get(INPUT)),
        decoded_value(attributes.get(OUTPUT)),
    )
    if step.role is not Role.LLM:
        return step
    model = _json_text(attributes, "mlflow.llm.model")
    asked_for = text(mapping(attributes, "invocation_params"), "model", "model_name")
    return replace(step, request_model=step.request_model or asked_for or model)


def _streams(span: Span) -> bool:
    """Of LlamaIndex only the method tells, such as `OpenAI.stream_chat`."""
    chunked = any(event.name.startswith(_CHUNKS) for event in span.events)
    return chunked or span.name.rpartition(".")[2].startswith(("stream", "astream"))


def _json_text(attributes: Attributes, key: str) -> str | None:
    value = unwrap(attributes.get(key))
    return value if isinstance(value, str) and value else None


DIALECT = Convention(
    name=NAME,
    priority=32,
    url="https://mlflow.org/docs/latest/genai/tracing/opentelemetry/",
    versions="mlflow 2.14 to 3",
    setup=Setup(
        lines=(
            "pip install mlflow opentelemetry-exporter-otlp-proto-http\n"
            "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf OTEL_EXPORTER_OTLP_ENDPOINT=http://rag-monitor:4318\n"
            "mlflow.langchain.autolog()  # or mlflow.openai, ..."
        ),
        session=(
            'MLflow does not export its sessions; mlflow.get_current_active_span().set_attribute("session.id", ...) '
            "around the turn"
        ),
        documents="decorate the function that retrieves with @mlflow.trace(span_type=SpanType.RETRIEVER)",
        languages=("python",),
    ),
    session_and_user=SessionAndUserKeys(session_id=("mlflow.trace.session",), user_id=("mlflow.trace.user",)),
    facet_keys=FacetKeys(arguments=(INPUT,)),
    claims=claims,
    role=role,
    read=read,
)
