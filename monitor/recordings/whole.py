"""A folder of recorded telemetry, or one file of it, read once.

Reading once takes event time for the time of arrival, so that recorded traffic settles, rolls up and alerts as it would
have then, and leaves the `.jsonl` files beside bodies alone: they are the recording's own bookkeeping.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from monitor.errors import ConfigError, Permanent
from monitor.recordings import contents
from monitor.recordings.contents import Portion, by_event_time
from monitor.recordings.lines import Place
from monitor.recordings.sources import EXPECTED, is_lines, printable_name, signal_of, without_copies


def files(path: Path) -> tuple[Path, ...]:
    """Return the files that `portions` would read, in order.

    Raises:
        ConfigError: there is no such path, or nothing in it that can be read.
    """
    if path.is_file():
        if not (signal_of(path) or is_lines(path)):
            raise ConfigError(f"unknown kind of file; expected {EXPECTED}", where=str(path))
        return (path,)
    if not path.is_dir():
        raise ConfigError("no such file or folder", where=str(path))
    present = tuple(p for p in path.iterdir() if p.is_file())
    bodies = without_copies(p for p in present if signal_of(p))
    sources = bodies or without_copies(p for p in present if is_lines(p))
    if not sources:
        raise ConfigError(f"nothing to read; expected {EXPECTED}", where=str(path))
    return sources


def portions(path: Path, *, app: str, started_at: datetime) -> Iterator[Portion]:
    """Yield everything in `path`; `bad` and `complaints` name what cannot be read, which costs nothing else.

    Args:
        path: a folder or one file.
        app: the app's name for turns that carry none.
        started_at: the event time of records that carry none, until one that does.

    Raises:
        ConfigError: as `files`.
    """
    now = started_at
    for source in files(path):
        try:
            for portion in _portions_of(source, app=app, now=now):
                now = max(now, portion.latest) if portion.latest else now
                yield portion
        except Permanent as error:
            yield _unreadable(source, error.reason, str(error))
        except OSError as error:
            yield _unreadable(source, "unreadable_file", f"cannot be read: {error.strerror or type(error).__name__}")


def _portions_of(source: Path, *, app: str, now: datetime) -> Iterator[Portion]:
    if signal_of(source):
        yield contents.body(source, now=now, dating=by_event_time)
        return
    parts = contents.lines(source, since=Place(), ended=True, app=app, clock=lambda: now, dating=by_event_time)
    for part in parts:
        yield part.portion


def _unreadable(source: Path, reason: str, message: str) -> Portion:
    name = printable_name(source)
    return Portion(name=name, bad={reason: 1}, complaints=(f"{name}: {message}",))
