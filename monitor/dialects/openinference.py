"""OpenInference: `openinference.span.kind` on every span, `input.value`, flattened messages and documents.

Some emitters put everything on the root (LangChain, LlamaIndex, Haystack, DSPy), some only on model calls (OpenAI).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar, cast

from monitor.extract.attributes import (
    REDACTED,
    ListItem,
    flattened,
    is_mapping,
    is_sequence,
    mapping,
    text,
    visible_text,
)
from monitor.extract.chain_io import ChainInput, ChainOutput, chain_input, chain_output, first_answer
from monitor.extract.convention import Convention, FacetKeys, InLanguage, PromptWording, Setup, Table
from monitor.extract.documents import Documents, documents, ranked, tool_documents
from monitor.extract.json_text import innermost, unwrap
from monitor.extract.messages import ParsedMessage, messages_of, prompt_messages
from monitor.extract.operations import model_input, step_with_documents, tool_result
from monitor.extract.reprs import literal
from monitor.model.spans import Attributes, AttributeValue, Role, Span, Step
from monitor.model.turns import Citation

NAME = "openinference"

T = TypeVar("T")

TABLE = Table(
    input_tokens=("llm.token_count.prompt",),
    output_tokens=("llm.token_count.completion",),
    facets=(
        ("provider", "llm.provider"),
        ("prompt_version", "llm.prompt_template.version"),
        ("agent", "agent.name"),
    ),
)

KIND = "openinference.span.kind"
ROLES = {
    "CHAIN": Role.CHAIN,
    "AGENT": Role.AGENT,
    "LLM": Role.LLM,
    "RETRIEVER": Role.RETRIEVAL,
    "RERANKER": Role.RERANK,
    "EMBEDDING": Role.EMBEDDING,
    "TOOL": Role.TOOL,
    "EVALUATOR": Role.EVALUATION,
    "GUARDRAIL": Role.NOISE,
    "PROMPT": Role.NOISE,
}
INPUT, OUTPUT = "input.value", "output.value"
_POSTPROCESSING = "postprocess_nodes"
"""How the method is named in which LlamaIndex drops documents."""
INPUT_MESSAGES, OUTPUT_MESSAGES = "llm.input_messages.", "llm.output_messages."
RETRIEVED, RERANKED = "retrieval.documents.", "reranker.output_documents."
RERANKING = "reranker.input_documents."
_CONVERSATION = ("messages", "prompt")
_REMEMBERED = 50_000
"""Characters of the longest value that is remembered."""
_SPOKEN = "First Token Stream Event"
_STREAMED = re.compile(r"stream", re.IGNORECASE)
"""Spans are named after the method called: `bedrock.converse_stream`, `MessagesStream`, `OpenAI.astream_chat`."""
_MODEL = re.compile(r'"model(?:_name)?"\s*:\s*"([^"\\]{1,200})"')
_RESPONSE_ID = re.compile(r'"(?:id|response_id)"\s*:\s*"((?:chatcmpl-|cmpl-|resp_|msg_|gen-)[\w-]+)"')
_JSON = ("{", "[", '"{', '"[', '"\\"')
"""How JSON begins, and JSON text as JSON text; in one pair of quotation marks a person may have put a question."""
_QUESTIONS = ("question", "query", "query_str", "user_input", "user_query", "input")
_CREWAI_TASK = re.compile(
    r"\A\s*+Current Task:\s*+(.{1,20000}?)\n{1,2}This is the expect(?:ed)? criteria for", re.DOTALL
)
# Possessive, and its blanks are left to the reader: looking for the end behind each of them was quadratic.
_DSPY_QUESTION = re.compile(r"\[\[ ## (?:question|query|user_query|input) ## \]\]((?:[^\n]|\n(?!\[\[ ## ))*+)")


def claims(span: Span) -> bool:
    """Return whether the span names its OpenInference kind, or comes from an OpenInference instrumentor."""
    return KIND in span.attributes or span.scope.startswith("openinference.")


def role(span: Span) -> Role:
    """Return the role of the span's kind; kinds nobody has heard of wrap others."""
    return ROLES.get(str(span.attributes.get(KIND, "")).upper(), Role.CHAIN)


def read(span: Span) -> Step:
    """Translate one span; what the privacy switches replaced counts as absent and is flagged `redacted`."""
    step = TABLE.step(span, role(span), NAME)
    if REDACTED in (span.attributes.get(INPUT), span.attributes.get(OUTPUT)):
        step = replace(step, flags=step.flags | {"redacted"})
    reader = _READERS.get(step.role)
    return step if reader is None else reader(step, span.attributes)


def _chain(step: Step, attributes: Attributes) -> Step:
    if step.span.name.endswith(_POSTPROCESSING):
        return step_with_documents(step, documents(_value(attributes, OUTPUT, "output.mime_type")[0], trusted=True))
    ask, given_cut = _cached(_input_of, attributes, INPUT, "input.mime_type")
    if INPUT not in attributes:
        ask = chain_input(_crew(attributes))
    (answer, model), made_cut = _cached(_output_of, attributes, OUTPUT, "output.mime_type")
    unsure = {"query"} if not ask.query_certain else set()
    if not ask.history_certain or given_cut is not None:
        unsure.add("history")
    if not answer.certain or made_cut is not None or answer.response == ask.last_answer:
        unsure.add("response")
    flags = set(step.flags)
    if given_cut is not None or made_cut is not None:
        flags.add("truncated")
    if given_cut and ask.query is not None and ask.query == given_cut.strip():
        flags.add("input_truncated")
    return replace(
        step,
        query=ask.query,
        history=ask.history,
        documents=answer.documents or (ask.documents if answer.documents is None else answer.documents),
        model=model,
        response=answer.response,
        shapeless=answer.shapeless,
        unsure=frozenset(unsure),
        flags=frozenset(flags),
    )


def _crew(attributes: Attributes) -> AttributeValue:
    """What CrewAI's kickoff was given: inputs, else the first task, in which the question stands somewhere."""
    inputs, tasks = mapping(attributes, "crew_inputs"), unwrap(attributes.get("crew_tasks"))
    first = tasks[0] if is_sequence(tasks) and tasks else None
    return inputs or ({"text": text(first, "description")} if is_mapping(first) else None)


def _model_call(step: Step, attributes: Attributes) -> Step:
    lists = flattened(attributes, INPUT_MESSAGES, OUTPUT_MESSAGES)
    prompt = tuple(map(_message, lists.get(INPUT_MESSAGES, ()))) or _prompts(attributes)
    replies = tuple(map(_message, lists.get(OUTPUT_MESSAGES, ())))
    output = first_answer(replies)
    if output is None and not any(m.tool_calls for m in replies):
        output = chain_output(_value(attributes, OUTPUT, "output.mime_type")[0]).response
    if not prompt:
        prompt = messages_of(_value(attributes, INPUT, "input.mime_type")[0])
    settings = mapping(attributes, "llm.invocation_parameters")
    if not prompt and not settings.keys().isdisjoint(_CONVERSATION):  # early ones of Bedrock take the whole request
        prompt = model_input(settings)
    model = text(attributes, "llm.model_name")
    answering = output is not None or any(m.tool_calls for m in replies)
    hidden = "redacted" in step.flags and step.error is None
    streams = (
        settings.get("stream") is True
        or _STREAMED.search(step.span.name) is not None
        or any(event.name == _SPOKEN for event in step.span.events)
    )
    describes_call = any(key.startswith("llm.") for key in attributes)
    unnamed = not prompt and model is None and step.error is None and not (describes_call and "redacted" in step.flags)
    piece = INPUT not in attributes and not describes_call
    if unnamed and (not answering or (piece and not step.span.dropped_attributes)):
        # LlamaIndex gives kind LLM to helpers that call no model, Mastra to every piece of a streamed answer.
        return replace(step, role=Role.NOISE)
    return replace(
        step,
        query=text(mapping(attributes, "llm.prompt_template.variables"), *_QUESTIONS),
        messages=prompt_messages(prompt),
        output=output,
        tool_calls=sum(m.tool_calls for m in replies),
        model=text(attributes, "gen_ai.response.model")
        or ((_in_output(attributes, _MODEL) or model) if answering or hidden else None),
        request_model=text(settings, "model", "model_name") or model,
        response_id=_in_output(attributes, _RESPONSE_ID),
        streaming=True if streams else step.streaming,
    )


def _retrieval(step: Step, attributes: Attributes) -> Step:
    query = chain_input(_value(attributes, INPUT, "input.mime_type")[0]).query
    flat = _documents(attributes, RETRIEVED)
    if flat is None or any(citation.id is None for citation in flat.citations):
        flat = _completed(flat, _value(attributes, OUTPUT, "output.mime_type")[0])
    if flat is None and OUTPUT not in attributes and not step.span.dropped_attributes and step.error is None:
        flat = Documents(())  # OpenInference has no key for "found nothing"
    return step_with_documents(replace(step, retrieval_query=query), flat)


def _rerank(step: Step, attributes: Attributes) -> Step:
    kept = _documents(attributes, RERANKED) or documents(
        _value(attributes, OUTPUT, "output.mime_type")[0], trusted=True
    )
    if kept is None and _kept_none(step, attributes):
        kept = Documents(())
    return step_with_documents(replace(step, retrieval_query=visible_text(attributes, "reranker.query")), kept)


def _kept_none(step: Step, attributes: Attributes) -> bool:
    """Whether a reranker or filter was given documents, ended well and lists none; an empty list has no key."""
    if step.error is not None or step.span.dropped_attributes or "redacted" in step.flags:
        return False
    return any(key.startswith(RERANKING) for key in attributes)


def _tool(step: Step, attributes: Attributes) -> Step:
    result = _value(attributes, OUTPUT, "output.mime_type")[0]
    query = chain_input(_value(attributes, INPUT, "input.mime_type")[0]).query
    name = text(attributes, "tool.name") or step.span.name
    return step_with_documents(
        replace(step, retrieval_query=query, tool=name), tool_documents(name, tool_result(result))
    )


def _embedding(step: Step, attributes: Attributes) -> Step:
    """A single text that was embedded is what somebody searched for; several are a corpus."""
    texts = flattened(attributes, "embedding.embeddings.").get("embedding.embeddings.", ())
    only = visible_text(texts[0].fields, "embedding.text") if len(texts) == 1 else None
    return replace(step, retrieval_query=only, model=text(attributes, "embedding.model_name"))


_READERS = {
    Role.CHAIN: _chain,
    Role.AGENT: _chain,
    Role.LLM: _model_call,
    Role.RETRIEVAL: _retrieval,
    Role.RERANK: _rerank,
    Role.TOOL: _tool,
    Role.EMBEDDING: _embedding,
}


def _input_of(attributes: Attributes, key: str, mime_key: str) -> tuple[ChainInput, str | None]:
    value, cut = _value(attributes, key, mime_key)
    return chain_input(value), cut


def _output_of(attributes: Attributes, key: str, mime_key: str) -> tuple[tuple[ChainOutput, str | None], str | None]:
    value, cut = _value(attributes, key, mime_key)
    return (chain_output(value), _in_raw(value)), cut


def _cached(
    look: Callable[[Attributes, str, str], tuple[T, str | None]], attributes: Attributes, key: str, mime_key: str
) -> tuple[T, str | None]:
    """Return what `look` finds in a value and its type; found but once in texts that a dozen chains repeat."""
    value, mime = attributes.get(key), attributes.get(mime_key)
    if not isinstance(value, str) or not isinstance(mime, str | None) or len(value) > _REMEMBERED:
        return look(attributes, key, mime_key)
    return cast("tuple[T, str | None]", _remembered(look, value, mime))


@lru_cache(maxsize=64)
def _remembered(look: Callable[[Attributes, str, str], object], value: str, mime: str | None) -> object:
    return look({"value": value, "mime": mime} if mime is not None else {"value": value}, "value", "mime")


def _value(attributes: Attributes, key: str, mime_key: str) -> tuple[AttributeValue, str | None]:
    """The value of `input.value` or `output.value`, and the text that it was cut in (None: it was not cut)."""
    value = attributes.get(key)
    if not isinstance(value, str):
        return value, None
    if value == REDACTED:
        return None, None
    mime = attributes.get(mime_key)
    if mime == "text/plain" or (mime != "application/json" and not value.lstrip().startswith(_JSON)):
        return value, None
    parsed = innermost(value)
    if parsed is not None:
        return parsed.value, parsed.cut
    printed = literal(value)  # apps that wrote str(a_dict)
    return (value if printed is None else printed), None


def _message(item: ListItem) -> ParsedMessage:
    fields = item.fields
    contents: list[AttributeValue] = []
    calls: set[str] = set()
    for key in fields:
        if key.startswith("message.tool_calls."):
            calls.add(key.split(".", 3)[2])
    for part in flattened(fields, "message.contents.").get("message.contents.", ()):
        kind = text(part.fields, "message_content.type") or "text"
        contents.append({"type": kind, "text": visible_text(part.fields, "message_content.text")})
    # The first instrumentor of Groq left `message.` out.
    body: AttributeValue = visible_text(fields, "message.content", "content") or contents
    role = text(fields, "message.role", "role") or "user"
    if role.lower().startswith("tool"):
        role = "tool"  # smolagents says tool-call and tool-response
    (message,) = messages_of({"role": role, "content": body})
    return replace(message, tool_calls=len(calls))


def _prompts(attributes: Attributes) -> tuple[ParsedMessage, ...]:
    """`llm.prompts`: an array, or flattened as `llm.prompts.N.prompt.text`."""
    prompts = attributes.get("llm.prompts")
    if isinstance(prompts, list | tuple):
        return tuple(
            ParsedMessage("user", prompt) for prompt in prompts if isinstance(prompt, str) and prompt != REDACTED
        )
    items = flattened(attributes, "llm.prompts.").get("llm.prompts.", ())
    return tuple(
        ParsedMessage("user", prompt) for item in items if (prompt := visible_text(item.fields, "prompt.text"))
    )


def _documents(attributes: Attributes, prefix: str) -> Documents | None:
    items = flattened(attributes, prefix).get(prefix, ())
    rows: list[AttributeValue] = [
        {key.removeprefix("document."): value for key, value in item.fields.items()} for item in items
    ]
    if not rows:
        return None
    read = documents(rows, trusted=True)
    if read is None:
        return None
    # The convention defines document.score as "score representing relevance".
    return replace(
        read,
        citations=tuple(
            replace(c, score_kind="similarity") if c.score is not None and c.score_kind == "unknown" else c
            for c in read.citations
        ),
    )


def _completed(flat: Documents | None, value: AttributeValue) -> Documents | None:
    """LangChain flattens content and metadata only; the ids stand in its `output.value`."""
    in_output = documents(value, trusted=True)
    if in_output is None and isinstance(value, str) and value.strip():
        in_output = Documents((Citation(content=value, rank=1),))
    if flat is None or in_output is None:
        return flat or in_output
    by_content = {citation.content: citation for citation in in_output.citations if citation.content}
    merged = [
        replace(c, id=c.id or other.id, score=other.score if c.score is None else c.score)
        if c.content and (other := by_content.get(c.content))
        else c
        for c in flat.citations
    ]
    return replace(flat, citations=ranked(merged))


def _in_raw(output: AttributeValue) -> str | None:
    """LlamaIndex's agents keep the provider's reply beside their own."""
    raw = output.get("raw") if is_mapping(output) else None
    return text(raw, "model") if is_mapping(raw) else None


def _in_output(attributes: Attributes, pattern: re.Pattern[str]) -> str | None:
    """A plain value in a reply: `llm.model_name` may be the requested model where the reply names its own."""
    output = attributes.get(OUTPUT)
    match = pattern.search(output) if isinstance(output, str) and output.startswith("{") else None
    return match[1] if match else None


DIALECT = Convention(
    name=NAME,
    priority=10,
    url="https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md",
    versions="openinference-semantic-conventions 0.1; instrumentors of 2024 to 2026 for Python and JavaScript",
    setup=Setup(
        lines=(
            "pip install openinference-instrumentation-langchain"
            "  # -llama-index, -haystack, -dspy, -crewai, -openai-agents, -agno, ...\n"
            "  # clients: -openai, -anthropic, -bedrock, -litellm, -google-genai, -mistralai, -groq, -portkey\n"
            "LangChainInstrumentor().instrument(tracer_provider=provider)\n"
            "new LangChainInstrumentation().manuallyInstrument(callbackManagerModule)  // JavaScript; -openai, -vercel"
        ),
        remark="leave OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS unset",
        session="with using_attributes(session_id=..., user_id=...): around each turn",
        documents="plain clients: a RETRIEVER span with retrieval.documents.N.document.content",
        languages=("python",),
        elsewhere={
            "nodejs": InLanguage(
                session="context.with(setSession(context.active(), { sessionId }), ...) of @arizeai/openinference-core",
            ),
            "java": InLanguage(
                session='Span.current().setAttribute("session.id", sessionId) in the span around each turn'
            ),
        },
    ),
    facet_keys=FacetKeys(
        arguments=(INPUT,),
        component=("metadata", "tool.name"),
        reranker=("reranker.model_name",),
        prompt_template=("llm.prompt_template.template", "prompt.template"),
    ),
    prompt_wording=PromptWording(
        tasks=(_CREWAI_TASK,),
        question_fields=(_DSPY_QUESTION,),
        field_marks=("[[ ## ",),
        instructions=("Respond with ",),
    ),
    claims=claims,
    role=role,
    read=read,
)
