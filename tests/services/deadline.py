"""Waiting on a condition with a deadline, so that no test sleeps and none hangs."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_INTERVAL_SECONDS = 0.02


def wait_until(condition: Callable[[], T], what: str, *, seconds: float) -> T:
    """The first true value of `condition`, asked every 20 ms and at least once.

    Raises:
        TimeoutError: `condition` stayed false for `seconds`; the message says `what` was awaited.
    """
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() >= end:
            raise TimeoutError(f"waiting for {what}: still false after {seconds:g} s")
        time.sleep(_INTERVAL_SECONDS)
    return value
