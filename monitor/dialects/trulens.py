"""TruLens: `ai.observability.span_type`, arguments of the recorded functions one by one as `call.kwargs.<name>`."""

from __future__ import annotations

from dataclasses import replace

from monitor.extract.attributes import is_sequence, text
from monitor.extract.component_names import role_by_name
from monitor.extract.convention import Convention, Setup, Table
from monitor.extract.documents import documents
from monitor.extract.failure import class_name
from monitor.extract.json_text import unwrap
from monitor.extract.operations import DecodedValue, decoded_value, operation_input, step_with_io
from monitor.extract.session_and_user import SessionAndUserKeys
from monitor.model.spans import Attributes, Role, Span, Step

NAME = "trulens"

BASE = "ai.observability."
KIND = BASE + "span_type"
TABLE = Table(
    model=(BASE + "cost.model",),
    input_tokens=(BASE + "cost.num_prompt_tokens",),
    output_tokens=(BASE + "cost.num_completion_tokens",),
    retrieval_query=(BASE + "retrieval.query_text", BASE + "reranking.query_text"),
    facets=(("top_k", BASE + "retrieval.num_contexts"), ("reranker", BASE + "reranking.model_name")),
)

ROLES = {
    "record_root": Role.CHAIN,
    "graph_task": Role.CHAIN,
    "graph_node": Role.CHAIN,
    "workflow_step": Role.CHAIN,
    "agent": Role.AGENT,
    "retrieval": Role.RETRIEVAL,
    "reranking": Role.RERANK,
    "generation": Role.LLM,
    "embedding": Role.EMBEDDING,
    "tool": Role.TOOL,
    "mcp": Role.TOOL,
    "eval_root": Role.EVALUATION,
    "eval": Role.EVALUATION,
}
ARGUMENTS, RETURN = BASE + "call.kwargs.", BASE + "call.return"
CONTEXTS = (BASE + "retrieval.retrieved_contexts", "gen_ai.retrieval.documents")
_INPUTS = {
    Role.CHAIN: ("record_root.input", "graph_task.input_state", "graph_node.input_state"),
    Role.TOOL: ("mcp.input_arguments",),
}
_OUTPUTS = {
    Role.CHAIN: ("record_root.output", "graph_task.output_state", "graph_node.output_state"),
    Role.TOOL: ("mcp.output_content",),
}
_ERRORS = ("record_root.error", "call.error", "graph_task.error", "graph_node.error")
_PLAIN = {"", "unknown"}


def claims(span: Span) -> bool:
    """Return whether TruLens recorded the span."""
    return KIND in span.attributes or span.scope == "trulens"


def role(span: Span) -> Role:
    """Return the role of the span's type, without one by its function; types nobody has heard of wrap others."""
    kind = str(span.attributes.get(KIND, "")).lower()
    if kind in _PLAIN and span.parent_id is not None:
        return role_by_name(span.name.rpartition(".")[2]) or Role.CHAIN
    return ROLES.get(kind, Role.CHAIN)


def read(span: Span) -> Step:
    """Translate one span."""
    attributes = span.attributes
    step = TABLE.step(span, role(span), NAME)
    failure = text(attributes, *(BASE + key for key in _ERRORS))
    if step.error is None and failure is not None:
        step = replace(step, error=class_name(failure.partition(":")[0].partition("(")[0]) or "error")
    if step.role is Role.TOOL:
        step = replace(step, tool=text(attributes, BASE + "mcp.tool_name"))
    step = step_with_io(step, _input(attributes, step.role), _output(attributes, step.role))
    if step.role in {Role.CHAIN, Role.AGENT} and step.history is None:
        step = replace(step, history=operation_input(_arguments(attributes)).history)
    if step.role in {Role.RETRIEVAL, Role.RERANK}:
        return _with_contexts(step, attributes)
    return step


def _input(attributes: Attributes, kind: Role) -> DecodedValue:
    in_attribute = text(attributes, *(BASE + key for key in _INPUTS.get(kind, ())))
    if in_attribute is not None:
        return decoded_value(in_attribute)
    return DecodedValue(_arguments(attributes) or None)


def _arguments(attributes: Attributes) -> Attributes:
    return {
        key.removeprefix(ARGUMENTS): unwrap(value) for key, value in attributes.items() if key.startswith(ARGUMENTS)
    }


def _output(attributes: Attributes, kind: Role) -> DecodedValue:
    """What came out; of a stream the root keeps the last piece only, and the function's return has them all."""
    in_attribute = text(attributes, *(BASE + key for key in _OUTPUTS.get(kind, ())))
    return_value = attributes.get(RETURN)
    pieces = [str(piece) for piece in return_value if piece] if is_sequence(return_value) else []
    if in_attribute is not None and pieces and pieces[-1] == in_attribute:
        return DecodedValue("".join(pieces))
    return decoded_value(return_value if in_attribute is None else in_attribute)


def _with_contexts(step: Step, attributes: Attributes) -> Step:
    """Contexts are plain texts; what the function returned may say more about the same."""
    for key in CONTEXTS:
        read = documents(unwrap(attributes.get(key)), trusted=True)
        if read is not None:
            contents = [citation.content for citation in step.documents or ()]
            same = bool(contents) and contents == [citation.content for citation in read.citations]
            return step if same else replace(step, documents=read.citations)
    return step


DIALECT = Convention(
    name=NAME,
    priority=42,
    url="https://www.trulens.org/otel/semantic_conventions/",
    versions="trulens 2.16",
    setup=Setup(
        lines=(
            "pip install trulens-otel-semconv\n"
            'TruSession(span_exporter=OTLPSpanExporter(endpoint="http://rag-monitor:4318/v1/traces"))'
        ),
        remark="TruLens writes trulens for the service's name and its own release: two apps look like one",
        session="set session.id on a span of your own around the turn",
        documents='@instrument(span_type=RETRIEVAL, attributes={RETRIEVED_CONTEXTS: "return"})',
        languages=("python",),
    ),
    session_and_user=SessionAndUserKeys(session_id=(BASE + "conversation_id",)),
    claims=claims,
    role=role,
    read=read,
)
