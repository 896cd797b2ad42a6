"""OpenLIT: the GenAI convention, and what its decorators, LangGraph spans and releases before 1.40 do otherwise.

Decorated functions record printed arguments and a plain text as output messages; up to 1.3x a prompt is one text of
`role: ...` lines. LangGraph's reading of its own state calls itself a retrieval.
"""

from __future__ import annotations

import re
from dataclasses import replace

from monitor.extract import genai
from monitor.extract.attributes import flattened, is_mapping, is_sequence, text
from monitor.extract.chain_io import chain_output, clean_answer
from monitor.extract.convention import Convention, Setup
from monitor.extract.documents import documents
from monitor.extract.messages import (
    ParsedMessage,
    before_last_user,
    conversation,
    messages_of,
    prompt_messages,
    role_of,
)
from monitor.extract.operations import answering_model, decoded_value, function_input, operation_input
from monitor.extract.reprs import literal
from monitor.model.spans import Attributes, AttributeValue, Role, Span, Step

NAME = "openlit"

ARGS, KWARGS = "function.args", "function.kwargs"
WORKFLOW_INPUT, WORKFLOW_OUTPUT = "gen_ai.workflow.input", "gen_ai.workflow.output"
PROMPT, COMPLETION = "gen_ai.prompt", "gen_ai.completion"
CONTENT_PROMPT, CONTENT_COMPLETION = "gen_ai.content.prompt", "gen_ai.content.completion"
_STATE = ("gen_ai.graph.message_count", "gen_ai.graph.next_nodes")
_OBJECT = re.compile(r"<[^<>'\"]{1,200} object at 0x[0-9a-f]+>")
_FIRST = re.compile(r"""\(\s*(?:<[^<>]{1,200}>,\s*)?('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")""", re.DOTALL)
_SPEAKER = re.compile(
    r"^(?=[sduhatf])(system|developer|user|human|assistant|ai|tool|function):[ \t]*", re.IGNORECASE | re.MULTILINE
)


def claims(span: Span) -> bool:
    """Return whether OpenLIT made the span."""
    return span.scope.startswith(NAME) or span.attributes.get("telemetry.sdk.name") == NAME


def role(span: Span) -> Role:
    """Return the role of the span's operation; a span without one is a decorated function."""
    attributes = span.attributes
    operation = text(attributes, genai.OPERATION)
    if operation is None and not attributes:
        # A call that failed is left without attributes; its name says what it was.
        return genai.ROLES.get(span.name.partition(" ")[0], Role.CHAIN)
    if operation is None:
        speaks = genai.claims(span) and ARGS not in attributes
        return genai.role(span) if speaks else Role.CHAIN
    if operation == "vectordb":
        return Role.DB
    span_role = genai.role(span)
    if span_role is Role.RETRIEVAL and any(key in attributes for key in _STATE):
        return Role.NOISE
    return span_role


def read(span: Span) -> Step:
    """Translate one span."""
    attributes = span.attributes
    span_role = role(span)
    step = replace(genai.read(span), dialect=NAME, role=span_role)
    if span_role in {Role.CHAIN, Role.AGENT}:
        return _function(step, attributes) if ARGS in attributes else _wrapper(step, attributes)
    if span_role is Role.LLM and not attributes:
        return replace(step, request_model=span.name.partition(" ")[2] or None)
    if span_role is Role.LLM:
        return _model_call(step, attributes)
    if span_role is Role.RETRIEVAL and step.documents is not None:
        # Its `id` is the metadata's source.
        return replace(step, documents=tuple(replace(c, source=c.source or c.id) for c in step.documents))
    return step


def _function(step: Step, attributes: Attributes) -> Step:
    args, kwargs = _printed(attributes.get(ARGS)), _printed(attributes.get(KWARGS))
    ask = function_input(args if is_sequence(args) else (), kwargs if is_mapping(kwargs) else {})
    messages = attributes.get(genai.OUTPUT)
    as_text = text(attributes, genai.OUTPUT, COMPLETION, CONTENT_COMPLETION)
    output = messages if is_sequence(messages) else decoded_value(as_text).value
    unsure = frozenset({"history"}) if ask.history else frozenset()
    document_list = documents(output) if is_sequence(output) else None
    citations = None if document_list is None else document_list.citations
    answer = chain_output(output).response if not citations else None
    return replace(step, query=ask.query, history=ask.history, response=answer, documents=citations, unsure=unsure)


def _printed(value: AttributeValue) -> AttributeValue:
    """What was printed, objects as None; of a text that was cut the first text in it."""
    if not isinstance(value, str):
        return value
    read = literal(_OBJECT.sub("None", value))
    if read is None and (first := _FIRST.match(value)) is not None:
        return literal(f"[{first[1]}]")
    return read


def _wrapper(step: Step, attributes: Attributes) -> Step:
    items = flattened(attributes, PROMPT + ".").get(PROMPT + ".", ())
    prompt = tuple(m for item in items for m in messages_of({"role": item.fields.get("role"), **item.fields}))
    if step.query is None and prompt:
        earlier, last = before_last_user(prompt)
        history = conversation(earlier) or None
        step = replace(step, query=last.content.strip() or None if last else None, history=history)
    output = decoded_value(attributes.get(WORKFLOW_OUTPUT)).value
    if step.query is None and WORKFLOW_INPUT in attributes:
        ask = operation_input(decoded_value(attributes[WORKFLOW_INPUT]).value)
        step = replace(step, query=ask.query, history=ask.history, unsure=step.unsure | {"history"})
    if step.response is None and output is not None:
        answer = chain_output(output)
        unsure = step.unsure if answer.certain else step.unsure | {"response"}
        step = replace(step, response=answer.response, documents=answer.documents, unsure=unsure)
    return replace(step, model=step.model or answering_model(output))


def _model_call(step: Step, attributes: Attributes) -> Step:
    prompt_text = text(attributes, PROMPT, CONTENT_PROMPT) or _event(step.span, CONTENT_PROMPT, PROMPT)
    prompt = transcript(prompt_text) if prompt_text is not None else ()
    completion = text(attributes, COMPLETION, CONTENT_COMPLETION)
    return replace(
        step,
        messages=prompt_messages(prompt)
        if prompt and (not step.messages or len(step.messages) == 1)
        else step.messages,
        output=step.output or (clean_answer(completion) if completion else None),
    )


def _event(span: Span, name: str, key: str) -> str | None:
    return next((text(event.attributes, key) for event in span.events if event.name == name), None)


def transcript(prompt: str) -> tuple[ParsedMessage, ...]:
    """Return the messages of a prompt that was written as `role: text` lines; any other text is one of the user.

    >>> [m.role for m in transcript("system: Be kind." + chr(10) + "user: Why?")]
    ['system', 'user']
    """
    marks = list(_SPEAKER.finditer(prompt))
    if not marks or marks[0].start() > 0:
        return messages_of(prompt)
    ends = [*(mark.start() for mark in marks[1:]), len(prompt)]
    return tuple(
        ParsedMessage(role_of(mark[1]) or "user", prompt[mark.end() : end].strip(), certain=False)
        for mark, end in zip(marks, ends, strict=True)
    )


DIALECT = Convention(
    name=NAME,
    priority=108,
    url="https://docs.openlit.io/latest/sdk/overview",
    versions="openlit 1.30 to 1.45",
    setup=Setup(
        lines=('pip install openlit\nopenlit.init(otlp_endpoint="http://rag-monitor:4318")'),
        remark="leave capture_message_content at True",
        session="set session.id on a span of your own around the turn",
        documents="instrumented frameworks emit their retrievals; vector stores only count",
    ),
    claims=claims,
    role=role,
    read=read,
)
