"""Judged text as data in a prompt: fenced, without what could pass for the fence, cut fairly where it is long."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence

CONTEXT_TRUNCATED = "context_truncated"
"""Flag: the judge did not see all of the documents' text."""

_FENCE_LENGTH = 12
# Controls but tab and newline; soft hyphen; zero-width and bidirectional marks; invisible operators; tag characters.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)
_NEWLINES = re.compile("\r\n?|[\u2028\u2029\x85]")
_BYTES_PER_TOKEN = 4
CUT = " […]"


def fence(key: bytes, turn_id: str) -> str:
    """Return the mark around a turn's data: unguessable without `key`, the same whenever the turn is judged."""
    return hmac.new(key, turn_id.encode(), hashlib.sha256).hexdigest()[:_FENCE_LENGTH]


def clean(text: str, mark: str) -> str:
    """Return `text` without `mark` and without characters that a reader cannot see.

    >>> clean("a\u200bb 121233 c", "123")
    'ab  c'
    """
    plain = _INVISIBLE.sub("", _NEWLINES.sub("\n", text))
    # Taking one mark out can put another together.
    while mark in plain:
        plain = plain.replace(mark, "")
    return plain


def tokens(text: str) -> int:
    """Return about how many tokens `text` costs: a quarter of its UTF-8 bytes."""
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


def fit(texts: Sequence[str], budget: int) -> tuple[str, ...]:
    """Return `texts` cut to about `budget` tokens together: each keeps its head, and only the longest are cut.

    The cut ones are equally long and end in `[…]`.

    >>> fit(("short", "long " * 40), 10)
    ('short', 'long long long long long […]')
    """
    sizes = [len(text.encode("utf-8", "replace")) for text in texts]
    room = budget * _BYTES_PER_TOKEN
    if sum(sizes) <= room:
        return tuple(texts)
    level = _level(sizes, room)
    return tuple(
        text if size <= level else _head(text, level - len(CUT.encode()))
        for text, size in zip(texts, sizes, strict=True)
    )


def _level(sizes: Sequence[int], room: int) -> int:
    """Return the size down to which the largest are cut, so that all together fill `room`."""
    left = room
    ordered = sorted(sizes)
    for place, size in enumerate(ordered):
        share = left // (len(ordered) - place)
        if size > share:
            return share
        left -= size
    return max(ordered, default=0)


def _head(text: str, size: int) -> str:
    head = text.encode("utf-8", "replace")[: max(size, 0)].decode("utf-8", "ignore")
    space = head.rfind(" ")
    # A script without spaces, or one endless word, is cut where the room ends.
    return f"{head[:space] if space > len(head) // 2 else head}{CUT}"
