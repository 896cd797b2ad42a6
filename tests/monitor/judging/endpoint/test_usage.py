"""What tokens tell of a prompt."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from monitor.judging.endpoint.prices import Price
from monitor.judging.endpoint.usage import Usage, is_cut, read
from monitor.judging.prompt.schema import Json
from monitor.model.judgements import ChatMessage


@pytest.mark.parametrize(
    ("text", "counted", "cut"),
    [
        ("The garden centre opens at nine. " * 1500, 4096, True),
        ("The garden centre opens at nine. " * 1500, 10_500, False),
        ("The garden centre opens at nine. " * 1500, 0, False),
        ("The garden centre opens at nine. " * 1500, 100, False),
        ("退款在14天内完成。" * 3000, 4096, False),
        ("x" * 100_000, 2000, False),
        ("word", 1, False),
    ],
)
def test_cut(text: str, counted: int, *, cut: bool) -> None:
    """A prompt of which fewer tokens were read than it has words was cut; a count that cannot be a window's is none."""
    assert cut is is_cut([ChatMessage(role="user", content=text)], counted)


_REPORTS: Mapping[str, tuple[dict[str, Json], Usage]] = MappingProxyType(
    {
        "OpenAI": (
            {
                "prompt_tokens": 2006,
                "completion_tokens": 300,
                "total_tokens": 2306,
                "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 200},
            },
            Usage(input=2006, output=300, cached=1920),
        ),
        "xAI, R03": (
            {
                "prompt_tokens": 10120,
                "completion_tokens": 1499,
                "total_tokens": 14428,
                "prompt_tokens_details": {"cached_tokens": 128},
                "completion_tokens_details": {"reasoning_tokens": 2809},
            },
            Usage(input=10120, output=4308, cached=128),
        ),
        "Gemini, whose total alone has the thoughts": (
            {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 420},
            Usage(input=100, output=320),
        ),
        "Gemini's own names": (
            {
                "promptTokenCount": 100,
                "candidatesTokenCount": 20,
                "thoughtsTokenCount": 300,
                "totalTokenCount": 420,
                "cachedContentTokenCount": 60,
            },
            Usage(input=100, output=320, cached=60),
        ),
        "DeepSeek": (
            {
                "prompt_tokens": 1000,
                "completion_tokens": 20,
                "total_tokens": 1020,
                "prompt_cache_hit_tokens": 896,
                "prompt_cache_miss_tokens": 104,
            },
            Usage(input=1000, output=20, cached=896),
        ),
        "Moonshot": (
            {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020, "cached_tokens": 512},
            Usage(input=1000, output=20, cached=512),
        ),
        "OpenRouter": (
            {
                "prompt_tokens": 1000,
                "completion_tokens": 20,
                "total_tokens": 1020,
                "prompt_tokens_details": {"cached_tokens": 300, "cache_write_tokens": 500},
            },
            Usage(input=1000, output=20, cached=300, cache_written=500),
        ),
        "LiteLLM over Anthropic": (
            {
                "prompt_tokens": 1000,
                "completion_tokens": 20,
                "total_tokens": 1020,
                "cache_read_input_tokens": 700,
                "cache_creation_input_tokens": 200,
            },
            Usage(input=1000, output=20, cached=700, cache_written=200),
        ),
        "Anthropic": (
            {
                "input_tokens": 100,
                "output_tokens": 20,
                "cache_read_input_tokens": 700,
                "cache_creation_input_tokens": 200,
            },
            Usage(input=1000, output=20, cached=700, cache_written=200),
        ),
        "Bedrock": (
            {
                "inputTokens": 100,
                "outputTokens": 20,
                "totalTokens": 1020,
                "cacheReadInputTokens": 700,
                "cacheWriteInputTokens": 200,
            },
            Usage(input=1000, output=20, cached=700, cache_written=200),
        ),
        "floats": ({"prompt_tokens": 100.0, "completion_tokens": 20.0}, Usage(input=100, output=20)),
        "texts": ({"prompt_tokens": "100", "completion_tokens": "20"}, Usage(input=100, output=20)),
    }
)


@pytest.mark.parametrize(("reported", "usage"), _REPORTS.values(), ids=_REPORTS)
def test_report(reported: dict[str, Json], usage: Usage) -> None:
    """Tokens are counted as each provider bills them: caches and reasoning once, wherever they stand."""
    assert usage == read(reported, prompt=7, reply=7)


@pytest.mark.parametrize(
    "nothing", [None, 0, -1, 2**63 - 1, float("nan"), float("inf"), "many", [], {}, True, "9" * 99]
)
def test_no_report(nothing: Json) -> None:
    """What cannot be a number of tokens is estimated, and marked so."""
    expected = Usage(input=70, output=7, is_estimated=True)
    assert expected == read({"prompt_tokens": nothing, "completion_tokens": nothing}, prompt=70, reply=7)
    assert expected == read({}, prompt=70, reply=7)


def test_price_of_reasoning_beside() -> None:
    """R03: reasoning that is billed beside the completion is paid for."""
    reported, _ = _REPORTS["xAI, R03"]
    cost = Price(1.0, 10.0, cached=0.1).cost_usd(read(reported, prompt=0, reply=0))
    assert pytest.approx(0.0530848) == cost


def test_empty_reply() -> None:
    """A reply of no tokens is no lack of a report."""
    assert Usage(input=9, output=0) == read({"prompt_tokens": 9, "completion_tokens": 0}, prompt=7, reply=0)
