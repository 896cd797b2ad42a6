# pip: openinference-instrumentation-langchain langchain langchain-openai opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response model tokens session
import os

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI
from openinference.instrumentation import using_attributes
from openinference.instrumentation.langchain import LangChainInstrumentor

# lines


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=os.environ["DOCUMENT"], metadata={"id": "kb-1"})]


prompt = ChatPromptTemplate([("system", "Answer from this: {found}"), ("user", "{question}")])


def answer(question):
    found = Shelf().invoke(question)[0].page_content
    return (prompt | ChatOpenAI(model="m")).invoke({"found": found, "question": question}).content


with using_attributes(session_id=os.environ["SESSION"], user_id="u-1"):
    RunnableLambda(answer).invoke(os.environ["QUESTION"])
