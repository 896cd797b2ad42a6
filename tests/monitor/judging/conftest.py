"""A judge over loopback, and prompt files made for a test."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from judge_server import JudgeServer

from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.prices import Price


@pytest.fixture
def judge_server() -> Iterator[JudgeServer]:
    """A server that judges by script."""
    server = JudgeServer()
    yield server
    server.close()


@pytest.fixture
def new_judge(judge_server: JudgeServer) -> Callable[..., OpenAIJudge]:
    """Makes clients of the server, not entered."""

    def make(
        *,
        timeout: timedelta = timedelta(seconds=10),
        model: str = "judge-1",
        base_url: str | None = None,
        max_prompt_tokens: int | None = None,
    ) -> OpenAIJudge:
        return OpenAIJudge(
            model=model,
            api_key=lambda: "secret-key",
            base_url=base_url or judge_server.url,
            timeout=timeout,
            prices={"judge-1": Price(1.0, 4.0)},
            max_prompt_tokens=max_prompt_tokens,
        )

    return make


_PROMPT = """---
id: tone
version: 1
title: Tone
needs: [query, response]
scale: {type: integer, min: 1, max: 5}
defect: {score_lte: 2}
schema: tone.schema.json
placeholders_required: [fence, response]
---
[system]
You grade tone between two {{fence}} marks: the reason first, then the score.
[user]
{{fence}}
{{#documents}}
<{{id}}> {{content}}
{{/documents}}
{{query}}
{{fence}}
{{fence}}
{{response}}
{{fence}}
"""
_SCHEMA = """{"name": "tone", "strict": true, "schema": {"type": "object", "additionalProperties": false,
"required": ["reason", "score"], "properties": {"reason": {"type": "string"},
"score": {"type": "integer", "enum": [1, 2, 3, 4, 5]}}}}"""


@pytest.fixture
def prompt_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a prompt file with its schema, changed by replacing texts, and returns its path."""

    def write(*changes: tuple[str, str], schema: str = _SCHEMA) -> Path:
        text = _PROMPT
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "tone.schema.json").write_text(schema, encoding="utf-8")
        path = tmp_path / "tone.md"
        path.write_text(text, encoding="utf-8")
        return path

    return write
