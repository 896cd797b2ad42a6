"""Jobs are claimed for a while, and whoever is stopped meanwhile gives them back."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

from monitor.model.judgements import Job
from monitor.ports import Clock
from monitor.scoring.outcomes import Outcomes
from monitor.stores import JobStore

_RECLAIM_SECONDS = 30.0
_LONGEST_PAUSE = timedelta(hours=2)
"""Longer than any job is put off, whoever asks for a pause."""


class Claims:
    """What one worker takes for itself."""

    def __init__(self, store: JobStore, outcomes: Outcomes, *, lease: timedelta, clock: Clock) -> None:
        """Prepare; `lease` bounds the work on one job."""
        self._store = store
        self._outcomes = outcomes
        self._lease = lease
        self._clock = clock
        self._reclaimed_at = -math.inf

    async def claim(
        self, limit: int, *, rubric_ids: Sequence[str] | None = None, call_of: Mapping[str, str] | None = None
    ) -> tuple[Job, ...]:
        """Return jobs as `JobStore.claim` leases them; cancelled, it gives them back.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        await self._reclaim()
        claim = asyncio.ensure_future(
            asyncio.to_thread(
                self._store.claim,
                now=self._clock(),
                lease=self._lease,
                limit=limit,
                rubric_ids=rubric_ids,
                call_of=call_of,
            )
        )
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            await asyncio.wait([claim])
            if claim.exception() is None:
                await self._outcomes.release(claim.result(), after=timedelta(0), cause="stopped")
            raise

    async def _reclaim(self) -> None:
        """Take back, every half minute, what a clock that was ahead has put off."""
        if time.monotonic() - self._reclaimed_at < _RECLAIM_SECONDS:
            return
        self._reclaimed_at = time.monotonic()
        longest = max(_LONGEST_PAUSE, 2 * self._lease)
        await asyncio.to_thread(self._store.reclaim, now=self._clock(), longest=longest)
