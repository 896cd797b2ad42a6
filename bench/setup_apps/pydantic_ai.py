# pip: pydantic-ai-slim[openai] opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response model tokens session
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

from pydantic_ai import Agent

# lines
agent = Agent("openai-chat:m")


@agent.tool_plain
def find_documents(question: str) -> list[dict[str, str]]:
    return [{"id": "kb-1", "content": os.environ["DOCUMENT"]}]


agent.run_sync(os.environ["QUESTION"], conversation_id=os.environ["SESSION"])
