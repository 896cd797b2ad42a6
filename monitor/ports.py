"""What the parts ask of each other; `monitor.stores` is what they ask of the store. Read it after `monitor/model/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

from monitor.model.judgements import ChatMessage, ChatRequest, Finding, Reason, Reply, Rubric
from monitor.model.spans import Decoded, Fragment, Role, Span, Step
from monitor.model.trends import Alert
from monitor.model.turns import Turn

Clock: TypeAlias = Callable[[], datetime]
"""Returns the current aware UTC instant: the wall clock, or event time in `replay`, `demo` and tests."""

GoOn: TypeAlias = Callable[[], bool]
"""Whether a tick may begin another piece of its work: not when it took its time, nor when the process is to end."""


def to_the_end() -> bool:
    """Let a tick do all that there is to do; a `GoOn`."""
    return True


Decoder: TypeAlias = Callable[[Fragment], Decoded]
"""Reads a fragment's payload. Never raises for what a sender can send: unreadable records are counted."""


# Capture


class Sink(Protocol):
    """Where collectors put what they accepted."""

    async def put(self, fragments: Sequence[Fragment]) -> None:
        """Return when all of `fragments` are on disk; otherwise raise and have kept none of them.

        Raises:
            Overloaded: too much is waiting; retry later.
            StoreUnavailable: the database cannot be written; retry later.
        """


class Collector(AbstractAsyncContextManager["Collector"], Protocol):
    """One source. Entered: it accepts. Exited: nothing it accepted is unanswered. docs/extending.md shows one.

    Some have `stats()`, too: see `monitor.runtime.collector_metrics`.
    """

    def health(self) -> Mapping[str, str]:
        """Return what is wrong now, as problem -> short reason free of user text; empty when all is well."""


@runtime_checkable
class Listening(Protocol):
    """A collector that others connect to."""

    @property
    def address(self) -> tuple[str, int] | tuple[str]:
        """Host and port, or the path of a Unix socket; known once it is entered."""


@runtime_checkable
class Entrance(Protocol):
    """A collector that says who may connect to it."""

    def entrance(self) -> str:
        """Return where it listens, or will, whether that is encrypted, and who may come in: one line for people."""


class Dialect(Protocol):
    """One telemetry convention. Pure; its methods see one span at a time. docs/extending.md shows one."""

    @property
    def name(self) -> str:
        """Its file's name, or its entry point's; turns carry it."""

    @property
    def priority(self) -> int:
        """From 0. Of several dialects that claim a span, the one with the lowest reads it."""

    def claims(self, span: Span) -> bool:
        """Return whether this convention describes the span. Asked about every span; quick, and never raises."""

    def role(self, span: Span) -> Role:
        """Return what a claimed span does, without reading its content; `read` may still find it to be noise."""

    def read(self, span: Span) -> Step:
        """Translate a claimed span. Never raises for what a span can hold: odd values are left out and flagged."""


# Judging


class Metric(Protocol):
    """What is measured. Pure."""

    @property
    def rubric(self) -> Rubric:
        """What the other stages must know of this metric."""

    @property
    def call(self) -> str:
        """Metrics of equal `call` ask the same of a turn and are read out of one reply; "" when computed in code."""

    def messages(self, turn: Turn) -> tuple[ChatMessage, ...]:
        """Return what to ask the judge; empty when the metric is computed in code."""

    @property
    def schema(self) -> Mapping[str, object] | None:
        """The JSON schema of the reply in OpenAI's `json_schema` form (`name`, `strict`, `schema`); None for text."""

    @property
    def max_output_tokens(self) -> int:
        """The budget for one reply; 0 when the metric is computed in code."""

    def read(self, turn: Turn, reply: Reply | None) -> Finding | Reason:
        """Return what the reply says (None when `messages` was empty), or why the turn cannot be scored.

        Raises:
            UnreadableReply: the reply is not what was asked for; asking again may help.
        """


class TurnScorer(Protocol):
    """A metric of your own, computed in code: what an entry point of the group `rag_monitor.metrics` leads to."""

    @property
    def rubric(self) -> Rubric:
        """Its name (the entry point's), needs and scale.

        `rubric_id` changes whenever a score could: scores of two ids are two series.
        """

    def score(self, turn: Turn) -> Finding | Reason:
        """Return the finding, or why the turn has no score. Pure and quick: it is called for every sampled turn."""


class Judge(Protocol):
    """A model that answers."""

    @property
    def name(self) -> str:
        """Endpoint kind and model as configured; part of every rubric id."""

    @property
    def max_prompt_tokens(self) -> int | None:
        """About how many tokens a prompt may have; None when only the endpoint knows."""

    async def ask(self, request: ChatRequest) -> Reply:
        """Return the model's reply, complete or marked by `finish_reason` or `refusal` as not.

        Raises:
            RateLimited: pause for `retry_after`.
            Unusable: whatever is asked is refused until a person acts.
            Retryable: time-out, broken transport, 5xx.
            Rejected: the endpoint refuses this request for good (`content_filter`, `context_length`, `rejected`).
        """


class Endpoint(Judge, AbstractAsyncContextManager["Endpoint"], Protocol):
    """A judge that holds connections while it is entered."""

    @property
    def model(self) -> str:
        """The model as configured."""


class Proxy(Protocol):
    """The cheap score that every turn gets."""

    version: str

    def score(self, turn: Turn) -> float | None:
        """Return how much of the answer its documents cover, in [0, 1]; None when the proxy does not apply."""


# Telling people


class Channel(Protocol):
    """Somewhere alerts are sent. Retrying is not its business."""

    async def send(self, alert: Alert) -> None:
        """Return when the other side has taken the alert.

        Raises:
            Retryable: try again, after `retry_after` if given.
            Permanent: this will not be taken unless somebody changes the other side; it is tried again, more rarely.
        """

    async def check(self) -> None:
        """Return when the other side can be reached; sends no alert.

        Raises:
            Retryable, Permanent: as `send`.
        """


class Publisher(Protocol):
    """Dashboards and annotations."""

    async def provision(self) -> None:
        """Make the dashboards exist as shipped; doing it again changes nothing."""

    async def annotate(self, alert: Alert) -> None:
        """Mark the alert's onset, and its end once it is resolved; doing it again changes nothing."""
