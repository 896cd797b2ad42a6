"""Column types that both databases agree on: instants, text without NUL, finite numbers, bounded counts, JSON as text.

Text is repaired before writing, whoever wrote it, so that one odd character never loses a row and both databases read
back the same.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, is_dataclass
from datetime import datetime, timedelta

import orjson
from sqlalchemy import BigInteger, Dialect, Double, Integer, Text, TypeDecorator

from monitor.model.spans import EPOCH
from monitor.text.invisible import visible
from monitor.text.repair import repaired

MAX_COUNT = 10**12
"""Larger counts are a sender's mistake; cut there, nine million of them still add up within 64 bits."""

MAX_LABEL = 200
"""Characters of a name that is part of an index."""
MAX_LABEL_BYTES = 500
"""Of its UTF-8: PostgreSQL takes no index row over 2,704 bytes, and senders choose three names of one in `rollups`."""
_DIGEST_BYTES = 8

_MICROSECOND = timedelta(microseconds=1)

Position = BigInteger().with_variant(Integer, "sqlite")
"""A growing 64-bit integer; on SQLite the type must be spelled INTEGER to be the row's own id."""


def microseconds(instant: datetime) -> int:
    """Return microseconds since 1970 UTC.

    Raises:
        ValueError: the datetime is naive.

    >>> microseconds(datetime.fromisoformat("1970-01-01T01:00:00+01:00"))
    0
    """
    if instant.tzinfo is None:
        raise ValueError("an instant must be an aware datetime; found a naive one")
    return (instant - EPOCH) // _MICROSECOND


def label(text: str) -> str:
    """Return `text` as it is kept where it is part of an index: nothing hidden in it, and short.

    One that is longer than `MAX_LABEL` or `MAX_LABEL_BYTES` keeps its beginning and ends in a digest of the whole, so
    that two which begin alike stay two. A label is its own label.
    """
    name = visible(repaired(text))
    if len(name) <= MAX_LABEL and (name.isascii() or len(name.encode()) <= MAX_LABEL_BYTES):
        return name
    digest = f"…{hashlib.blake2b(name.encode(), digest_size=_DIGEST_BYTES).hexdigest()}"
    head = name[: MAX_LABEL - len(digest)].encode()[: MAX_LABEL_BYTES - len(digest.encode())]
    # Again, since the cut may leave a joiner of pictures with nothing to join.
    return visible(head.decode(errors="ignore") + digest)


def json_text(value: object) -> str:
    """Return sequences, string-keyed dicts, dataclasses or scalars as JSON: text repaired, NaN and infinities null."""
    try:
        encoded = orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_storable(value)).decode()
    return (orjson.dumps(_storable(value)) if b"\\u0000" in encoded else encoded).decode()


def _storable(value: object) -> object:
    if isinstance(value, str):
        return repaired(value)
    if isinstance(value, dict):
        return {repaired(str(key)): _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _storable(asdict(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-MAX_COUNT, min(MAX_COUNT, value))
    return value


class Instant(TypeDecorator[datetime]):
    """An aware datetime, kept as microseconds since 1970 UTC and read as UTC whatever zone anybody is in."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002 -- SQLAlchemy's
        """Return what is stored; a naive datetime is refused with `ValueError`."""
        return None if value is None else microseconds(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 -- as above
        """Return the aware UTC instant."""
        return None if value is None else EPOCH + timedelta(microseconds=value)


class Duration(TypeDecorator[timedelta]):
    """A timedelta, kept as microseconds."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: timedelta | None, dialect: Dialect) -> int | None:  # noqa: ARG002 -- as above
        """Return what is stored."""
        return None if value is None else value // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> timedelta | None:  # noqa: ARG002 -- as above
        """Return the duration."""
        return None if value is None else timedelta(microseconds=value)


class CleanText(TypeDecorator[str]):
    """Text of any length, repaired."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- as above
        """Return what is stored."""
        return None if value is None else repaired(value)


class Label(TypeDecorator[str]):
    """Text that is part of an index: `label`."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 -- as above
        """Return what is stored."""
        return None if value is None else label(value)


class Number(TypeDecorator[float]):
    """A finite float; NaN and infinities are kept as NULL, since one of them would spoil every sum it enters."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:  # noqa: ARG002 -- as above
        """Return what is stored."""
        return None if value is None or not math.isfinite(value) else float(value)


class Count(TypeDecorator[int]):
    """A 64-bit count, cut to `MAX_COUNT` either side of zero."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:  # noqa: ARG002 -- as above
        """Return what is stored."""
        return None if value is None else max(-MAX_COUNT, min(MAX_COUNT, value))
