"""When to try again: whatever another side sends and however often it failed, the next try is in sight."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from email.message import Message
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.retry import LONGEST, backoff, retry_after

NOW = datetime(2026, 5, 4, 14, 0, tzinfo=UTC)
_ROOT = Path(__file__).parents[2]
_ZONES = st.integers(min_value=-1439, max_value=1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
_DATES = st.datetimes(timezones=_ZONES).map(format_datetime)
_NUMBERS = st.one_of(st.integers(), st.floats()).map(str)
_HEADERS = st.one_of(st.text(), _DATES, _NUMBERS, st.integers(min_value=0).map(lambda n: f"{n:_}"))
_PAUSES = st.timedeltas(min_value=timedelta(0))


@given(seconds=_HEADERS, milliseconds=st.none() | _HEADERS)
def test_any_header(seconds: str, milliseconds: str | None) -> None:
    """Whatever the headers hold, the pause is from nothing to an hour, or there is none; nothing is raised."""
    headers = {"retry-after": seconds} | ({} if milliseconds is None else {"Retry-After-Ms": milliseconds})
    pause = retry_after(headers, NOW)
    assert pause is None or timedelta(0) <= pause <= LONGEST


@pytest.mark.parametrize(
    ("text", "pause"),
    [
        ("7", timedelta(seconds=7)),
        (" 7 ", timedelta(seconds=7)),
        ("0.5", timedelta(seconds=0.5)),
        ("0", timedelta(0)),
        ("-3", timedelta(0)),
        ("3600", LONGEST),
        ("2592000", LONGEST),
        ("999999999999", LONGEST),
        ("9" * 5000, LONGEST),
        ("1e400", LONGEST),
        ("Mon, 04 May 2026 14:01:30 GMT", timedelta(seconds=90)),
        ("Mon, 04 May 2026 16:01:30 +0200", timedelta(seconds=90)),
        ("Mon, 04 May 2026 14:01:30 -0000", timedelta(seconds=90)),
        ("Mon May  4 14:01:30 2026", timedelta(seconds=90)),
        ("Wed, 21 Oct 2015 07:28:00 GMT", timedelta(0)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST),
        ("Mon, 04 May 2026 14:01:30 +99999999999999999999", None),
        ("nan", None),
        ("soon", None),
        ("", None),
    ],
)
def test_forms(text: str, pause: timedelta | None) -> None:
    """Seconds and the three forms of a date are read, up to an hour; what is neither asks for nothing."""
    assert pause == retry_after({"Retry-After": text}, NOW)


def test_milliseconds_go_first() -> None:
    """The finer header counts, unless it cannot be read."""
    assert timedelta(milliseconds=250) == retry_after({"retry-after-ms": "250", "retry-after": "1"}, NOW)
    assert timedelta(seconds=1) == retry_after({"retry-after-ms": "nan", "retry-after": "1"}, NOW)


def test_kinds_of_headers() -> None:
    """Names are read in any case, from a mapping and from the message of http.client; no header asks for nothing."""
    message = Message()
    message["RETRY-AFTER"] = "5"
    assert timedelta(seconds=5) == retry_after(message, NOW) == retry_after({"Retry-After": "5"}, NOW)
    assert retry_after({"Date": "7"}, NOW) is None


def test_a_lower_limit() -> None:
    """A caller that can try more often says so."""
    assert timedelta(minutes=10) == retry_after({"Retry-After": "3000"}, NOW, longest=timedelta(minutes=10))


@given(
    attempt=st.integers(min_value=-1, max_value=10**6),
    first=_PAUSES,
    longest=_PAUSES,
    at_least=st.none() | st.timedeltas(),
    random=st.none() | st.floats(min_value=0, max_value=1, exclude_max=True),
)
def test_any_pause(
    attempt: int, first: timedelta, longest: timedelta, at_least: timedelta | None, random: float | None
) -> None:
    """A pause is never negative, never above the longest, and no shorter than what was asked for up to there."""
    source = None if random is None else lambda: random
    pause = backoff(attempt, first=first, longest=longest, at_least=at_least, random=source)
    assert min(at_least or timedelta(0), longest) <= pause <= longest
    assert pause >= timedelta(0)


def test_pauses_double() -> None:
    """From the first on each is twice the last, up to the longest, after however many failures."""
    pauses = [backoff(n, first=timedelta(seconds=15), longest=LONGEST).total_seconds() for n in range(1, 10)]
    assert [15, 30, 60, 120, 240, 480, 960, 1920, 3600] == pauses
    assert [LONGEST] * 3 == [backoff(n, first=timedelta(microseconds=1), longest=LONGEST) for n in (44, 1000, 10**9)]


def test_pauses_are_spread() -> None:
    """Those who failed together come back between 80 and 120 % of the pause, and never before they were asked to."""
    ten, minute = timedelta(seconds=10), timedelta(minutes=1)
    assert timedelta(seconds=8) == backoff(1, first=ten, longest=minute, random=lambda: 0.0)
    assert timedelta(seconds=11) == backoff(1, first=ten, longest=minute, random=lambda: 0.75)
    assert ten == backoff(1, first=ten, longest=minute, at_least=ten, random=lambda: 0.0)


def _modules() -> Iterator[tuple[str, str]]:
    for root in ("monitor", "collectors"):
        for path in sorted((_ROOT / root).rglob("*.py")):
            yield path.relative_to(_ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_headers_are_read_in_one_place() -> None:
    """No other module names the header but the one that sends it."""
    naming = {name for name, text in _modules() if re.search(r"[\"']retry-after", text, re.IGNORECASE)}
    assert {"collectors/otlp_http/reply.py", "monitor/retry.py"} == naming


_PAUSE = re.compile(r"pause|wait|backoff|retry|rest|break|delay|second", re.IGNORECASE)


def _doubled(tree: ast.AST) -> Iterator[str]:
    """Yield each expression in which a pause is multiplied by two, or by a power of two."""
    for node in ast.walk(tree):
        match node:
            case ast.AugAssign(op=ast.Mult()) | ast.BinOp(op=ast.Mult() | ast.Pow()):
                text = ast.unparse(node)
                if re.search(r"\b2(\.0)?\b", text) and _PAUSE.search(text):
                    yield text


def test_pauses_grow_in_one_place() -> None:
    """No other module doubles a pause."""
    expressions = {name: list(_doubled(ast.parse(text))) for name, text in _modules()}
    assert {} == {name: found for name, found in expressions.items() if found and name != "monitor/retry.py"}


@pytest.mark.parametrize(
    "line", ["pause = min(pause * 2, x)", "wait *= 2", "backoff * 2 ** (n - 1)", "f(2 * pause)", "_PAUSE * 2.0 ** n"]
)
def test_what_doubling_looks_like(line: str) -> None:
    """The forms in which modules doubled their own pauses are recognized."""
    assert list(_doubled(ast.parse(line)))
