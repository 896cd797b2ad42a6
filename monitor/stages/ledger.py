"""What judging costs all processes together, and when that is enough: a row a process and day, read before each claim.

A process writes what it has spent before it asks for more work. So when the budget is gone, only the jobs that were
being judged at that moment can still add to it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from monitor.model import Spend
from monitor.ports import Clock, SpendStore
from monitor.settings import BudgetSettings
from monitor.telemetry import Gauge

_DAY = timedelta(days=1)
_WRITE_EVERY = timedelta(seconds=10)
_ROUNDED_UP = 1 + 1e-9

logger = logging.getLogger(__name__)


class Ledger:
    """One process's account."""

    def __init__(
        self,
        store: SpendStore,
        *,
        worker: str,
        spent: Callable[[], Spend],
        budget: BudgetSettings,
        clock: Clock,
    ) -> None:
        """Prepare.

        Args:
            store: where all processes write.
            worker: names this process and run of it.
            spent: what it has spent since it began; only ever grows.
            budget: what all processes may spend.
            clock: tells the UTC day.
        """
        self._store = store
        self._worker = worker
        self._spent = spent
        self._budget = budget
        self._clock = clock
        self._day = _midnight(clock())
        self._before = Spend()
        self._written: tuple[datetime, Spend] | None = None
        self._totals = (0.0, 0.0)
        self._gone: str | None = None

    @property
    def gone(self) -> str | None:
        """Which budget is spent, in words, as of the last look; None when there is some left."""
        return self._gone

    async def look(self) -> str | None:
        """Write down what was spent, and return which budget is spent; None when there is some left.

        Without a budget it writes every ten seconds only.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        limited = self._budget.daily_usd is not None or self._budget.monthly_usd is not None
        now, spent = self._clock(), self._spent()
        if not limited and spent == (self._written[1] if self._written else Spend()):
            return None
        if limited or self._written is None or now - self._written[0] >= _WRITE_EVERY:
            await self.write()
        return self._gone

    async def write(self) -> None:
        """Write down what was spent until now.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        now, spent = self._clock(), self._spent()
        today = _midnight(now)
        if today != self._day:
            await self._record(self._day, spent - self._before)
            self._day, self._before = today, spent
        await self._record(today, spent - self._before)
        self._written = (now, spent)
        self._judge_totals()

    def gauges(self) -> tuple[Gauge, ...]:
        """Return budgets and what all processes have spent of them, as of the last look; empty without a budget."""
        limits = {"day": self._budget.daily_usd, "month": self._budget.monthly_usd}
        found: list[Gauge] = []
        for (period, limit), total in zip(limits.items(), self._totals, strict=True):
            if limit is not None:
                found.append(Gauge(name="judge_budget_usd", value=limit, labels={"period": period}))
                found.append(Gauge(name="judge_budget_spent_usd", value=total, labels={"period": period}))
        return tuple(found)

    async def _record(self, day: datetime, spend: Spend) -> None:
        self._totals = await asyncio.to_thread(self._store.record_spend, self._worker, day=day, spend=spend)

    def _judge_totals(self) -> None:
        # Sums of thousands of tiny prices are a hair off; a budget is not for sale at that.
        of_day, of_month = (total * _ROUNDED_UP for total in self._totals)
        gone: str | None = None
        if self._budget.monthly_usd is not None and of_month >= self._budget.monthly_usd:
            gone = f"the month's budget of ${self._budget.monthly_usd:g} is spent until the month ends (UTC)"
        elif self._budget.daily_usd is not None and of_day >= self._budget.daily_usd:
            gone = f"the day's budget of ${self._budget.daily_usd:g} is spent until 00:00 UTC"
        if gone and not self._gone:
            logger.warning("judging stops: %s", gone)
        self._gone = gone


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)
