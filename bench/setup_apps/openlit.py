# pip: openlit openai
# gives: query citations response model tokens session
import os

import openlit
from openai import OpenAI
from opentelemetry import trace

# lines
with trace.get_tracer("shop").start_as_current_span("turn") as span:
    span.set_attribute("session.id", os.environ["SESSION"])
    messages = [
        {"role": "system", "content": f"Answer from these documents.\n\nContext:\n[kb-1] {os.environ['DOCUMENT']}"},
        {"role": "user", "content": os.environ["QUESTION"]},
    ]
    OpenAI().chat.completions.create(model="m", messages=messages)
trace.get_tracer_provider().force_flush()
