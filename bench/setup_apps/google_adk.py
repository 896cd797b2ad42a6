# pip: google-adk litellm opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response asked_model tokens session
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
# lines


def find_documents(question: str) -> list[dict[str, str]]:
    """Find documents of the shop."""
    return [{"id": "kb-1", "content": os.environ["DOCUMENT"]}]


async def answer(question):
    agent = LlmAgent(name="helpdesk", model=LiteLlm("openai/m"), tools=[find_documents])
    runner = InMemoryRunner(agent, app_name="shop")
    await runner.session_service.create_session(app_name="shop", user_id="u-1", session_id=os.environ["SESSION"])
    message = types.Content(role="user", parts=[types.Part(text=question)])
    async for _ in runner.run_async(user_id="u-1", session_id=os.environ["SESSION"], new_message=message):
        pass


asyncio.run(answer(os.environ["QUESTION"]))
