# pip: opentelemetry-instrumentation-chromadb opentelemetry-instrumentation-genai-openai chromadb openai opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response model tokens session
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

import chromadb
from openai import OpenAI
from opentelemetry.instrumentation.chromadb import ChromaInstrumentor
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
OpenAIInstrumentor().instrument()
# lines
shelf = chromadb.EphemeralClient().create_collection("shelf")
shelf.add(ids=["kb-1"], documents=[os.environ["DOCUMENT"]], embeddings=[[0.1, 0.2]])
with trace.get_tracer("shop").start_as_current_span("turn") as span:
    span.set_attribute("session.id", os.environ["SESSION"])
    found = shelf.query(query_embeddings=[[0.1, 0.2]], n_results=1)["documents"][0][0]
    messages = [
        {"role": "system", "content": f"Answer from this: {found}"},
        {"role": "user", "content": os.environ["QUESTION"]},
    ]
    OpenAI().chat.completions.create(model="m", messages=messages)
