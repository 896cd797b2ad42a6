"""The lines of our log: times in UTC, a record a line as text or as JSON, and nothing of what users or secrets say.

Messages of errors that are not ours may hold both, so of those a log shows the type and where they were raised.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal, TypeAlias

import orjson

from monitor.errors import MonitorError, without_credentials

Format: TypeAlias = Literal["text", "json"]

_log = logging.getLogger(__name__)

_QUIETER = {"kafka": logging.CRITICAL, "apscheduler": logging.ERROR, "grpc": logging.CRITICAL}
"""Libraries that log again and again what we tell once or count. kafka-python has a line for every try at a broker that
is gone, and puts whole requests into some; the scheduler has one for every tick that is not started, which is
`tick_skipped_total`; gRPC has a trace for every call whose client is gone before the answer."""
_VALUES_BELOW = frozenset(("asyncio",))
"""Loggers whose messages go on with values in further lines, such as a task with the message of its error."""
_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


def configure_logging(level: str, form: Format = "text") -> None:
    """Log to standard error, one line a record; foreign libraries only from WARNING up, some from higher."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for ours in ("monitor", "collectors"):
        logging.getLogger(ours).setLevel(level)
    for library, least in _QUIETER.items():
        logging.getLogger(library).setLevel(least)
    threading.excepthook = _show_fault_of_thread
    # gRPC's C library, loaded after this, writes to standard error itself: in its own form, as often as clients please.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if form == "json":
        logging.captureWarnings(capture=True)


class TextLines(logging.Formatter):
    """A line for people: `2026-11-30T13:20:00.123Z WARNING monitor.runtime.intake: ...`; traces are indented below."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = f"{_time(record)} {record.levelname} {record.name}: {_message(record)}"
        return "\n  ".join((line, *_trace(record).splitlines()))


class JsonLines(logging.Formatter):
    """An object a line: `time`, `level`, `logger`, `message`, and where there are any `fields` and `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if fields := dict(_fields(record)):
            line["fields"] = fields
        if raised := _trace(record):
            line["exception"] = raised
        return orjson.dumps(line).decode()


def trace(error: BaseException) -> str:
    """Return where an error and its causes were raised, the latest last; the messages of our own errors alone.

    >>> trace(KeyError("secret"))
    'KeyError'
    """
    parts = []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        parts.append(f"{trace(cause)}\nwhich led to:")
    parts += [line.rstrip("\n") for line in traceback.format_tb(error.__traceback__)]
    name = type(error).__name__
    parts.append(f"{name}: {without_credentials(str(error))}" if isinstance(error, MonitorError) else name)
    if isinstance(error, BaseExceptionGroup):
        parts += [f"of which one is:\n{trace(one)}" for one in error.exceptions]
    return "\n".join(parts)


def show_fault(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    """Write an error that nobody caught to standard error, as `sys.excepthook` does; without foreign messages."""
    sys.stderr.write(f"rag-monitor: a fault of ours: {kind.__name__}\n{trace(error.with_traceback(frames))}\n")


def _show_fault_of_thread(fault: threading.ExceptHookArgs) -> None:
    name = fault.thread.name if fault.thread else "unknown"
    _log.error("a fault of ours ended the thread %s", name, exc_info=fault.exc_value)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    try:
        message = record.getMessage()
    except (TypeError, ValueError):
        # Of a library that counts its arguments wrongly; those are not shown.
        message = str(record.msg)
    if record.name in _VALUES_BELOW:
        message = message.partition("\n")[0]
    return _one_line(without_credentials(message))


def _one_line(text: str) -> str:
    """Return the text with what would begin or fake a line written as an escape; half characters likewise."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown.encode("utf-8", "backslashreplace").decode()


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, str | int | float | bool | None]]:
    """Yield what the record says besides its message; values that are no JSON scalar are left out."""
    for name, value in vars(record).items():
        if name in _OF_EVERY_RECORD:
            continue
        if isinstance(value, str):
            yield name, _one_line(without_credentials(value))
        elif value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 2**63):
            yield name, value


def _trace(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    return trace(error) if error is not None else ""
