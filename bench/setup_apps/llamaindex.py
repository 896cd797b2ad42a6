# pip: llama-index-observability-otel llama-index-core llama-index-llms-openai-like opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: app release query citations response session
import os

from llama_index.core import Document, MockEmbedding, VectorStoreIndex
from llama_index.llms.openai_like import OpenAILike
from llama_index.observability.otel import LlamaIndexOpenTelemetry
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource

# lines
document = Document(text=os.environ["DOCUMENT"], id_="kb-1")
index = VectorStoreIndex.from_documents([document], embed_model=MockEmbedding(embed_dim=2))
model = OpenAILike(model="m", api_base=os.environ["OPENAI_BASE_URL"], api_key="any", is_chat_model=True)
with trace.get_tracer("shop").start_as_current_span("turn") as span:
    span.set_attribute("session.id", os.environ["SESSION"])
    index.as_query_engine(llm=model).query(os.environ["QUESTION"])
trace.get_tracer_provider().force_flush()
