# pip: logfire openai
# gives: query citations response model tokens session
import os

import logfire
from openai import OpenAI

# lines
with logfire.span("turn", **{"session.id": os.environ["SESSION"]}):
    with logfire.span("retrieve", question=os.environ["QUESTION"]) as span:
        span.set_attribute("retrieved_documents", [{"id": "kb-1", "content": os.environ["DOCUMENT"]}])
    messages = [
        {"role": "system", "content": f"Answer from this: {os.environ['DOCUMENT']}"},
        {"role": "user", "content": os.environ["QUESTION"]},
    ]
    OpenAI().chat.completions.create(model="m", messages=messages)
logfire.force_flush()
