# pip: deepeval opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# lines: none
# gives: query citations response session
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

with trace.get_tracer("shop").start_as_current_span("answer") as span:
    span.set_attribute("confident.span.type", "agent")
    span.set_attribute("confident.span.input", os.environ["QUESTION"])
    span.set_attribute("confident.span.retrieval_context", [os.environ["DOCUMENT"]])
    span.set_attribute("confident.span.output", "Two years, from the day of delivery.")
    span.set_attribute("confident.trace.thread_id", os.environ["SESSION"])
