# pip: traceloop-sdk httpx openai
# gives: query citations response model tokens session
import os

from openai import OpenAI
from traceloop.sdk import Traceloop
from traceloop.sdk.decorators import task, workflow

# lines


@task(name="retrieve")
def retrieve(question):
    return [{"id": "kb-1", "content": os.environ["DOCUMENT"]}]


@workflow(name="answer")
def answer(question):
    Traceloop.set_association_properties({"session_id": os.environ["SESSION"], "user_id": "u-1"})
    found = "\n".join(document["content"] for document in retrieve(question))
    messages = [
        {"role": "system", "content": f"Answer from these documents.\n\nContext:\n{found}"},
        {"role": "user", "content": question},
    ]
    return OpenAI().chat.completions.create(model="m", messages=messages).choices[0].message.content


answer(os.environ["QUESTION"])
