"""When to try again: what the other side asks for, and pauses that grow. Never negative, endless or an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import parsedate_to_datetime

LONGEST = timedelta(hours=1)
"""What another side may ask for at most. One that asks for days has lost its mind or its quota; a try an hour harms
neither, and people learn the sooner that it works again."""

# A microsecond, doubled that often, is longer than any timedelta.
_MOST_DOUBLINGS = 67


def retry_after(
    headers: Mapping[str, str] | Message, now: datetime, *, longest: timedelta = LONGEST
) -> timedelta | None:
    """Return how long the headers of a refusal ask to wait, from 0 to `longest`; None when they say nothing readable.

    `Retry-After` holds seconds or a date (RFC 9110, section 10.2.3); `retry-after-ms`, which Azure OpenAI sends, holds
    milliseconds and goes first, since it is the finer one.

    >>> retry_after({"Retry-After": "2.5"}, datetime(2026, 5, 4, tzinfo=UTC))
    datetime.timedelta(seconds=2, microseconds=500000)
    """
    lowered = {name.lower(): text for name, text in headers.items()}
    for name, a_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        seconds = _seconds(lowered.get(name, ""), now, a_second=a_second)
        if seconds is not None:
            return timedelta(seconds=min(max(seconds, 0.0), longest.total_seconds()))
    return None


def backoff(
    attempt: int,
    *,
    first: timedelta,
    longest: timedelta,
    at_least: timedelta | None = None,
    random: Callable[[], float] | None = None,
) -> timedelta:
    """Return the pause after failure number `attempt` in a row: `first` after number 1, then doubled, up to `longest`.

    With `random`, a source of numbers in [0, 1), it is spread over 80 to 120 %, so that many do not come back at once.
    It is no shorter than `at_least`, what the other side asked for, and no longer than `longest`, whoever asks.

    >>> [backoff(n, first=timedelta(seconds=1), longest=timedelta(seconds=5)).seconds for n in (1, 2, 3, 4, 1000)]
    [1, 2, 4, 5, 5]
    """
    seconds = first.total_seconds() * 2.0 ** min(max(attempt - 1, 0), _MOST_DOUBLINGS)
    if random is not None:
        seconds *= 0.8 + 0.4 * random()
    pause = timedelta(seconds=seconds) if seconds < longest.total_seconds() else longest
    return pause if at_least is None else min(max(pause, at_least), longest)


def _seconds(text: str, now: datetime, *, a_second: float) -> float | None:
    try:
        seconds = float(text) / a_second
    except ValueError:
        return _seconds_until(text, now)
    return None if math.isnan(seconds) else seconds


def _seconds_until(text: str, now: datetime) -> float | None:
    try:
        then = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    # "-0000" is UTC without saying where the sender is.
    return (then.replace(tzinfo=then.tzinfo or UTC) - now).total_seconds()
