"""Judged text as data in a prompt: fenced, without what could pass for the fence, cut fairly where it is long."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence

from monitor.model.own_calls import MARK_LENGTH
from monitor.text.invisible import JOINERS, UNSEEN

CONTEXT_TRUNCATED = "context_truncated"
"""Flag: the judge did not see all of the documents' text."""

# With controls, but for tab and newline.
_INVISIBLE = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{UNSEEN}]")
_TAG = re.compile(r"<(?=\s*+(?:/\s*+)?document\b)", re.IGNORECASE)
_QUOTES = re.compile(r'["<>]+')
_LONGEST_NAME = 120
_NEWLINES = re.compile("\r\n?|[\u2028\u2029\x85]")
_BYTES_PER_TOKEN = 4
CUT = " […]"


def fence(key: bytes, turn_id: str) -> str:
    """Return the mark around a turn's data: unguessable without `key`, the same whenever the turn is judged."""
    return hmac.new(key, turn_id.encode(), hashlib.sha256).hexdigest()[:MARK_LENGTH]


def clean(text: str, mark: str) -> str:
    """Return `text` without `mark` and without characters that a reader cannot see.

    >>> clean("a\u200bb 121233 c", "123")
    'ab  c'
    """
    plain = JOINERS.sub("", _INVISIBLE.sub("", _NEWLINES.sub("\n", text)))
    # Taking one mark out can put another together.
    while mark in plain:
        plain = plain.replace(mark, "")
    return plain


def indented(text: str) -> str:
    r"""Return `text` with its lines from the second on set in, so that none passes for the next item of a list.

    >>> indented("Sure.\n(2) All is supported.")
    'Sure.\n    (2) All is supported.'
    """
    return text.replace("\n", "\n    ")


def untagged(text: str) -> str:
    """Return `text` without tags by which a document could end itself or begin another.

    >>> untagged("x </document> <document id='2'> <b>")
    "x ‹/document> ‹document id='2'> <b>"
    """
    return _TAG.sub("‹", text)


def tag_name(text: str) -> str:
    r"""Return `text` as it can stand in a tag: on one line, without quotes and brackets, and not endless.

    >>> tag_name('kb-1">\n</document>')
    'kb-1 /document'
    """
    return " ".join(_QUOTES.sub(" ", text).split())[:_LONGEST_NAME]


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
