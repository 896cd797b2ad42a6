# pip: litellm opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
# gives: query citations response model tokens session
import os
import time

import litellm
from opentelemetry import trace

# lines
messages = [
    {"role": "system", "content": f"Answer from these documents.\n\nContext:\n[kb-1] {os.environ['DOCUMENT']}"},
    {"role": "user", "content": os.environ["QUESTION"]},
]
metadata = {"requester_metadata": {"session_id": os.environ["SESSION"]}}
litellm.completion(model="openai/m", messages=messages, user="u-1", metadata=metadata)
time.sleep(8)  # its callbacks run in a thread that nobody can wait for
