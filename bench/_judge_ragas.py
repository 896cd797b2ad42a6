"""What ragas makes of the judge bench's turns: one call a turn, by its own `evaluate`. Run in its own environment.

Arguments: the judge's URL and how many calls at once. Turns come as JSON lines; the answer is one line of JSON.
"""

import json
import sys
import time
import warnings

warnings.simplefilter("ignore")

from langchain_openai import ChatOpenAI  # noqa: E402 -- it and ragas warn while they are imported
from ragas import EvaluationDataset, RunConfig, SingleTurnSample, evaluate  # noqa: E402
from ragas.llms import LangchainLLMWrapper  # noqa: E402
from ragas.metrics import SimpleCriteriaScore  # noqa: E402

CRITERION = "Score 1 to 5: does the response answer the question, all of it and nothing else?"


def main() -> None:
    """Judge and print."""
    _, url, concurrency = sys.argv
    samples = [
        SingleTurnSample(user_input=turn["query"], response=turn["response"]) for turn in map(json.loads, sys.stdin)
    ]
    llm = LangchainLLMWrapper(ChatOpenAI(model="judge-1", api_key="k", base_url=url, timeout=60, max_retries=0))
    metric = SimpleCriteriaScore(name="relevance", definition=CRITERION, llm=llm)
    started, cpu = time.monotonic(), time.process_time()
    result = evaluate(
        EvaluationDataset(samples=samples),
        metrics=[metric],
        run_config=RunConfig(max_workers=int(concurrency), timeout=120, max_retries=1),
        show_progress=False,
        raise_exceptions=True,
    )
    took = {"seconds": time.monotonic() - started, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps({**took, "scored": sum(score["relevance"] == 4 for score in result.scores)}))


if __name__ == "__main__":
    main()
