# pip: azure-ai-inference azure-core-tracing-opentelemetry opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response model tokens session
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

from azure.ai.inference import ChatCompletionsClient
from azure.ai.inference.models import SystemMessage, UserMessage
from azure.ai.inference.tracing import AIInferenceInstrumentor
from azure.core.credentials import AzureKeyCredential
from azure.core.settings import settings

# lines
with trace.get_tracer("shop").start_as_current_span("turn") as span:
    span.set_attribute("session.id", os.environ["SESSION"])
    model = ChatCompletionsClient(os.environ["OPENAI_BASE_URL"], AzureKeyCredential("any"))
    context = SystemMessage(f"Answer from these documents.\n\nContext:\n[kb-1] {os.environ['DOCUMENT']}")
    model.complete(model="m", messages=[context, UserMessage(os.environ["QUESTION"])])
