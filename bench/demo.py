"""How often the demo's promises hold: N bad releases, each with other users, questions and inventions.

Of every seed: whether the 95 % interval before and after the release holds the true defect rate, whether the first
alert fired after the release and none before it, and how many hours that took.

    python bench/demo.py --seeds 20 --jobs 2
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path

from monitor.cli.demonstration import Demonstration, Period, Scenario, demonstrate, settings_for

START = datetime(2026, 3, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What came of one seed."""

    seed: int
    before: Period
    after: Period
    early: int
    """Alerts that fired before the release: false alarms."""
    waited: float | None
    """Hours from the release to the first alert after it; None when none fired."""
    agreement: tuple[int, int, int, int]

    @property
    def alerted(self) -> bool:
        """Whether the release was found, and nothing before it."""
        return self.waited is not None and not self.early


def main() -> int:
    """Print a line per seed and the shares; the status is 1 when one of them is below 19 of 20."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many, counted from 1 (%(default)d)")
    parser.add_argument("--jobs", type=int, default=2, help="demos at once (%(default)d)")
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--turns-per-hour", type=int, default=20)
    options = parser.parse_args()
    print(
        f"{options.seeds} demos of {options.days} days with {options.turns_per_hour} turns an hour, half of them "
        "judged by the lexical proxy; release 2.0.0 after half of the time"
    )
    print(f"{'seed':>4}  {'before: estimate, truth':40} {'after: estimate, truth':40} alert after")
    days, turns = [options.days] * options.seeds, [options.turns_per_hour] * options.seeds
    rows = []
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for row in pool.map(run, range(1, options.seeds + 1), days, turns):
            print(line(row), flush=True)
            rows.append(row)
    return summary(rows)


def run(seed: int, days: int, turns_per_hour: int) -> Row:
    """Return what came of one seed, in a store of its own."""
    scenario = Scenario(seed=seed, days=days, turns_per_hour=turns_per_hour, start=START)
    with tempfile.TemporaryDirectory(prefix="rag-monitor-demo-") as folder:
        out = Path(folder)
        settings = settings_for(out, {})
        found: Demonstration = asyncio.run(demonstrate(out, settings, scenario, progress=lambda _until, _turns: None))
    fired = [alert.firing_at for alert in found.alerts if alert.firing_at]
    late = [at for at in fired if at >= scenario.released_at]
    return Row(
        seed=seed,
        before=found.before,
        after=found.after,
        early=len(fired) - len(late),
        waited=(min(late) - scenario.released_at) / timedelta(hours=1) if late else None,
        agreement=found.agreement,
    )


def line(row: Row) -> str:
    """Return the row as text."""
    alert = "none" if row.waited is None else f"{row.waited:.0f} h"
    early = f", {row.early} BEFORE the release" if row.early else ""
    return f"{row.seed:4}  {told(row.before):40} {told(row.after):40} {alert}{early}"


def told(period: Period) -> str:
    """Return the interval, the truth and whether the one holds the other."""
    rate = period.estimate
    if rate is None:
        return "nothing judged"
    held = "covered" if period.covered else "MISSED"
    return f"{rate.value:.1%} ({rate.lower:.1%} to {rate.upper:.1%}), {period.truth:.1%} {held}"


def summary(rows: Sequence[Row]) -> int:
    """Print the shares and return the exit status."""
    shares = {
        "intervals before that hold the truth": sum(row.before.covered for row in rows),
        "intervals after that hold the truth": sum(row.after.covered for row in rows),
        "first alert after the release, none before": sum(row.alerted for row in rows),
    }
    for what, count in shares.items():
        print(f"{what}: {count} of {len(rows)}")
    waits = [row.waited for row in rows if row.waited is not None]
    if waits:
        print(f"hours to the alert: median {statistics.median(waits):.0f}, most {max(waits):.0f}")
    found, alarm, missed, passed = (sum(row.agreement[i] for row in rows) for i in range(4))
    print(f"turn by turn: {found} of {found + missed} defects found, {alarm} of {alarm + passed} good answers blamed")
    return int(any(count < 0.95 * len(rows) for count in shares.values()))


if __name__ == "__main__":
    sys.exit(main())
