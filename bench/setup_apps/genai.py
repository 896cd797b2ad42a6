# pip: opentelemetry-instrumentation-genai-openai openai opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response model tokens session
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

from openai import OpenAI
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

# lines
with trace.get_tracer("shop").start_as_current_span("turn") as span:
    span.set_attribute("gen_ai.conversation.id", os.environ["SESSION"])
    messages = [
        {"role": "system", "content": f"Answer from these documents.\n\nContext:\n[kb-1] {os.environ['DOCUMENT']}"},
        {"role": "user", "content": os.environ["QUESTION"]},
    ]
    OpenAI().chat.completions.create(model="m", messages=messages)
