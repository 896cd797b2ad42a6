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
from monitor.extract.convention import Convention, FacetKeys, InLanguage, Setup, Table
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
    return _holds_messages(attributes)


def role(span: Span) -> Role:
    """Return what the span does: its request or operation tells, then the component's name, then its kind."""
    attributes = span.attributes
    if _holds_messages(attributes) or any(
        event.name in genai.MESSAGE_EVENTS or event.name == genai.CHOICE for event in span.events
    ):
        return Role.LLM
    known = REQUESTS.get(str(attributes.get(REQUEST, ""))) or OPERATIONS.get(str(attributes.get(genai.OPERATION, "")))
    if known is not None:
        return known
    kind = str(attributes.get(KIND, "")).lower()
    if kind == "task":
        name = _entity_name(span)
        named_role = role_by_name(name) or (Role.NOISE if _HELPERS.search(name) else None)
        return named_role or (Role.RETRIEVAL if _is_retriever(attributes) else Role.CHAIN)
    speaks = genai.INPUT in attributes or genai.OUTPUT in attributes
    return KINDS.get(kind, Role.CHAIN if kind and not speaks else Role.LLM)


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
    inputs, outputs = decoded_value(text(attributes, *INPUTS)), decoded_value(text(attributes, *OUTPUTS))
    step = replace(
        step,
        session_id=step.session_id or session_and_user.session_in_input(inputs.value),
        user_id=step.user_id or session_and_user.user_in_input(inputs.value),
    )
    return step_with_io(step, _late(_unwrapped(inputs), outputs), _unwrapped(outputs))


def _holds_messages(attributes: Attributes) -> bool:
    """Whether messages are flattened on the span; then it is a model call, whatever its kind says."""
    return any(key.startswith(_FLAT) and key.split(".", 3)[2].isdecimal() for key in attributes)


def _is_retriever(attributes: Attributes) -> bool:
    """LlamaIndex's retrievers of any name are given a query bundle and return a list."""
    inputs, outputs = text(attributes, *INPUTS), text(attributes, *OUTPUTS)
    return inputs is not None and outputs is not None and outputs.startswith("[") and bool(_BUNDLE.match(inputs))


def _entity_name(span: Span) -> str:
    return (text(span.attributes, "traceloop.entity.name") or span.name).removesuffix(".task")


def _unwrapped(value: DecodedValue) -> DecodedValue:
    inner = value.value
    if not is_mapping(inner):
        return value
    key = next((key for key in _WRAPPED if inner.get(key) is not None), None)
    return value if key is None else DecodedValue(inner[key], value.cut)


def _late(inputs: DecodedValue, outputs: DecodedValue) -> DecodedValue:
    """A chain that streams is begun without its input, which then stands beside its output."""
    if inputs.value not in _NOTHING:
        return inputs
    kwargs = outputs.value.get("kwargs") if is_mapping(outputs.value) else None
    return DecodedValue(kwargs["inputs"]) if is_mapping(kwargs) and "inputs" in kwargs else inputs


def _model_call(step: Step, attributes: Attributes) -> Step:
    lists = flattened(attributes, PROMPT, COMPLETION)
    prompt = tuple(message for item in lists.get(PROMPT, ()) for message in _messages(item, "user"))
    replies = tuple(message for item in lists.get(COMPLETION, ()) for message in _messages(item, "assistant"))
    if not prompt and not replies:
        genai_step = genai.read(replace(step.span, attributes={**attributes, genai.OPERATION: "chat"}))
        step = replace(step, messages=genai_step.messages, output=genai_step.output, tool_calls=genai_step.tool_calls)
        streams = step.streaming or genai_step.streaming
    else:
        output = first_answer(replies)
        step = replace(
            step, messages=prompt_messages(prompt), output=output, tool_calls=sum(m.tool_calls for m in replies)
        )
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
    call_count = len(calls) + ("function_call.name" in fields)
    read = messages_of({"role": text(fields, "role") or default, "content": body})
    return tuple(replace(message, tool_calls=max(message.tool_calls, call_count)) for message in read)


DIALECT = Convention(
    name=NAME,
    priority=112,
    url="https://github.com/traceloop/openllmetry/tree/main/packages/opentelemetry-semantic-conventions-ai",
    versions="0.26 to 0.62, traceloop-sdk and single instrumentors; JavaScript 0.27",
    setup=Setup(
        lines=(
            "pip install traceloop-sdk httpx  # which it imports and openai 3 no longer brings\n"
            'Traceloop.init(app_name="shop", api_endpoint="http://rag-monitor:4318")\n'
            'traceloop.initialize({ appName: "shop", baseUrl: "http://rag-monitor:4318" })'
            "  // JavaScript, before what it instruments is required"
        ),
        remark="leave TRACELOOP_TRACE_CONTENT unset",
        session='Traceloop.set_association_properties({"session_id": ..., "user_id": ...})',
        documents="decorate the function that retrieves with @task and return the documents",
        languages=("python",),
        elsewhere={
            "nodejs": InLanguage(
                session="traceloop.withAssociationProperties({ session_id, user_id }, ...)",
                documents="call what retrieves inside traceloop.withTask({ name }, ...) and return the documents",
            ),
        },
    ),
    session_and_user=SessionAndUserKeys(metadata_prefixes=("traceloop.association.properties.",)),
    facet_keys=FacetKeys(arguments=("traceloop.entity.input",)),
    claims=claims,
    role=role,
    read=read,
)
