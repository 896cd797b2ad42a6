"""Connections of clients that showed a certificate: they last while its authority is trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class WhileTrusted(asyncio.Protocol):
    """A protocol whose client is cut off at the next byte that it sends after its authority is trusted no more.

    Args:
        inner: what is told all else.
        is_trusted: asked at each piece that arrives.
    """

    def __init__(self, inner: asyncio.Protocol, is_trusted: Callable[[], bool]) -> None:
        self._inner, self._is_trusted = inner, is_trusted
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass it on."""
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass it on, or cut the client off."""
        if self._is_trusted():
            self._inner.data_received(data)
        elif self._transport is not None:
            self._transport.abort()

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on."""
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._inner.resume_writing()
