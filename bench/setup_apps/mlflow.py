# pip: mlflow langchain langchain-openai opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response model tokens session
import os

import mlflow
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from mlflow.entities import Document, SpanType

# lines
prompt = ChatPromptTemplate([("system", "Answer from these documents.\n\nContext:\n{found}"), ("user", "{question}")])


@mlflow.trace(span_type=SpanType.RETRIEVER)
def retrieve(question):
    return [Document(page_content=os.environ["DOCUMENT"], id="kb-1")]


@mlflow.trace
def answer(question):
    mlflow.get_current_active_span().set_attribute("session.id", os.environ["SESSION"])
    found = "\n".join(document.page_content for document in retrieve(question))
    return (prompt | ChatOpenAI(model="m")).invoke({"found": found, "question": question}).content


answer(os.environ["QUESTION"])
mlflow.flush_trace_async_logging()
