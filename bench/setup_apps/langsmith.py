# pip: langsmith[otel] openai opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response model tokens session
# lines
import os

import langsmith
from langsmith import traceable
from langsmith.wrappers import wrap_openai
from openai import OpenAI
from opentelemetry import trace

model = wrap_openai(OpenAI())


@traceable(run_type="retriever")
def retrieve(question):
    return [{"page_content": os.environ["DOCUMENT"], "type": "Document", "metadata": {"id": "kb-1"}}]


@traceable(metadata={"session_id": os.environ["SESSION"], "user_id": "u-1"})
def answer(question):
    messages = [
        {"role": "system", "content": f"Answer from this: {retrieve(question)[0]['page_content']}"},
        {"role": "user", "content": question},
    ]
    return model.chat.completions.create(model="m", messages=messages).choices[0].message.content


answer(os.environ["QUESTION"])
langsmith.Client().flush()
trace.get_tracer_provider().force_flush()
