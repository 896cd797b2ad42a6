"""What signals do: SIGTERM and SIGINT end the process, at the latest after a while; SIGHUP does nothing.

They are taken by a thread of their own, so that they work while the loop or the database hangs.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta

log = logging.getLogger(__name__)

_NOT_IN_ORDER = 1
_TAKEN = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))


def take_signals(stop: Callable[[], object], *, within: timedelta) -> None:
    """Have the first SIGTERM or SIGINT call `stop` from another thread, and end the process `within` that time.

    A second one ends it at once. To be called by the main thread before it starts others: they inherit what it blocks.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _TAKEN)
    threading.Thread(target=_watch, args=(stop, within), name="signals", daemon=True).start()


def _watch(stop: Callable[[], object], within: timedelta) -> None:
    _next_end()
    message = f"not ended within {within}: something hangs; what was under way is left to others or to the next start"
    limit = threading.Timer(within.total_seconds(), _end, args=(message,))
    limit.daemon = True
    limit.start()
    stop()
    _next_end()
    _end("told to end a second time: what is under way is left to others or to the next start")


def _next_end() -> None:
    """Wait for a signal that ends us."""
    while signal.sigwait(_TAKEN) == signal.SIGHUP:
        log.info("SIGHUP: settings are read at a start only; files of keys and certificates whenever they change")


def _end(message: str) -> None:
    log.error(message)
    logging.shutdown()
    # Threads that wait for a database that hangs cannot be ended otherwise.
    os._exit(_NOT_IN_ORDER)
