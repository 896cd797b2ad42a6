# pip: opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response session
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
import json

question, answer = os.environ["QUESTION"], "Two years, from the day of delivery."
with trace.get_tracer("shop").start_as_current_span("chat") as span:
    span.set_attribute("session.id", os.environ["SESSION"])
    span.set_attribute("retrieved_documents", json.dumps([{"id": "kb-1", "content": os.environ["DOCUMENT"]}]))
    # lines
