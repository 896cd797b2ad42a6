"""What signals do: SIGTERM and SIGINT end the process, at the latest after a while; SIGHUP does nothing.

They are taken by a thread of their own, so that they work while the loop or the database hangs.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import cast

log = logging.getLogger(__name__)

_NOT_IN_ORDER = 1
_TAKEN = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))


@contextmanager
def signals_taken(stop: Callable[[], object], *, within: timedelta) -> Iterator[None]:
    """Have the first SIGTERM or SIGINT call `stop` from another thread, and end the process `within` that time.

    A second one ends it at once. To be entered by the main thread before it starts others: they inherit what it blocks.
    Left by an error, signals do again what they did before: whoever called us goes on, and starts processes that would
    inherit this, too. Left in order, which only one of them brings about, the process is about to end.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TAKEN)
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(stop, within, over), name="signals", daemon=True)
    watch.start()
    try:
        yield
    except BaseException:
        over.set()
        if watch.is_alive():
            signal.pthread_kill(cast("int", watch.ident), signal.SIGHUP)
            watch.join()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise


def _watch(stop: Callable[[], object], within: timedelta, over: threading.Event) -> None:
    if not _is_told_to_end(over):
        return
    message = f"not ended within {within}: something hangs; what was under way is left to others or to the next start"
    limit = threading.Timer(within.total_seconds(), _end, args=(message,))
    limit.daemon = True
    limit.start()
    stop()
    if _is_told_to_end(over):
        _end("told to end a second time: what is under way is left to others or to the next start")


def _is_told_to_end(over: threading.Event) -> bool:
    """Wait for a signal that ends us, or until it is over."""
    while signal.sigwait(_TAKEN) == signal.SIGHUP:
        if over.is_set():
            return False
        log.info("SIGHUP: settings are read at a start only; files of keys and certificates whenever they change")
    return True


def _end(message: str) -> None:
    log.error(message)
    logging.shutdown()
    # Threads that wait for a database that hangs cannot be ended otherwise.
    os._exit(_NOT_IN_ORDER)
