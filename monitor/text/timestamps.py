"""Instants as text: RFC 3339 (https://www.rfc-editor.org/rfc/rfc3339), always in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """Return an aware instant in UTC, with microseconds where there are any.

    >>> rfc3339(datetime.fromisoformat("2026-03-04T11:00:00.25+01:00"))
    '2026-03-04T10:00:00.250000Z'
    """
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_rfc3339(text: str) -> datetime:
    """Return the instant in UTC; without an offset it is one of UTC, and a date alone is its midnight.

    Raises:
        ValueError: the text is no RFC 3339 timestamp.

    >>> parse_rfc3339("2026-03-04T11:00:00+01:00").isoformat()
    '2026-03-04T10:00:00+00:00'
    """
    moment = datetime.fromisoformat(text)
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError("a timestamp outside of the years 1 to 9999 in UTC") from None
