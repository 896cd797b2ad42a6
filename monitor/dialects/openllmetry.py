"""OpenLLMetry (Traceloop): `traceloop.span.kind`, entity input and output as JSON, flattened or GenAI messages.

LangChain wraps values as `{"inputs": ...}` and `{"outputs": ...}`, the SDK's decorators record arguments, LlamaIndex
names components `VectorIndexRetriever.task`. With `use_legacy_attributes=False` messages are log records of the span
around the model call. Model calls in the GenAI convention alone are read by `genai`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from monitor.extract import genai, session_and_user
from monitor.extract.attributes import ListItem, flattened, is_mapping, text
from monitor.extract.chain_io import first_answer
from monitor.extract.component_names import role_by_name
from monitor.extract.convention import Convention, FacetKeys, Setup, Table
from monitor.extract.json_text import unwrap
from monitor.extract.messages import ParsedMessage, messages_of, prompt_messages
from monitor.extract.operations import DecodedValue, decoded_value, step_with_io
from monitor.extract.session_and_user import SessionAndUserKeys
from monitor.model.spans import Attributes, AttributeValue, Role, Span, Step

NAME = "openllmetry"

TABLE = Table(
    model=("gen_ai.response.model", "llm.response.model"),
    request_model=("gen_ai.request.model", "llm.request.model"),
    input_tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens"),
    output_tokens=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens"),
    response_id=("gen_ai.response.id",),
    streaming=("llm.is_streaming", "gen_ai.is_streaming"),
    facets=(
        ("provider", "gen_ai.provider.name"),
        ("provider", "gen_ai.system"),
        ("agent", "gen_ai.agent.name"),
        ("workflow", "traceloop.workflow.name"),
        ("prompt_template", "traceloop.prompt.key"),
        ("prompt_version", "traceloop.prompt.version"),
    ),
)

KIND, REQUEST = "traceloop.span.kind", "llm.request.type"
KINDS = {"workflow": Role.CHAIN, "task": Role.CHAIN, "agent": Role.AGENT, "tool": Role.TOOL}
REQUESTS = {"chat": Role.LLM, "completion": Role.LLM, "embedding": Role.EMBEDDING, "rerank": Role.RERANK}
OPERATIONS = {
    "vector_db_retrieve": Role.RETRIEVAL,
    "retrieval": Role.RETRIEVAL,
    "embeddings": Role.EMBEDDING,
    "rerank": Role.RERANK,
    "execute_tool": Role.TOOL,
    "chat": Role.LLM,
    "text_completion": Role.LLM,
    "generate_content": Role.LLM,
}
INPUTS = ("traceloop.entity.input", "gen_ai.task.input", "gen_ai.tool.call.arguments")
OUTPUTS = ("traceloop.entity.output", "gen_ai.task.output", "gen_ai.tool.call.result")
PROMPT, COMPLETION = "gen_ai.prompt.", "gen_ai.completion."
_HELPERS = re.compile(r"(?:Splitter|NodeParser|PromptTemplate|PromptHelper|Postprocessor)$")
_BUNDLE = re.compile(r'\{"(?:str_or_query_bundle|query_bundle)"|\{"\w+": \{"query_str"')
_FLAT = (PROMPT, COMPLETION)
_WRAPPED = ("inputs", "outputs")
_NOTHING: tuple[AttributeValue, ...] = (None, "", {}, {"input": ""})
_CHUNK = ".content.completion.chunk"


def claims(span: Span) -> bool:
    """Return whether the span names its Traceloop kind or kind of request, or holds flattened messages."""
    attributes = span.attributes
    if KIND in attributes or REQUEST in attributes:
        return True
    return any(key.startswith(_FLAT) and key.split(".", 3)[2].isdecimal() for key in attributes)


def role(span: Span) -> Role:
    """Return what the span does: its request or operation tells, then the component's name, then its kind."""
    attributes = span.attributes
    if any(event.name in genai.MESSAGE_EVENTS or event.name == genai.CHOICE for event in span.events):
        return Role.LLM
    known = REQUESTS.get(str(attributes.get(REQUEST, ""))) or OPERATIONS.get(str(attributes.get(genai.OPERATION, "")))
    if known is not None:
        return known
    kind = str(attributes.get(KIND, "")).lower()
    if kind == "task":
        name = _entity_name(span)
        found = role_by_name(name) or (Role.NOISE if _HELPERS.search(name) else None)
        return found or (Role.RETRIEVAL if _is_retriever(attributes) else Role.CHAIN)
    return KINDS.get(kind, Role.CHAIN if kind else Role.LLM)


def read(span: Span) -> Step:
    """Translate one span."""
    attributes = span.attributes
    step = TABLE.step(span, role(span), NAME)
    if step.role is Role.LLM:
        return _model_call(step, attributes)
    failed = attributes.get("gen_ai.task.status") == "failure"
    step = replace(step, error=step.error or ("error" if failed else None))
    if step.role is Role.TOOL:
        step = replace(step, tool=_entity_name(span) or None)
    given, made = decoded_value(text(attributes, *INPUTS)), decoded_value(text(attributes, *OUTPUTS))
    step = replace(
        step,
        session_id=step.session_id or session_and_user.session_in_input(given.value),
        user_id=step.user_id or session_and_user.user_in_input(given.value),
    )
    return step_with_io(step, _late(_unwrapped(given), made), _unwrapped(made))


def _is_retriever(attributes: Attributes) -> bool:
    """LlamaIndex's retrievers of any name are given a query bundle and return a list."""
    given, made = text(attributes, *INPUTS), text(attributes, *OUTPUTS)
    return given is not None and made is not None and made.startswith("[") and bool(_BUNDLE.match(given))


def _entity_name(span: Span) -> str:
    return (text(span.attributes, "traceloop.entity.name") or span.name).removesuffix(".task")


def _unwrapped(value: DecodedValue) -> DecodedValue:
    held = value.value
    if not is_mapping(held):
        return value
    key = next((key for key in _WRAPPED if held.get(key) is not None), None)
    return value if key is None else DecodedValue(held[key], value.cut)


def _late(given: DecodedValue, made: DecodedValue) -> DecodedValue:
    """A chain that streams is begun without its input, which then stands beside its output."""
    if given.value not in _NOTHING:
        return given
    kwargs = made.value.get("kwargs") if is_mapping(made.value) else None
    return DecodedValue(kwargs["inputs"]) if is_mapping(kwargs) and "inputs" in kwargs else given


def _model_call(step: Step, attributes: Attributes) -> Step:
    lists = flattened(attributes, PROMPT, COMPLETION)
    given = tuple(message for item in lists.get(PROMPT, ()) for message in _messages(item, "user"))
    made = tuple(message for item in lists.get(COMPLETION, ()) for message in _messages(item, "assistant"))
    if not given and not made:
        spoken = genai.read(replace(step.span, attributes={**attributes, genai.OPERATION: "chat"}))
        step = replace(step, messages=spoken.messages, output=spoken.output, tool_calls=spoken.tool_calls)
        streams = step.streaming or spoken.streaming
    else:
        output = first_answer(made)
        step = replace(step, messages=prompt_messages(given), output=output, tool_calls=sum(m.tool_calls for m in made))
        streams = step.streaming
    if any(event.name.endswith(_CHUNK) for event in step.span.events):
        streams = True
    return replace(step, streaming=streams)


def _messages(item: ListItem, default: str) -> tuple[ParsedMessage, ...]:
    fields = item.fields
    body: AttributeValue = fields.get("content")
    if isinstance(body, str) and body.startswith("[{"):
        body = unwrap(body)  # parts of a message with several media
    calls = {key.split(".")[1] for key in fields if key.startswith("tool_calls.")}
    called = len(calls) + ("function_call.name" in fields)
    read = messages_of({"role": text(fields, "role") or default, "content": body})
    return tuple(replace(message, tool_calls=max(message.tool_calls, called)) for message in read)


DIALECT = Convention(
    name=NAME,
    priority=112,
    url="https://github.com/traceloop/openllmetry/tree/main/packages/opentelemetry-semantic-conventions-ai",
    versions="0.26 to 0.62, traceloop-sdk and single instrumentors; JavaScript 0.27",
    setup=Setup(
        lines=(
            'pip install traceloop-sdk\nTraceloop.init(app_name="shop", api_endpoint="http://rag-monitor:4318")\n'
            'traceloop.initialize({ appName: "shop", baseUrl: "http://rag-monitor:4318" })  // JavaScript'
        ),
        remark="leave TRACELOOP_TRACE_CONTENT unset",
        session='Traceloop.set_association_properties({"session_id": ..., "user_id": ...})',
        documents="decorate the function that retrieves with @task and return the documents",
    ),
    session_and_user=SessionAndUserKeys(metadata_prefixes=("traceloop.association.properties.",)),
    facet_keys=FacetKeys(arguments=("traceloop.entity.input",)),
    claims=claims,
    role=role,
    read=read,
)
