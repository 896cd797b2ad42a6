# pip: haystack-ai opentelemetry-haystack opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response model tokens session
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

from haystack import Document, Pipeline, tracing
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.retrievers import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer

# lines
shelf = InMemoryDocumentStore()
shelf.write_documents([Document(id="kb-1", content=os.environ["DOCUMENT"])])
context = ChatMessage.from_system("Answer from these documents.\n{% for d in documents %}{{ d.content }}{% endfor %}")
pipeline = Pipeline()
pipeline.add_component("retriever", InMemoryBM25Retriever(shelf))
template = [context, ChatMessage.from_user("{{ question }}")]
pipeline.add_component("prompt", ChatPromptBuilder(template, required_variables="*"))
pipeline.add_component("model", OpenAIChatGenerator(model="m"))
pipeline.connect("retriever", "prompt.documents")
pipeline.connect("prompt.prompt", "model.messages")
with trace.get_tracer("shop").start_as_current_span("turn") as span:
    span.set_attribute("session.id", os.environ["SESSION"])
    question = os.environ["QUESTION"]
    pipeline.run({"retriever": {"query": question}, "prompt": {"question": question}})
