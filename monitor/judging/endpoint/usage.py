"""What a prompt must take of tokens, held against what an endpoint says it took."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model.judgements import ChatMessage

_SMALLEST_WINDOW = 500
"""Tokens; a count below it is no cut but some other count, such as of what was not cached."""
_COUNTED = 0.9
"""Part of the words that must have been read: some models join a few into one token, such as a name or a date."""


def is_cut(messages: Sequence[ChatMessage], input_tokens: int) -> bool:
    """Return whether the endpoint read fewer tokens than the messages have words: it cut them without saying so.

    No tokenizer in use joins words across spaces, so there is at least a token for each. Scripts without spaces are not
    seen, nor is a cut of the last quarter.

    >>> is_cut([ChatMessage(role="user", content="word " * 6000)], 4096)
    True
    """
    words = sum(len(message.content.split()) for message in messages)
    return _SMALLEST_WINDOW <= input_tokens < _COUNTED * words
