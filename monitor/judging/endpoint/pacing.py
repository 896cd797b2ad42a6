"""An endpoint as all its callers see it: they keep its limits, rest when it asks, and let one try when it failed.

Waiting here rather than giving a job back keeps a busy endpoint from using up leases; what would take longer than the
patience is handed on, and is never the fault of the job that met it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta
from types import TracebackType
from typing import Self

from monitor.errors import Paused, RateLimited, Rejected, Retryable, Unusable, place
from monitor.judging.endpoint.breaker import Breaker
from monitor.judging.endpoint.limiter import Limiter
from monitor.judging.endpoint.outage import Outage
from monitor.judging.prompt.quoting import tokens
from monitor.model.judgements import ChatRequest, JudgeVersion, Reply, Spend
from monitor.ports import Endpoint
from monitor.retry import backoff

PATIENCE = timedelta(seconds=60)
"""How long a call waits for its turn before it is given up for now."""

logger = logging.getLogger(__name__)

_MOST_VERSIONS = 100
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=2), timedelta(minutes=5)
# Between requests to an endpoint that asks for pauses of no length and still answers nobody.
_SHORTEST_PAUSE, _LONGEST_FLOOR = timedelta(seconds=0.1), timedelta(seconds=30)


class PacedJudge:
    """A judge that waits out pauses of up to `patience`, and hands longer ones and trouble on at once."""

    def __init__(
        self,
        judge: Endpoint,
        *,
        patience: timedelta = PATIENCE,
        limiter: Limiter | None = None,
        breaker: Breaker | None = None,
        where: str = "judge",
    ) -> None:
        """Prepare; `where` is the endpoint's key path, by which the log tells of it."""
        self._judge = judge
        self._patience = patience.total_seconds()
        self._limiter = limiter or Limiter()
        self._breaker = breaker or Breaker()
        self._trying: asyncio.Event | None = None
        self._until = 0.0
        self._refusals = 0
        self._busy_since: float | None = None
        self._outage = Outage(where)
        self.pauses = 0
        """How often the endpoint asked for a pause."""
        self.spent = Spend()
        """What all replies together cost, also those that no verdict came of."""
        self.estimates = 0
        """Of how many replies that is an estimate, since the endpoint reported no usage."""
        self._versions: dict[JudgeVersion, None] = {}

    @property
    def name(self) -> str:
        """The judge's own."""
        return self._judge.name

    @property
    def model(self) -> str:
        """The judge's own."""
        return self._judge.model

    @property
    def max_prompt_tokens(self) -> int | None:
        """The judge's own."""
        return self._judge.max_prompt_tokens

    @property
    def versions(self) -> tuple[JudgeVersion, ...]:
        """Which models gave replies, in the order in which each was first met, up to a hundred of them."""
        return tuple(self._versions)

    @property
    def resting(self) -> timedelta:
        """How long nobody should ask; zero when the endpoint is free, or when one call may try whether it works."""
        now = _now()
        return timedelta(seconds=max(self._until - now, self._breaker.rests(now), 0.0))

    @property
    def trouble(self) -> str | None:
        """What is wrong with the endpoint, free of user text and secrets; None when all is well, or it is only busy."""
        if self._breaker.trouble:
            return self._breaker.trouble
        now = _now()
        if self._until - now > self._patience:
            return f"{self.name} asks for a pause of {self._until - now:.0f} s"
        if self._busy_since is not None and now - self._busy_since > self._patience:
            return f"{self.name} asks for pauses and answers nobody for {now - self._busy_since:.0f} s"
        return None

    async def __aenter__(self) -> Self:
        """Enter the judge."""
        await self._judge.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the judge."""
        await self._judge.__aexit__(kind, error, trace)

    async def ask(self, request: ChatRequest) -> Reply:
        """Return the judge's reply, after the pause and however many more it asks for within the patience.

        Raises:
            RateLimited: the pause would be longer; `retry_after` is what is left of it.
            Paused: the endpoint is in trouble, and it is too soon to ask again.
            Unusable, Retryable, Rejected: as the judge raises them; Retryable only while others may still be answered.
        """
        give_up = _now() + self._patience
        expected = sum(tokens(message.content) for message in request.messages) + request.max_output_tokens
        booked = False
        while True:
            await self._rest(give_up)
            if not booked:
                await self._wait_for_room(expected, give_up)
                booked = True
                continue  # much may have happened while it waited
            try:
                reply = await self._try(request)
            except Exception as error:
                self._limiter.adjust(expected, 0, _now())
                if not isinstance(error, RateLimited):
                    self._report(answered=isinstance(error, Rejected))
                    raise
                self._pause(error.retry_after)
                self._report(answered=False)
                booked = False
                continue
            self._report(answered=True)
            self._limiter.adjust(expected, reply.input_tokens + reply.output_tokens, _now())
            self.spent += Spend(
                usd=reply.cost_usd, calls=1, input_tokens=reply.input_tokens, output_tokens=reply.output_tokens
            )
            self._refusals = 0
            self._note_estimate(reply)
            if len(self._versions) < _MOST_VERSIONS:
                version = JudgeVersion(judge=self.name, model=reply.model, fingerprint=reply.fingerprint or "")
                self._versions[version] = None
            return reply

    def _note_estimate(self, reply: Reply) -> None:
        if not reply.tokens_estimated:
            return
        if not self.estimates:
            logger.warning("%s reports no usage: tokens, cost and budget are estimated from the texts", self.name)
        self.estimates += 1

    async def _try(self, request: ChatRequest) -> Reply:
        trying = self._trying = asyncio.Event() if self._breaker.trouble else None
        try:
            reply = await self._judge.ask(request)
        except RateLimited:
            self._breaker.worked()
            raise
        except Rejected as error:
            if error.reason == "rejected" and self._breaker.rejected(error, _now()):
                raise Unusable(f"{error}, as is everything else", retry_after=self.resting) from None
            if error.reason != "rejected":
                self._breaker.worked()
            raise
        except Exception as error:
            # A fault of ours or of a library, too: where every call meets it, people must hear of it as of any outage.
            failure = error if isinstance(error, Retryable) else Retryable(f"asking {self.name}: {place(error)}")
            if self._breaker.failed(failure, _now()) and not isinstance(failure, Unusable):
                raise Paused(str(failure), retry_after=self.resting) from None
            raise
        else:
            self._breaker.worked()
            return reply
        finally:
            if trying:
                self._trying = None
                trying.set()

    def _report(self, *, answered: bool) -> None:
        """Report to the log what a call met; `answered` when it was answered, if with a refusal."""
        if answered:
            self._busy_since = None
        if trouble := self.trouble:
            self._outage.goes_on(trouble, self.resting.total_seconds(), _now())
        elif answered:
            self._outage.over(_now())

    async def _rest(self, give_up: float) -> None:
        """Return when the endpoint is free, and no other call is trying whether it works."""
        while True:
            if trying := self._trying:
                try:
                    await asyncio.wait_for(trying.wait(), max(give_up - _now(), 0.0))
                except TimeoutError:
                    raise Paused(f"{self._breaker.trouble}: another call tries", retry_after=None) from None
            elif resting := self.resting:
                self._give_up(resting, give_up)
                await asyncio.sleep(resting.total_seconds())
            else:
                return

    def _give_up(self, resting: timedelta, give_up: float) -> None:
        if trouble := self._breaker.trouble:
            raise Paused(trouble, retry_after=resting)
        if _now() + resting.total_seconds() > give_up:
            raise RateLimited(f"asking {self.name}: it rests", retry_after=resting)

    async def _wait_for_room(self, expected: int, give_up: float) -> None:
        wait = self._limiter.wait(expected, _now())
        if _now() + wait > give_up:
            raise RateLimited(f"asking {self.name}: its limit is used up", retry_after=timedelta(seconds=wait))
        self._limiter.book(expected, _now())
        if wait:
            await asyncio.sleep(wait)

    def _pause(self, hint: timedelta | None) -> None:
        now = _now()
        self.pauses += 1
        if self._busy_since is None:
            self._busy_since = now
        # Calls sent side by side are refused side by side; that is one refusal, not many.
        if now >= self._until:
            self._refusals += 1
        if hint is None:
            pause = backoff(self._refusals, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE)
        else:
            pause = max(hint, backoff(self._refusals, first=_SHORTEST_PAUSE, longest=_LONGEST_FLOOR))
        self._until = max(self._until, now + pause.total_seconds())


def _now() -> float:
    # Not the loop's clock: health is asked for from other threads.
    return time.monotonic()
