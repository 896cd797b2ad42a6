"""What azure-ai-evaluation makes of the judge bench's turns: one call a turn, by its own `evaluate`.

Run in its own environment. Arguments: the judge's URL and how many calls at once. Turns come as JSON lines; the answer
is the last line of the output, in JSON.
"""

import json
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

from azure.ai.evaluation import OpenAIModelConfiguration, RelevanceEvaluator, evaluate


def main() -> None:
    """Judge and print."""
    _, url, concurrency = sys.argv
    logging.disable(logging.CRITICAL)
    os.environ["PF_WORKER_COUNT"] = concurrency
    model = OpenAIModelConfiguration(type="openai", model="judge-1", api_key="k", base_url=url)
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "turns.jsonl")
        lines.write_text(sys.stdin.read())
        started, cpu = time.monotonic(), time.process_time()
        result = evaluate(data=lines, evaluators={"relevance": RelevanceEvaluator(model)})
        took = {"seconds": time.monotonic() - started, "cpu_seconds": time.process_time() - cpu}
    scored = sum(row["outputs.relevance.relevance"] == 4 for row in result["rows"])
    print(json.dumps({**took, "scored": scored}))


if __name__ == "__main__":
    main()
