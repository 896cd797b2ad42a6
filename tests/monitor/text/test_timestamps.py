"""Instants as RFC 3339 in UTC, written and read."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from monitor.text.timestamps import parse_rfc3339, rfc3339

INSTANT = datetime(2026, 3, 4, 10, 0, tzinfo=UTC)


def test_written_in_utc() -> None:
    """An instant of any zone is written in UTC; microseconds show where there are any."""
    assert "2026-03-04T10:00:00Z" == rfc3339(INSTANT.astimezone(timezone(timedelta(hours=-8))))
    assert "2026-03-04T10:00:00.000001Z" == rfc3339(INSTANT + timedelta(microseconds=1))


@pytest.mark.parametrize(
    "text", ["2026-03-04T10:00:00Z", "2026-03-04T02:00:00-08:00", "2026-03-04T10:00:00", "2026-03-04T10:00Z"]
)
def test_read_as_utc(text: str) -> None:
    """An offset counts, and without one the text is in UTC."""
    assert (INSTANT, UTC) == ((moment := parse_rfc3339(text)), moment.tzinfo)


def test_date_alone() -> None:
    """A date alone is its midnight in UTC."""
    assert INSTANT.replace(hour=0) == parse_rfc3339("2026-03-04")


def test_no_timestamp() -> None:
    """What is no timestamp is refused."""
    with pytest.raises(ValueError, match="Invalid isoformat string"):
        parse_rfc3339("yesterday")
    with pytest.raises(ValueError, match="outside of the years"):
        parse_rfc3339("0001-01-01T00:00:00+08:00")
