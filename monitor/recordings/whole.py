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
from monitor.recordings.sources import EXPECTED, is_lines, once, signal_of, told


def files(path: Path) -> tuple[Path, ...]:
    """Return the files that `portions` would read, in order.

    Raises:
        ConfigError: there is no such path, or nothing in it that can be read.
    """
    if path.is_file():
        if not (signal_of(path) or is_lines(path)):
            raise ConfigError(f"{path}: unknown kind of file; expected {EXPECTED}")
        return (path,)
    if not path.is_dir():
        raise ConfigError(f"{path}: no such file or folder")
    there = tuple(p for p in path.iterdir() if p.is_file())
    bodies = once(p for p in there if signal_of(p))
    found = bodies or once(p for p in there if is_lines(p))
    if not found:
        raise ConfigError(f"{path}: nothing to read; expected {EXPECTED}")
    return found


def portions(path: Path, *, app: str, started_at: datetime) -> Iterator[Portion]:
    """Yield everything in `path`; what cannot be read is told in `bad` and `complaints` and loses nothing else.

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
            for portion in _once(source, app=app, now=now):
                now = max(now, portion.latest) if portion.latest else now
                yield portion
        except Permanent as error:
            yield Portion(name=told(source), bad={error.reason: 1}, complaints=(f"{told(source)}: {error}",))
        except OSError as error:
            why = f"{told(source)}: cannot be read: {error.strerror or type(error).__name__}"
            yield Portion(name=told(source), bad={"unreadable_file": 1}, complaints=(why,))


def _once(source: Path, *, app: str, now: datetime) -> Iterator[Portion]:
    if signal_of(source):
        yield contents.body(source, now=now, dating=by_event_time)
        return
    steps = contents.lines(source, since=Place(), ended=True, app=app, clock=lambda: now, dating=by_event_time)
    for step in steps:
        yield step.portion
