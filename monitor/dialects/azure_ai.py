"""Azure SDKs (`azure-ai-inference`, `-projects`, `-agents`): OpenTelemetry GenAI and operations of their own.

Content stands in span events whose attribute `gen_ai.event.content` is JSON text, or in GenAI attributes (projects 2).
Agents of the service run apart from the app: a message is put into a thread by one span and answered in another.
"""

from __future__ import annotations

from dataclasses import replace

from monitor.extract import genai
from monitor.extract.attributes import text
from monitor.extract.chain_io import clean_answer
from monitor.extract.convention import Convention, Setup
from monitor.extract.session_and_user import SessionAndUserKeys
from monitor.model.spans import Role, Span, Step

NAME = "azure_ai"

TABLE = genai.TABLE

SYSTEMS = ("az.ai.", "azure.ai.", "microsoft.foundry")
"""Beginnings of `gen_ai.system` and `gen_ai.provider.name`."""
PUTS = "create_message"
ROLES = {
    **genai.ROLES,
    "responses": Role.LLM,
    "process_thread_run": Role.LLM,
    "start_thread_run": Role.LLM,
    PUTS: Role.CHAIN,
    "create_thread": Role.NOISE,
    "create_conversation": Role.NOISE,
    "get_thread_run": Role.NOISE,
    "list_messages": Role.NOISE,
    "list_conversation_items": Role.NOISE,
    "list_run_steps": Role.NOISE,
    "submit_tool_outputs": Role.NOISE,
    "update_agent": Role.NOISE,
    "delete_agent": Role.NOISE,
    "update_thread": Role.NOISE,
    "delete_thread": Role.NOISE,
}


def claims(span: Span) -> bool:
    """Return whether a GenAI operation of one of these SDKs is described."""
    systems = (text(span.attributes, "gen_ai.system"), text(span.attributes, "gen_ai.provider.name"))
    return any(system is not None and system.startswith(SYSTEMS) for system in systems)


def role(span: Span) -> Role:
    """Return the role of the span's operation."""
    operation = text(span.attributes, genai.OPERATION)
    return genai.role(span) if operation is None else ROLES.get(operation, Role.CHAIN)


def read(span: Span) -> Step:
    """Translate one span."""
    span_role = role(span)
    puts = text(span.attributes, genai.OPERATION) == PUTS
    if span_role is not Role.LLM and not puts:
        return replace(genai.read(span), role=span_role, dialect=NAME)
    # The same events, whatever the operation is called.
    step = genai.read(replace(span, attributes={**span.attributes, genai.OPERATION: "chat"}))
    if not puts:
        return _with_reply(replace(step, span=span, dialect=NAME))
    question = next((m.content for m in reversed(step.messages or ()) if m.role == "user" and m.content), None)
    return replace(TABLE.step(span, span_role, NAME), query=question)


def _with_reply(step: Step) -> Step:
    """Agents of the service reply with a message in the thread, not with a choice."""
    messages = step.messages or ()
    if step.output is not None or step.tool_calls or not messages or messages[-1].role != "assistant":
        return step
    return replace(step, messages=messages[:-1], output=clean_answer(messages[-1].content))


DIALECT = Convention(
    name=NAME,
    priority=90,
    url="https://learn.microsoft.com/en-us/azure/ai-foundry/how-to/develop/trace-agents-sdk",
    versions="azure-ai-inference 1.0b9, azure-ai-agents 1, azure-ai-projects 1 to 2.10",
    setup=Setup(
        lines=(
            'settings.tracing_implementation = "opentelemetry"\n'
            "AIInferenceInstrumentor().instrument()  # azure-ai-projects: AIProjectInstrumentor()"
        ),
        content="AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED=true",
        remark="azure-ai-projects 2 needs AZURE_EXPERIMENTAL_ENABLE_GENAI_TRACING=true as well",
        session="set session.id on the span around the turn",
        documents="put them into the prompt below a heading such as Context:",
    ),
    session_and_user=SessionAndUserKeys(session_id=("gen_ai.thread.id",)),
    claims=claims,
    role=role,
    read=read,
)
