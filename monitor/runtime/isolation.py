"""Plug-ins of other distributions behind a guard: what they do wrong costs one trace, message or look, and is counted.

A dialect that raises, or returns what it must not, costs the trace; a channel, one attempt at one message; a collector
at work, what it tells of itself. (A metric costs one turn: the scorer sees to that for every metric.) The log has a
line for each place of failure, once: type and place, since a message may hold what a user wrote.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, is_dataclass, replace
from datetime import timedelta
from threading import Lock
from typing import Protocol, TypeVar

from monitor.errors import FAULTS, ConfigError, MonitorError, Permanent, PluginFailed, Retryable, cause_at_start, place
from monitor.extract.convention import Convention
from monitor.model.spans import Fragment, Role, Span, Step
from monitor.model.trends import Alert
from monitor.plugin_contract import wrong_field
from monitor.ports import Channel, Collector, Dialect, Sink
from monitor.runtime.collector_metrics import Counting, gauges
from monitor.telemetry import Gauge

T = TypeVar("T")

log = logging.getLogger(__name__)

_TRACE_ID, _REASON = re.compile(r"[0-9a-f]{32}"), re.compile(r"[a-z][a-z0-9_]{0,62}")


class PluginFailures:
    """How often the plug-ins of this process failed, by kind and name; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[tuple[str, str], int] = {}
        self._logged: set[tuple[str, str, str]] = set()
        self._bringers: dict[tuple[str, str], str] = {}

    def watch(self, kind: str, name: str, brought_by: str) -> None:
        """Report this plug-in from now on, with 0 failures; `brought_by` is said of it, as by `plugins.brought_by`."""
        with self._lock:
            self._counts.setdefault((kind, name), 0)
            self._bringers[kind, name] = brought_by

    def is_foreign(self, kind: str, name: str) -> bool:
        """Return whether another distribution brings it; ours say themselves which part they are."""
        return (kind, name) in self._bringers

    def title(self, kind: str, name: str) -> str:
        """Return what people are told of a plug-in by: kind, name and who brings it; without the last for ours.

        >>> failures = PluginFailures()
        >>> failures.watch("channel", "on_call", "acme_rag.channel of acme-rag")
        >>> failures.title("channel", "on_call")
        "channel 'on_call' (acme_rag.channel of acme-rag)"
        """
        by = f" ({self._bringers[kind, name]})" if self.is_foreign(kind, name) else ""
        return f"{kind} {name!r}{by}"

    def failed(self, kind: str, name: str, problem: str) -> PluginFailed:
        """Count a failure and return the error to raise; `problem` is free of user text, and logged when it is new."""
        with self._lock:
            self._counts[kind, name] = self._counts.get((kind, name), 0) + 1
            is_new = (kind, name, problem) not in self._logged
            self._logged.add((kind, name, problem))
        if is_new:
            title = self.title(kind, name)
            log.error("plug-in failed: %s: %s; counted in rag_monitor_plugin_failed_total", title, problem)
        return PluginFailed(kind, name, problem)

    def counters(self) -> tuple[Gauge, ...]:
        """Return the totals of `plugin_failed`."""
        with self._lock:
            counts = tuple(self._counts.items())
        return tuple(
            Gauge(name="plugin_failed", value=n, labels={"kind": kind, "name": name}) for (kind, name), n in counts
        )


def guarded_dialect(dialect: Dialect, failures: PluginFailures, *, brought_by: str) -> Convention:
    """Return the dialect with every call of it guarded; a `Convention` keeps all that it says of itself.

    Its calls raise `PluginFailed` and nothing else.
    """
    failures.watch("dialect", dialect.name, brought_by)

    def guarded(method: str, call: Callable[[Span], T], problem_of: Callable[[T], str | None]) -> Callable[[Span], T]:
        def attempt(span: Span) -> T:
            try:
                answer = call(span)
                problem = problem_of(answer)
            except FAULTS as error:  # anybody's code
                raise failures.failed("dialect", dialect.name, f"{method} raised {place(error)}") from None
            if problem:
                raise failures.failed("dialect", dialect.name, f"{method} returned a wrong {problem}")
            return answer

        return attempt

    convention = (
        dialect
        if isinstance(dialect, Convention)
        else Convention(
            name=dialect.name,
            priority=dialect.priority,
            url="",
            versions="",
            claims=dialect.claims,
            role=dialect.role,
            read=dialect.read,
        )
    )
    return replace(
        convention,
        claims=guarded("claims", lambda span: bool(dialect.claims(span)), lambda _: None),
        role=guarded("role", dialect.role, _role_problem),
        read=guarded("read", dialect.read, lambda step: _step_problem(step, dialect.name)),
    )


def _role_problem(role: object) -> str | None:
    return None if isinstance(role, Role) else f"type: expected a Role, found {type(role).__name__}"


def _step_problem(step: object, name: str) -> str | None:
    if not isinstance(step, Step):
        return f"type: expected a Step, found {type(step).__name__}"
    return "dialect: expected the dialect's name" if step.dialect != name else wrong_field(step)


@dataclass(frozen=True, slots=True)
class GuardedChannel:
    """A channel that raises `Retryable`, `Permanent` or `PluginFailed`, and nothing else; satisfies `ports.Channel`."""

    channel: Channel
    name: str
    failures: PluginFailures

    async def send(self, alert: Alert) -> None:
        """Send the alert; see `ports.Channel`."""
        await self._attempt("send", self.channel.send(alert))

    async def check(self) -> None:
        """Look whether the other side can be reached; see `ports.Channel`."""
        await self._attempt("check", self.channel.check())

    async def _attempt(self, method: str, call: Awaitable[None]) -> None:
        try:
            await call
        except (Retryable, Permanent) as error:
            if problem := _wrong_error(error):
                raise self._failed(f"{method} raised a {type(error).__name__} with a wrong {problem}") from None
            raise
        except MonitorError:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancels us: the channel was cancelled by something of its own, and the others go on.
            raise self._failed(f"{method} raised CancelledError") from None
        except FAULTS as error:  # anybody's code
            raise self._failed(f"{method} raised {place(error)}") from None

    def _failed(self, problem: str) -> PluginFailed:
        return self.failures.failed("channel", self.name, problem)


def _wrong_error(error: Retryable | Permanent) -> str | None:
    """Return which attribute is not what its class says; those who forget `super().__init__` have none."""
    if isinstance(error, Retryable):
        retry_after: object = getattr(error, "retry_after", ...)
        return None if isinstance(retry_after, timedelta | None) else "retry_after: expected a timedelta or None"
    reason: object = getattr(error, "reason", None)
    is_word = isinstance(reason, str) and _REASON.fullmatch(reason)
    return None if is_word else "reason: expected a short word, lower case, digits and _"


@dataclass(frozen=True, slots=True)
class GuardedSink:
    """The sink that a collector of another distribution is given: a fragment like no other costs nobody else theirs."""

    sink: Sink
    name: str

    async def put(self, fragments: Sequence[Fragment]) -> None:
        """Put the fragments; see `ports.Sink`.

        Raises:
            PluginFailed: one is not made as `monitor.payloads` makes them; nothing was kept.
        """
        for fragment in fragments:
            if problem := _fragment_problem(fragment):
                raise PluginFailed("collector", self.name, f"put a wrong fragment: {problem}")
        await self.sink.put(fragments)


def _fragment_problem(fragment: object) -> str | None:
    if not isinstance(fragment, Fragment):
        return f"expected a Fragment, found {type(fragment).__name__}"
    if problem := wrong_field(fragment):
        return problem
    if not _TRACE_ID.fullmatch(fragment.trace_id):
        return "trace_id: expected 32 lower-case hex characters"
    if fragment.received_at.tzinfo is None:
        return "received_at: expected an aware datetime"
    if fragment.count < 1 or fragment.digest != hashlib.blake2b(fragment.payload, digest_size=16).digest():
        return "expected a count from 1 and the payload's digest"
    return None


@asynccontextmanager
async def started(name: str, collector: Collector, failures: PluginFailures) -> AsyncIterator[None]:
    """Run a collector while entered; one that fails to stop is logged, and keeps nobody else from stopping.

    Raises:
        ConfigError: it does not start.
    """
    title = failures.title("collector", name)
    try:
        await collector.__aenter__()
    except ConfigError as error:
        raise (error.at(title) if failures.is_foreign("collector", name) else error) from None
    except MonitorError:
        raise
    except FAULTS as error:  # anybody's code
        raise ConfigError(f"cannot start: {cause_at_start(error)}", where=title) from None
    try:
        yield
    finally:
        try:
            await collector.__aexit__(None, None, None)
        except FAULTS as error:  # anybody's code
            log.error("%s did not stop as it should: %s", title, place(error))  # noqa: TRY400 -- as above


_SILENT: Mapping[str, str] = {"health": "the collector failed to say how it is; the log says why"}


class Reporting(Protocol):
    """What is asked of a collector at work; some count, too (`collector_metrics.Counting`)."""

    def health(self) -> Mapping[str, str]:
        """Return what is wrong now; see `ports.Collector`."""


@dataclass(frozen=True, slots=True)
class GuardedReports:
    """What a collector at work tells of itself; failing at that is a problem of it, and nobody else's."""

    collector: Collector
    name: str
    failures: PluginFailures

    def health(self) -> Mapping[str, str]:
        """Return its problems; one more when it cannot tell them."""
        try:
            health: object = self.collector.health()
        except FAULTS as error:  # anybody's code
            self._failed("health", f"raised {place(error)}")
            return _SILENT
        if not isinstance(health, Mapping):
            self._failed("health", f"returned {type(health).__name__}; expected a mapping of problems to reasons")
            return _SILENT
        return {str(problem): str(reason) for problem, reason in health.items()}

    def stats(self) -> object:
        """Return its numbers; None when it has none or they cannot be exported."""
        if not isinstance(self.collector, Counting):
            return None
        try:
            stats: object = self.collector.stats()
            if not is_dataclass(stats):
                self._failed("stats", f"returned {type(stats).__name__}; expected a dataclass of counts")
                return None
            deque(gauges(self.name, stats), maxlen=0)
        except FAULTS as error:  # anybody's code
            self._failed("stats", f"raised {place(error)}")
            return None
        return stats

    def _failed(self, method: str, problem: str) -> None:
        self.failures.failed("collector", self.name, f"{method} {problem}")
