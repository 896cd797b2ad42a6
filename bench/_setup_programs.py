"""A small app of each stack with `# lines` where those of docs/dialects.md stand, for bench/setup_lines.py."""

_PROVIDER = """from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
"""
_GLOBAL = _PROVIDER + "trace.set_tracer_provider(provider)\n"
_ASK = """from openai import OpenAI
OpenAI().chat.completions.create(model="m", messages=[{"role": "user", "content": "How long is the warranty?"}])
"""
_FLUSH = """from opentelemetry import trace
trace.get_tracer_provider().force_flush()
"""
_SDK = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")

PROGRAMS: dict[str, tuple[tuple[str, ...], str]] = {
    "openinference": (
        ("openinference-instrumentation-langchain", "langchain", *_SDK),
        _PROVIDER
        + """from openinference.instrumentation.langchain import LangChainInstrumentor
# lines
from langchain_core.language_models import FakeListChatModel
FakeListChatModel(responses=['Two years.']).invoke('How long is the warranty?')
""",
    ),
    "genai": (
        ("opentelemetry-instrumentation-genai-openai", "openai", *_SDK),
        _GLOBAL
        + """from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
# lines
"""
        + _ASK,
    ),
    "transport": (
        ("opentelemetry-instrumentation-fastapi", "fastapi", "httpx", *_SDK),
        _GLOBAL
        + """from fastapi import FastAPI
from fastapi.testclient import TestClient
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
app = FastAPI()
# lines
TestClient(app).get('/')
""",
    ),
    "langfuse": (
        ("langfuse",),
        """from langfuse import Langfuse, get_client, observe
# lines
observe(as_type='retriever')(lambda question: ['Two years.'])('How long?')
get_client().flush()
""",
    ),
    "langsmith": (
        ("langsmith[otel]", *_SDK),
        """# lines
import langsmith
from langsmith import traceable
traceable(lambda question: 'Two years.', name='chat')('How long?')
langsmith.Client().flush()
"""
        + _FLUSH,
    ),
    "logfire": (
        ("logfire", "openai"),
        """import logfire
# lines
"""
        + _ASK
        + """logfire.force_flush()
""",
    ),
    "haystack": (
        ("haystack-ai", "opentelemetry-haystack", *_SDK),
        _GLOBAL
        + """from haystack import Pipeline, tracing
from haystack.components.builders import PromptBuilder
from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer
# lines
pipeline = Pipeline()
pipeline.add_component('prompt', PromptBuilder(template='{{ question }}'))
pipeline.run({'prompt': {'question': 'How long is the warranty?'}})
""",
    ),
    "llamaindex": (
        ("llama-index-observability-otel", "llama-index-core", *_SDK),
        """from llama_index.core import Document, MockEmbedding, SummaryIndex
from llama_index.core.llms import MockLLM
from llama_index.observability.otel import LlamaIndexOpenTelemetry
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
# lines
index = SummaryIndex.from_documents([Document(text='Two years.')])
index.as_query_engine(llm=MockLLM()).query('How long is the warranty?')
"""
        + _FLUSH,
    ),
    "litellm": (
        ("litellm", *_SDK),
        """import time
import litellm
# lines
question = {'role': 'user', 'content': 'How long is the warranty?'}
litellm.completion(model='openai/m', messages=[question])
time.sleep(8)
""",
    ),
    "vector_db": (
        ("opentelemetry-instrumentation-chromadb", "chromadb", *_SDK),
        _GLOBAL
        + """import chromadb
from opentelemetry.instrumentation.chromadb import ChromaInstrumentor
# lines
shelf = chromadb.EphemeralClient().create_collection('shelf')
shelf.add(ids=['kb-1'], documents=['How long? Two years.'], embeddings=[[0.1, 0.2]])
shelf.query(query_embeddings=[[0.1, 0.2]], n_results=1)
""",
    ),
    "generic": (
        _SDK,
        _GLOBAL
        + """question, answer = 'How long is the warranty?', 'Two years.'
with trace.get_tracer('shop').start_as_current_span('chat') as span:
    # lines
    pass
""",
    ),
}
"""Dialect -> what pip installs, and the program."""
