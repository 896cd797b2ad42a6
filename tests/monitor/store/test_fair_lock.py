"""A lock that is handed on in order of arrival."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

from deadline import wait_until

from monitor.store.fair_lock import FairLock

LONG = timedelta(seconds=10)


def test_in_order_of_arrival() -> None:
    """Threads pass in the order in which they came."""
    lock, passed = FairLock(), []

    def go_through(number: int) -> None:
        with lock.holding(LONG) as entered:
            passed.append((number, entered))

    threads = [threading.Thread(target=go_through, args=(number,)) for number in range(8)]
    with lock.holding(LONG):
        for number, thread in enumerate(threads):
            thread.start()
            wait_until(lambda: len(lock._queue) == number + 1, "the thread to queue", seconds=5)  # noqa: B023, SLF001 -- in turn; nobody else may look
    for thread in threads:
        thread.join()
    assert [(number, True) for number in range(8)] == passed


def test_out_of_patience() -> None:
    """Who waits longer than their patience is told so, and holds up nobody behind them."""
    lock = FairLock()
    with lock.holding(LONG), lock.holding(timedelta(milliseconds=10)) as entered:
        assert entered is False
    with lock.holding(timedelta(0)) as entered:
        assert entered is True


def test_left_by_exception() -> None:
    """Who leaves by an exception has left."""
    lock = FairLock()
    with suppress(KeyError), lock.holding(LONG):
        {}["missing"]
    with lock.holding(timedelta(0)) as entered:
        assert entered is True


def test_one_at_a_time() -> None:
    """However many and however impatient, never are two through at once, and in the end it is free."""
    lock, inside, seen = FairLock(), [0], []

    def go_through(number: int) -> None:
        for _ in range(50):
            with lock.holding(timedelta(microseconds=number * 200)) as entered:
                if entered:
                    inside[0] += 1
                    seen.append(inside[0])
                    inside[0] -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(go_through, range(8)))
    assert {1} == set(seen)
    with lock.holding(timedelta(0)) as entered:
        assert entered is True
