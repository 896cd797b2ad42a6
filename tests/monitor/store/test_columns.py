"""Column types that both databases agree on."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

from monitor.store.columns import (
    MAX_LABEL,
    MAX_LABEL_BYTES,
    Count,
    Duration,
    Instant,
    Number,
    json_text,
    label,
    microseconds,
)

DIALECT = sqlite.dialect()


@given(st.datetimes(timezones=st.timezones()))
def test_instants_round(instant: datetime) -> None:
    """An instant of any zone and year reads back as the same instant in UTC, to the microsecond."""
    kept = Instant().process_bind_param(instant, DIALECT)
    read = Instant().process_result_value(kept, DIALECT)
    assert (instant.astimezone(UTC), UTC) == (read, read.tzinfo)


def test_naive_instant() -> None:
    """A naive datetime is refused."""
    with pytest.raises(ValueError, match="aware"):
        microseconds(datetime(2026, 3, 1))  # noqa: DTZ001 -- the point


def test_instants_in_order() -> None:
    """Instants are kept in the order of time, whatever their zones."""
    early = datetime(2026, 3, 1, 13, 30, tzinfo=timezone(timedelta(hours=2)))
    late = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    assert microseconds(early) < microseconds(late)


@given(st.timedeltas())
def test_durations_round(duration: timedelta) -> None:
    """A duration reads back to the microsecond."""
    kept = Duration().process_bind_param(duration, DIALECT)
    assert duration == Duration().process_result_value(kept, DIALECT)


def test_label() -> None:
    """A label is repaired and short enough for an index; it is cut after repairing, never into half a character."""
    assert label("\x00" + "é" * 300).startswith("\ufffd" + "é" * 182 + "…")
    assert label("shop ö東") == "shop ö東"
    joined = label("aa" + "\U0001f468\u200d" * 300)
    assert label(joined) == joined


@given(st.one_of(st.text(), st.text(st.sampled_from("aé東\U00020000\u200d\U0001f468"), min_size=100, max_size=300)))
def test_labels_are_short(text: str) -> None:
    """It is never longer than an index takes, and its own label."""
    name = label(text)
    assert len(name) <= MAX_LABEL
    assert len(name.encode()) <= MAX_LABEL_BYTES
    assert name == label(name)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_number(number: float) -> None:
    """What is not a finite number is kept as NULL."""
    assert Number().process_bind_param(number, DIALECT) is None


def test_count_is_cut() -> None:
    """A count beyond all sense is cut, in either direction."""
    assert [10**12, -(10**12), 7] == [Count().process_bind_param(n, DIALECT) for n in (10**30, -(10**30), 7)]


@dataclass(frozen=True)
class Pair:
    """Two values."""

    text: str
    number: float | None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["a\x00b"], ["a\ufffdb"]),
        ({"k\x00": "\ud800"}, {"k\ufffd": "\ufffd"}),
        ([math.nan, math.inf, 1.5], [None, None, 1.5]),
        ((Pair("\x00", math.nan),), [{"text": "\ufffd", "number": None}]),
        ([10**30, True, None], [10**12, True, None]),
        (["\\u0000"], ["\\u0000"]),
    ],
)
def test_json(value: object, expected: object) -> None:
    """JSON holds no NUL, no lone surrogate, no NaN and no number that other readers choke on."""
    encoded = json_text(value)
    assert expected == json.loads(encoded, parse_constant=pytest.fail)
