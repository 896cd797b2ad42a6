# pip: agent-framework-core agent-framework-openai opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response model tokens session
import asyncio
import os

from agent_framework import Agent, tool
from agent_framework.observability import configure_otel_providers
from agent_framework.openai import OpenAIChatClient
from opentelemetry import trace

# lines


@tool
def find_documents(question: str) -> list[dict[str, str]]:
    """Find documents of the shop."""
    return [{"id": "kb-1", "content": os.environ["DOCUMENT"]}]


async def answer(question):
    with trace.get_tracer("shop").start_as_current_span("turn") as span:
        span.set_attribute("session.id", os.environ["SESSION"])
        await Agent(OpenAIChatClient(model="m"), "Answer from documents.", tools=[find_documents]).run(question)


asyncio.run(answer(os.environ["QUESTION"]))
trace.get_tracer_provider().force_flush()
