"""What a call used, as each provider reports it, or an estimate: no reply is free because nobody counted it.

Sources: OpenAI, xAI, Groq and Azure (`prompt_tokens_details.cached_tokens`), DeepSeek (`prompt_cache_hit_tokens`),
Moonshot (`cached_tokens`), OpenRouter (`cache_write_tokens` in the details), Anthropic and LiteLLM
(`cache_read_input_tokens`, `cache_creation_input_tokens`), Bedrock and Gemini by their own names in camel case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from monitor.judging.prompt.quoting import tokens
from monitor.judging.prompt.schema import Json
from monitor.model.judgements import ChatMessage

_INPUT = (
    "prompt_tokens",
    "input_tokens",
    "promptTokens",
    "inputTokens",
    "prompt_token_count",
    "promptTokenCount",
)
_OUTPUT = (
    "completion_tokens",
    "output_tokens",
    "completionTokens",
    "outputTokens",
    "candidates_token_count",
    "candidatesTokenCount",
)
_TOTAL = ("total_tokens", "totalTokens", "total_token_count", "totalTokenCount")
_INPUT_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_CACHED = (
    "cached_tokens",
    "prompt_cache_hit_tokens",
    "cache_read_input_tokens",
    "cacheReadInputTokens",
    "cached_content_token_count",
    "cachedContentTokenCount",
)
_CACHE_WRITTEN = (
    "cache_write_tokens",
    "cache_creation_tokens",
    "cache_creation_input_tokens",
    "cacheWriteInputTokens",
)
# Those who call the prompt so count it without what was cached.
_WITHOUT_CACHE = frozenset({"input_tokens", "inputTokens"})
_BESIDE_INPUT = frozenset({"cache_read_input_tokens", "cache_creation_input_tokens", "cacheReadInputTokens"})
_MOST_TOKENS = 10**8
_SMALLEST_WINDOW = 500
"""Tokens; a count below it is no cut but some other count, such as of what was not cached."""
_COUNTED = 0.9
"""Part of the words that must have been read: some models join a few into one token, such as a name or a date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one call."""

    input: int
    output: int
    """Of the reply, reasoning included."""
    cached: int = 0
    """Of the input, those that were read from the endpoint's cache."""
    cache_written: int = 0
    """Of the input, those that were written to it."""
    is_estimated: bool = False
    """Whether the endpoint did not say all of it."""


def read(reported: Mapping[str, Json], *, prompt: int, reply: int) -> Usage:
    """Return what `reported` says; `prompt` and `reply` are estimates, for what it leaves out or cannot mean.

    What the total counts beside prompt and completion is cache where the caches fill it, and else reasoning.

    >>> read({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 35}, prompt=0, reply=0).output
    25
    """
    prompt_tokens = _first(reported, _INPUT)
    completion_tokens = _first(reported, _OUTPUT)
    total = _first(reported, _TOTAL)
    sources = [reported, *(_mapping(reported.get(name)) for name in _INPUT_DETAILS)]
    cached = max(_first(source, _CACHED) for source in sources)
    written = max(_first(source, _CACHE_WRITTEN) for source in sources)
    input_tokens = prompt_tokens
    if prompt_tokens and _is_beside(reported, prompt_tokens, completion_tokens, total, cache=cached + written):
        input_tokens += cached + written
    output_tokens = completion_tokens
    if input_tokens and total > input_tokens + completion_tokens:
        output_tokens = total - input_tokens
    is_estimated = not input_tokens or (not output_tokens and reply > 0)
    input_tokens = input_tokens or prompt
    cached = min(cached, input_tokens)
    return Usage(
        input=input_tokens,
        output=output_tokens or reply,
        cached=cached,
        cache_written=min(written, input_tokens - cached),
        is_estimated=is_estimated,
    )


def _is_beside(reported: Mapping[str, Json], prompt: int, completion: int, total: int, *, cache: int) -> bool:
    """Return whether the prompt was counted without what was read from the cache and written to it."""
    if total:
        return cache > 0 and total == prompt + cache + completion
    own_names = not _WITHOUT_CACHE.isdisjoint(reported) and not _BESIDE_INPUT.isdisjoint(reported)
    return own_names or cache > prompt


def is_cut(messages: Sequence[ChatMessage], input_tokens: int) -> bool:
    """Return whether the endpoint read fewer tokens than the messages have words: it cut them without saying so.

    No tokenizer in use joins words across spaces, so there is at least a token for each. Scripts without spaces are not
    seen, nor is a cut of the last quarter.

    >>> is_cut([ChatMessage(role="user", content="word " * 6000)], 4096)
    True
    """
    words = sum(len(message.content.split()) for message in messages)
    return _SMALLEST_WINDOW <= input_tokens < _COUNTED * words


def estimate(messages: Sequence[ChatMessage]) -> int:
    """Return about how many tokens `messages` cost, with four for the marks around each."""
    return sum(tokens(message.content) + 4 for message in messages)


def _first(counts: Mapping[str, Json], names: Sequence[str]) -> int:
    """Return the first of `names` that holds a number of tokens; 0 when none does."""
    return next((count for name in names if (count := _count(counts.get(name)))), 0)


def _count(value: Json) -> int:
    """Return a number of tokens, `100.0` and `"100"` too; 0 for what cannot be one, such as the largest integer."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= len(str(_MOST_TOKENS)):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    # Neither NaN nor infinity is within.
    return int(value) if 0 < value <= _MOST_TOKENS else 0


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
