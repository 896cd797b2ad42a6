"""Recorded telemetry and lines of turns, from files that are watched while they arrive.

A folder holds request bodies `*.traces.pb|json` and `*.logs.pb|json` (where a name exists as both, the `.pb` is read)
and `*.jsonl` files with a record a line: a turn, or an OTLP/JSON request as the OpenTelemetry Collector's file exporter
writes it (https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/). All are read in order of their names, with
`.gz` or without.

Arrivals are dated by the clock; `monitor.recordings.whole` reads files once, by event time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from pydantic import model_validator

from collectors.file.complaints import Complaints
from collectors.file.progress import FileState, Progress, is_unchanged, list_files
from monitor.errors import ConfigError, Permanent, Retryable, StoreUnavailable
from monitor.model.spans import Fragment
from monitor.ports import Clock, Sink
from monitor.recordings import contents
from monitor.recordings.contents import Portion, by_clock
from monitor.recordings.sources import printable_name, signal_of
from monitor.retry import backoff
from monitor.settings.section import Duration, Section

_log = logging.getLogger(__name__)

_SHORTEST_RETRY, _LONGEST_RETRY = timedelta(seconds=1), timedelta(seconds=30)


class Config(Section):
    """The section of a `file` collector."""

    path: Path
    """The folder to watch; its subfolders are not."""
    app: str = "imported"
    """The app's name for turns that carry none."""
    every: Duration = timedelta(seconds=2)
    """How often to look for new and grown files."""
    finished_after: Duration = timedelta(seconds=10)
    """A file counts as finished when nobody wrote to it for this long: then its last line needs no line end, and what
    still cannot be read of it is bad."""
    done: Literal["keep", "delete"] = "keep"
    """What becomes of a finished file all of which was stored; one with bad records is always kept."""

    @model_validator(mode="before")
    @classmethod
    def _present_names(cls, tree: object) -> object:
        if isinstance(tree, dict) and "settle" in tree:
            raise ValueError("settle is called finished_after now")
        return tree


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStats:
    """Counts since the collector was built, and the files it knows now."""

    stored: Mapping[str, int]
    """Spans, log records and turns made durable, by signal, counting each delivery."""
    bad: Mapping[str, int]
    """Records left out, by reason; `unreadable_file` for files that cannot be opened."""
    refused: int
    """Portions that the store did not take at once; each was tried again until it did."""
    deleted: int
    """Finished files deleted."""
    files: int
    """Files in the folder now, read or not."""


def build(config: Config, sink: Sink, clock: Clock) -> FileCollector:
    """Return the collector, not yet watching.

    Raises:
        ConfigError: there is no such folder.
    """
    if not config.path.is_dir():
        raise ConfigError(f"no folder {str(config.path)!r} to watch", where="file.path")
    return FileCollector(config, sink, clock)


class FileCollector:
    """Watches a folder. Entered: it reads. Exited: what it took from files is on disk.

    What was read is remembered in memory only: a restart reads everything again, and the store knows what it has.
    """

    def __init__(self, config: Config, sink: Sink, clock: Clock) -> None:
        self._config = config
        self._sink = sink
        self._clock = clock
        self._stop = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._files: dict[tuple[int, int], Progress] = {}
        self._complaints = Complaints(_log)
        self._problems: dict[str, str] = {}
        self._stored: Counter[str] = Counter()
        self._bad: Counter[str] = Counter()
        self._refused = self._deleted = 0

    async def __aenter__(self) -> Self:
        self._stop.clear()
        self._watching = asyncio.create_task(self._watch(), name="file")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._watching is not None:
            await self._watching

    def health(self) -> Mapping[str, str]:
        """Return `folder` while it cannot be read, and `store` while what was read cannot be stored."""
        if self._watching is not None and self._watching.done() and not self._stop.is_set():
            return {"watching": "ended by an internal error"}
        return dict(self._problems)

    def stats(self) -> FileStats:
        """Return a snapshot."""
        return FileStats(
            stored=dict(self._stored),
            bad=dict(self._bad),
            refused=self._refused,
            deleted=self._deleted,
            files=len(self._files),
        )

    async def _watch(self) -> None:
        while not self._stop.is_set():
            await self._sweep()
            self._complaints.close_minute(at=time.monotonic())
            await self._stopped_within(self._config.every)

    async def _sweep(self) -> None:
        try:
            states = await asyncio.to_thread(list_files, self._config.path)
        except OSError as error:
            self._problems["folder"] = error.strerror or type(error).__name__
            return
        self._problems.pop("folder", None)
        known = self._files
        self._files = {state.identity: self._progress(known, state) for state in states}
        for progress in tuple(self._files.values()):
            if self._stop.is_set():
                return
            at, finished_after = time.monotonic(), self._config.finished_after
            if progress.due(at, finished_after=finished_after):
                await self._read_safely(progress, ended=progress.is_quiet(at, finished_after=finished_after))
            elif self._config.done == "delete" and progress.finished(at, finished_after=finished_after):
                await self._delete(progress)

    @staticmethod
    def _progress(known: Mapping[tuple[int, int], Progress], state: FileState) -> Progress:
        progress = known.get(state.identity) or Progress(state=state, since=time.monotonic())
        progress.update(state, time.monotonic())
        return progress

    async def _read_safely(self, progress: Progress, *, ended: bool) -> None:
        """Read one file; whatever it is about this one, the others are not to wait for it."""
        name = printable_name(progress.state.path)
        try:
            await self._read(progress, ended=ended)
        except FileNotFoundError:
            return
        except OSError as error:
            if progress.mark_unreadable(time.monotonic() + _LONGEST_RETRY.total_seconds()):
                self._count("unreadable_file", f"{name}: cannot be read: {error.strerror or type(error).__name__}")
        except Exception as error:  # noqa: BLE001 -- the watcher outlives a fault of ours; the file counts as bad
            # Without its text, which may quote the file.
            self._count("internal", f"{name}: {type(error).__name__}")
            progress.is_clean = False

    async def _read(self, progress: Progress, *, ended: bool) -> None:
        await asyncio.to_thread(progress.begin)
        open_end = False
        try:
            if signal_of(progress.state.path):
                open_end = not await self._read_body(progress)
            else:
                open_end = not await self._read_lines(progress, ended=ended)
        except Permanent as error:
            open_end = not ended
            if ended:
                self._count(error.reason, f"{printable_name(progress.state.path)}: {error}")
                progress.is_clean = False
        await asyncio.to_thread(progress.end, open_end=open_end)

    async def _read_body(self, progress: Progress) -> bool:
        """Return whether that was all of the file."""
        path, now = progress.state.path, self._clock()
        portion = await asyncio.to_thread(contents.body, path, now=now, dating=by_clock)
        return await self._keep(portion, progress)

    async def _read_lines(self, progress: Progress, *, ended: bool) -> bool:
        """Return whether that was all of the file."""
        config, path = self._config, progress.state.path
        parts = contents.lines(
            path, since=progress.place, ended=ended, app=config.app, clock=self._clock, dating=by_clock
        )
        has_open_line = False
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            if not await self._keep(part.portion, progress):
                return False
            progress.place, has_open_line = part.through, part.has_open_line
        return not has_open_line

    async def _keep(self, portion: Portion, progress: Progress) -> bool:
        """Return when the portion is on disk and counted; False when we are to stop before that."""
        if portion.fragments and not await self._put(portion.fragments):
            return False
        for fragment in portion.fragments:
            self._stored[fragment.signal] += fragment.count
        self._bad.update(portion.bad)
        self._complaints.log(portion.complaints, at=time.monotonic())
        progress.is_clean = progress.is_clean and not portion.bad
        return True

    async def _put(self, fragments: tuple[Fragment, ...]) -> bool:
        attempt = 1
        while True:
            try:
                await self._sink.put(fragments)
            except Retryable as error:
                self._refused += 1
                self._problems["store"] = error.reason if isinstance(error, StoreUnavailable) else "overloaded"
                pause = error.retry_after or backoff(attempt, first=_SHORTEST_RETRY, longest=_LONGEST_RETRY)
                if await self._stopped_within(pause):
                    return False
                attempt += 1
            else:
                self._problems.pop("store", None)
                return True

    async def _delete(self, progress: Progress) -> None:
        def unlink() -> bool:
            if not is_unchanged(progress):
                return False
            progress.state.path.unlink()
            return True

        try:
            gone = await asyncio.to_thread(unlink)
        except OSError as error:
            self._complaints.log(
                (f"{printable_name(progress.state.path)}: cannot be deleted: {error.strerror}",), at=time.monotonic()
            )
            return
        if gone:
            self._deleted += 1
            self._files.pop(progress.state.identity, None)

    def _count(self, reason: str, complaint: str) -> None:
        self._bad[reason] += 1
        self._complaints.log((complaint,), at=time.monotonic())

    async def _stopped_within(self, pause: timedelta) -> bool:
        try:
            async with asyncio.timeout(pause.total_seconds()):
                await self._stop.wait()
        except TimeoutError:
            return False
        return True
