"""One connection: uvicorn's, within limits on size, number and time that httptools does not have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Literal

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

if TYPE_CHECKING:
    import uvicorn
    from uvicorn.server import ServerState

    from monitor.http_server.limits import Limits

_PROGRESS = 4 * 1024
"""Bytes of a body that count as progress: who sends a byte now and then makes none."""
_FREE_PIECES, _SMALLEST_PIECE = 1000, 64
"""Pieces of a body, and bytes that each more must have on average: one of a byte takes as long as one of thousands."""
_CHUNK_OVERHEAD = 32
"""Bytes around one chunk of a body that are not taken for a part of a head."""
_MOST_REST = 32 * 1024 * 1024
"""Bytes of a body that are let pass after the reply, for clients that read none before they have sent all."""
_MOST_WAITING = 16
"""Requests that a client may send ahead of the reply to the one before them."""
_PATIENCE = 1.0
"""Seconds without progress after which a connection may have to give way; before its first request it may at once."""
_CLOSING_SECONDS = 5.0

Refusal = Literal[
    "head_too_large", "not_http", "small_chunks", "slow_head", "slow_rest", "slow_reader", "too_far_ahead"
]
_ANSWERS: dict[Refusal, tuple[int, str]] = {
    "head_too_large": (431, "the head of a request is longer, or has more fields, than is allowed"),
    "not_http": (400, "what was sent is not HTTP/1.1"),
    "small_chunks": (400, "a body came in thousands of pieces of a few bytes"),
    "slow_head": (408, "the head of a request did not arrive in time"),
}
_TEXTS: dict[Refusal, str] = {
    **{refusal: text for refusal, (_, text) in _ANSWERS.items()},
    "slow_rest": "the rest of a request that is answered already did not end",
    "slow_reader": "a reply was not taken in time",
    "too_far_ahead": f"more than {_MOST_WAITING} requests came without waiting for a reply",
}


class _TooMuchError(Exception):
    """Ends the parsing."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal: Refusal = refusal


class _Flow(FlowControl):
    """Reads nothing while requests wait; uvicorn reads on as soon as the one before them is looked at."""

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        """Read on, if no request waits."""
        if not self._waiting:
            super().resume_reading()


class Connection(HttpToolsProtocol):
    """Speaks HTTP/1.1 with one client.

    Args:
        config: uvicorn's.
        state: uvicorn's, shared by the connections of a server.
        limits: what it may hold.
        progressed: called when a request was answered.
        refused: called with why, and a text for the log, when it is ended because of what the client did.
        lost: called when it is gone.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        limits: Limits,
        *,
        progressed: Callable[[], None],
        refused: Callable[[str, str], None],
        lost: Callable[[], None],
    ) -> None:
        super().__init__(config=config, server_state=state, app_state={}, _loop=asyncio.get_running_loop())
        self._limits = limits
        self._progressed, self._refused, self._lost = progressed, refused, lost
        self._part: Literal["between", "head", "body"] = "between"
        self._around = 0
        """Bytes since the last message that are no body's."""
        self._head = self._fields = self._rest = self._piece = self._pieces = self._body = 0
        now = self.loop.time()
        self._part_since: float | None = now
        """When a head began that is not here yet; when the reply was sent, in a body that goes on. Else None."""
        self._unread_since: float | None = None
        self._closing_since: float | None = None
        self.progress_at = now
        """The loop's time of the last progress, or of the beginning."""

    def may_give_way(self, now: float) -> bool:
        """Return whether it has done nothing for so long that somebody else may have its place."""
        cycle = self._latest
        # What we do not read, or do not answer yet, is our own slowness.
        at_work = cycle is not None and not cycle.response_complete and (self.flow.read_paused or not cycle.more_body)
        return not at_work and (cycle is None or now - self.progress_at >= _PATIENCE)

    def give_way(self) -> None:
        """Close, for somebody else."""
        if self.transport is not None:
            self.transport.abort()

    def look(self, now: float) -> None:
        """End it when a time is over."""
        limits = self._limits
        if self.transport.is_closing():
            self._closing_since = self._closing_since or now
            if now - self._closing_since > _CLOSING_SECONDS:
                self.transport.abort()
        elif self._unread_since is not None and now - self._unread_since > limits.rest_timeout.total_seconds():
            self._end("slow_reader")
        elif self._part_since is None:
            return
        elif self._part == "body":
            if now - self._part_since > limits.rest_timeout.total_seconds():
                self._end("slow_rest")
        elif now - self._part_since > limits.head_timeout.total_seconds():
            if self._part == "between":
                self.transport.close()
            else:
                self._refuse("slow_head")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Keep the transport."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self.pipeline)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell uvicorn, and the door."""
        super().connection_lost(exc)
        self._lost()

    def data_received(self, data: bytes) -> None:
        """Parse, within the limits."""
        self._unset_keepalive_if_required()
        self._around += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._refuse(cause.refusal if isinstance(cause, _TooMuchError) else "not_http")
            return
        if self._around > self._limits.max_head:
            self._refuse("head_too_large")
        elif self._part == "between" and self._around and self._part_since is None:
            self._part_since = self.loop.time()

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._unread_since = self.loop.time()

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        self._unread_since = None

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        self._part, self._part_since = "head", self.loop.time()
        self._head = self._fields = self._rest = self._pieces = self._body = 0

    def on_url(self, url: bytes) -> None:
        """A piece of the request's path."""
        self._count(len(url), fields=0)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head, or of a body's trailers, which nobody here reads."""
        self._count(len(name) + len(value) + 4, fields=1)
        if self._part == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is here."""
        if self.parser.should_upgrade():
            return
        self._part, self._part_since = "body", None
        super().on_headers_complete()
        if len(self.pipeline) > _MOST_WAITING:
            raise _TooMuchError("too_far_ahead")

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._around -= len(body) + _CHUNK_OVERHEAD
        self._pieces += 1
        self._body += len(body)
        if self._pieces > _FREE_PIECES + self._body // _SMALLEST_PIECE:
            raise _TooMuchError("small_chunks")
        self._piece += len(body)
        if self._piece >= _PROGRESS:
            self._piece = 0
            self.progress_at = self.loop.time()
        if self.cycle.response_complete:
            self._rest += len(body)
            if self._rest > _MOST_REST and not self.transport.is_closing():
                self._end("slow_rest")
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is here."""
        if self.parser.should_upgrade():
            return
        self._part, self._part_since, self._around = "between", None, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is answered."""
        self.progress_at = self.loop.time()
        self._progressed()
        if self._part == "body":
            self._part_since = self.loop.time()
        super().on_response_complete()

    @property
    def _latest(self) -> RequestResponseCycle | None:
        """The latest request; uvicorn's type does not say that there is none at first."""
        return self.cycle

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._read_again_without_the_offer()
                data = data[upgrade.args[0] :]
            else:
                return

    def _read_again_without_the_offer(self) -> None:
        """Parse the head once more, as that of a request in HTTP/1.1.

        Java's client offers HTTP/2 by default (`Upgrade: h2c`), which a server may pass over (RFC 9110, 7.8). httptools
        takes all after such a head for the other protocol, the body with it.
        """
        if self.parser.get_method() == b"CONNECT":
            raise httptools.HttpParserInvalidMethodError("no proxy")
        head = [self.parser.get_method(), b" ", self.url, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            if name not in {b"upgrade", b"http2-settings", b"connection"}:
                head += [name, b": ", value, b"\r\n"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(b"".join((*head, b"\r\n")))

    def _count(self, size: int, *, fields: int) -> None:
        self._head += size
        self._fields += fields
        if self._head > self._limits.max_head or self._fields > self._limits.max_fields:
            raise _TooMuchError("head_too_large")

    def _refuse(self, refusal: Refusal) -> None:
        """Answer where no other answer is due on this connection, and close."""
        cycle = self._latest
        answered = cycle is None or cycle.response_complete
        if answered or (self._part == "body" and not self.pipeline and not self.cycle.response_started):
            status, text = _ANSWERS[refusal]
            head = (
                f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(STATUS_LINE[status] + head.encode() + text.encode())
            self.transport.close()
            self._refused(refusal, _TEXTS[refusal])
        else:
            self._end(refusal)

    def _end(self, refusal: Refusal) -> None:
        self.transport.abort()
        self._refused(refusal, _TEXTS[refusal])
