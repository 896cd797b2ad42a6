"""What judging costs all processes together, and when that is enough: a row a process and day, read before each claim.

A process writes what it has spent before it asks for more work. So when the budget is spent, only the jobs that were
being judged at that moment can still add to it. While it asks, its row has what its calls under way will cost besides:
others count that as spent, and when it is killed it was.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from monitor.model.judgements import Spend
from monitor.ports import Clock
from monitor.settings.tree import BudgetSettings
from monitor.stores import SpendStore
from monitor.telemetry import Gauge

_LOOK_EVERY, _WRITE_EVERY = 0.1, 10.0
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
        conversations: Callable[[], int],
        at_once: int,
        budget: BudgetSettings,
        clock: Clock,
    ) -> None:
        """Prepare.

        Args:
            store: where all processes write.
            worker: names this process and run of it.
            spent: what it has spent since it began; only ever grows.
            conversations: how many calls that was for; only ever grows.
            at_once: how many of them may be under way.
            budget: what all processes may spend.
            clock: tells the UTC day.
        """
        self._store = store
        self._worker = worker
        self._spent = spent
        self._conversations = conversations
        self._at_once = at_once
        self._reserves = False
        self._usual_usd: float | None = None
        self._budget = budget
        self._clock = clock
        self._day = _midnight(clock())
        self._before = Spend()
        self._of_days: dict[datetime, Spend] = {}
        """What was spent on each day that is not the present one: a clock that is set may bring one back."""
        self._written: tuple[float, Spend] | None = None
        self._limited = budget.daily_usd is not None or budget.monthly_usd is not None
        self._totals = (0.0, 0.0)
        self._exhausted: str | None = None

    @property
    def exhausted(self) -> str | None:
        """Which budget is spent, in words, as of the last look; None when there is some left."""
        return self._exhausted

    async def look(self) -> str | None:
        """Write down what was spent, and return which budget is spent; None when there is some left.

        It writes ten times a second at most, and every ten seconds without a budget. In between, what this process has
        spent since counts as well: others can have spent no more than their calls of a tenth of a second.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        spent = self._spent()
        at, before = self._written or (-math.inf, Spend())
        changed = self._limited or spent != before
        due = time.monotonic() - at >= (_LOOK_EVERY if self._limited else _WRITE_EVERY)
        if changed and (due or _midnight(self._clock()) != self._day):
            await self.write()
        else:
            self._judge_totals(since=spent.usd - before.usd)
        return self._exhausted

    async def reserve(self) -> None:
        """Write down what calls under way will cost, if there is a budget: before the first of them is made.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        if self._limited and not self._reserves:
            self._reserves = True
            await self.write()

    async def reconcile(self) -> None:
        """Write down what was spent, now that no call is under way.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        self._reserves = False
        await self.write()

    async def keep_up(self) -> None:
        """Write down what was spent, if there is a budget: before the outcomes that it was spent on are written.

        So a process that dies has at most its calls under way not in the books.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        if self._limited:
            await self.write()

    async def write(self) -> None:
        """Write down what was spent until now.

        Raises:
            StoreUnavailable: the database cannot serve us.
        """
        reserved = await self._under_way_usd() if self._reserves else 0.0
        now, spent = self._clock(), self._spent()
        today = _midnight(now)
        if today != self._day:
            self._of_days[self._day] = await self._close_day(spent)
            self._day, self._before = today, spent
        of_today = self._of_days.get(today, Spend()) + (spent - self._before)
        of_day, of_month = await self._record(today, of_today + Spend(usd=reserved))
        self._totals = (of_day - reserved, of_month - reserved)
        self._written = (time.monotonic(), spent)
        self._judge_totals(since=0.0)

    def gauges(self) -> tuple[Gauge, ...]:
        """Return budgets and what is spent of them, others' calls under way included, as of the last look."""
        limits = {"day": self._budget.daily_usd, "month": self._budget.monthly_usd}
        gauges: list[Gauge] = []
        for (period, limit), total in zip(limits.items(), self._totals, strict=True):
            if limit is not None:
                gauges.append(Gauge(name="judge_budget_usd", value=limit, labels={"period": period}))
                gauges.append(Gauge(name="judge_budget_spent_usd", value=total, labels={"period": period}))
        return tuple(gauges)

    async def _under_way_usd(self) -> float:
        """Return what the calls that may be under way will cost: as much as ours did, or else all of this month."""
        if conversations := self._conversations():
            return self._spent().usd / conversations * self._at_once
        if self._usual_usd is None:
            month = self._day.replace(day=1)
            spend = await asyncio.to_thread(self._store.spend, since=month, until=self._day + timedelta(days=1))
            self._usual_usd = spend.usd / spend.calls if spend.calls else 0.0
        return self._usual_usd * self._at_once

    async def _close_day(self, spent: Spend) -> Spend:
        """Write down what was spent on the day that is over, without calls under way, and return it."""
        of_day = self._of_days.get(self._day, Spend()) + (spent - self._before)
        await self._record(self._day, of_day)
        return of_day

    async def _record(self, day: datetime, spend: Spend) -> tuple[float, float]:
        return await asyncio.to_thread(self._store.record_spend, self._worker, day=day, spend=spend)

    def _judge_totals(self, *, since: float) -> None:
        # Sums of thousands of tiny prices are a hair off; a budget is not for sale at that.
        of_day, of_month = ((total + since) * _ROUNDED_UP for total in self._totals)
        exhausted: str | None = None
        if self._budget.monthly_usd is not None and of_month >= self._budget.monthly_usd:
            exhausted = f"the month's budget of ${self._budget.monthly_usd:g} is spent until the month ends (UTC)"
        elif self._budget.daily_usd is not None and of_day >= self._budget.daily_usd:
            exhausted = f"the day's budget of ${self._budget.daily_usd:g} is spent until 00:00 UTC"
        if exhausted and not self._exhausted:
            logger.warning("judging stops: %s", exhausted)
        self._exhausted = exhausted


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)
