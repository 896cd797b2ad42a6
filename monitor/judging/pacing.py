"""A judge whose callers rest together: when the endpoint asks one of them for a pause, none asks before it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

from monitor.errors import RateLimited
from monitor.model import ChatMessage, Reply
from monitor.ports import Judge

_FIRST_PAUSE = timedelta(seconds=2)
_LONGEST_PAUSE = timedelta(minutes=5)


class PacedJudge:
    """A judge that waits out pauses of up to `patience`, and hands longer ones on as `RateLimited`.

    Waiting here rather than giving the job back keeps a busy endpoint from using up a job's attempts.
    """

    def __init__(self, judge: Judge, *, patience: timedelta) -> None:
        self._judge = judge
        self._patience = patience.total_seconds()
        self._until = 0.0
        self._unhinted = 0
        self.pauses = 0
        """How often the endpoint asked for a pause."""

    @property
    def name(self) -> str:
        """The judge's own."""
        return self._judge.name

    @property
    def resting(self) -> timedelta:
        """How long nobody should ask; zero when the endpoint is free."""
        return timedelta(seconds=max(self._until - asyncio.get_running_loop().time(), 0.0))

    async def ask(
        self, messages: Sequence[ChatMessage], schema: Mapping[str, object] | None, *, max_output_tokens: int
    ) -> Reply:
        """Return the judge's reply, after the pause and however many more it asks for within the patience.

        Raises:
            RateLimited: the pause would be longer; `retry_after` is what is left of it.
            Retryable, Rejected: as the judge raises them.
        """
        give_up = asyncio.get_running_loop().time() + self._patience
        while True:
            await self._rest(give_up)
            try:
                reply = await self._judge.ask(messages, schema, max_output_tokens=max_output_tokens)
            except RateLimited as error:
                self._pause(error.retry_after)
                continue
            self._unhinted = 0
            return reply

    async def _rest(self, give_up: float) -> None:
        while resting := self.resting:
            if self._until > give_up:
                raise RateLimited(f"asking {self.name}: it rests", retry_after=resting)
            await asyncio.sleep(resting.total_seconds())

    def _pause(self, hint: timedelta | None) -> None:
        self.pauses += 1
        if hint is None:
            hint = min(_FIRST_PAUSE * 2**self._unhinted, _LONGEST_PAUSE)
            self._unhinted += 1
        self._until = max(self._until, asyncio.get_running_loop().time() + hint.total_seconds())
