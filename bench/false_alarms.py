"""How often the evidence meter alarms without a change, and how long after one it does.

Simulates hours of judged turns (Poisson traffic; with an intra-hour correlation the hour's rate is beta distributed),
takes the first 168 as the reference and runs the product's meter over up to 720 more. A change comes with the first
of them for a release watch, and for a continuous watch after a day without change. Each figure is compared with an
independently computed one, within the tolerance that the runs of both leave. Exits with 1 where a figure is outside.
"""

import argparse
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.statistics.bets import rate_meter
from monitor.statistics.meter import Meter, Watch
from monitor.statistics.reference import rate_reference

REFERENCE_HOURS = 168
WATCHED_HOURS = 720
QUIET_HOURS = {Watch.CONTINUOUS: 24, Watch.RELEASE: 0}
THRESHOLDS = {Watch.CONTINUOUS: 8760.0, Watch.RELEASE: 1 / 0.05}
BOUNDS = {Watch.CONTINUOUS: WATCHED_HOURS / 8760, Watch.RELEASE: 0.05}
EXPECTED_RUNS = 3000
DELAY_RUNS = 3
"""Runs of a delay per run of a false-alarm line: they end early, and their tolerance allows for no noise."""

Counts = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of the table: what is simulated and what an independent implementation measured."""

    watch: Watch
    turns: int
    correlation: float
    before: float
    after: float
    expected: tuple[float, ...]
    """Share of runs with a false alarm, or (median, 90th percentile) of the delay in hours."""


CONTINUOUS, RELEASE = Watch.CONTINUOUS, Watch.RELEASE
CELLS = (
    Cell(CONTINUOUS, 100, 0.00, 0.02, 0.02, (0.0043,)),
    Cell(CONTINUOUS, 100, 0.01, 0.02, 0.02, (0.0467,)),
    Cell(CONTINUOUS, 100, 0.00, 0.05, 0.05, (0.0017,)),
    Cell(CONTINUOUS, 100, 0.01, 0.05, 0.05, (0.0203,)),
    Cell(RELEASE, 100, 0.00, 0.02, 0.02, (0.0033,)),
    Cell(RELEASE, 100, 0.01, 0.02, 0.02, (0.0163,)),
    Cell(RELEASE, 100, 0.00, 0.05, 0.05, (0.0,)),
    Cell(RELEASE, 100, 0.01, 0.05, 0.05, (0.0073,)),
    Cell(CONTINUOUS, 100, 0.00, 0.02, 0.04, (16, 31)),
    Cell(CONTINUOUS, 100, 0.01, 0.02, 0.04, (31, 67)),
    Cell(CONTINUOUS, 100, 0.00, 0.05, 0.10, (8, 13)),
    Cell(CONTINUOUS, 100, 0.01, 0.05, 0.10, (13, 25)),
    Cell(RELEASE, 100, 0.00, 0.02, 0.04, (8, 19)),
    Cell(RELEASE, 100, 0.01, 0.02, 0.04, (16, 40)),
    Cell(RELEASE, 100, 0.00, 0.05, 0.10, (4, 8)),
    Cell(RELEASE, 100, 0.01, 0.05, 0.10, (6, 14)),
)


def hours_of(rng: np.random.Generator, cell: Cell, *, rate: float, hours: int) -> Counts:
    """Return (scored, defects) of consecutive hours at this rate."""
    scored = rng.poisson(cell.turns, hours)
    rates: float | np.ndarray = rate
    if cell.correlation:
        sharpness = 1 / cell.correlation - 1
        rates = rng.beta(rate * sharpness, (1 - rate) * sharpness, hours)
    return tuple(zip(scored.tolist(), rng.binomial(scored, rates).tolist(), strict=True))


def first_alarm(meter: Meter, hours: Counts) -> float:
    """Return the hours until the first alarm, or infinity."""
    reading = meter.start()
    for number, hour in enumerate(hours, start=1):
        reading = meter.advance(reading, hour)
        if reading.fired:
            return number
    return math.inf


def first_alarms(cell: Cell, *, runs: int, seed: int) -> np.ndarray:
    """Return the hours until the first alarm of each run; with a change, those of runs not alarmed before it."""
    rng = np.random.default_rng(seed)
    quiet = 0 if cell.before == cell.after else QUIET_HOURS[cell.watch]
    alarms = []
    for _ in range(runs):
        reference = rate_reference(hours_of(rng, cell, rate=cell.before, hours=REFERENCE_HOURS))
        assert reference is not None
        meter = rate_meter(reference, watch=cell.watch, threshold=THRESHOLDS[cell.watch])
        before = hours_of(rng, cell, rate=cell.before, hours=quiet)
        after = hours_of(rng, cell, rate=cell.after, hours=WATCHED_HOURS)
        alarms.append(first_alarm(meter, (*before, *after)) - quiet)
    return np.array([hours for hours in alarms if hours > 0])


def judged(cell: Cell, alarms: np.ndarray) -> Iterator[tuple[str, float, float, float, bool]]:
    """Yield (figure, measured, expected, tolerance, whether it passes)."""
    if cell.before == cell.after:
        (expected,) = cell.expected
        measured = float(np.isfinite(alarms).mean())
        spread = math.sqrt(expected * (1 - expected) * (1 / EXPECTED_RUNS + 1 / len(alarms)))
        tolerance = 3 * spread + 0.003
        bound = BOUNDS[cell.watch]
        promised = bound + 3 * math.sqrt(bound * (1 - bound) / len(alarms))
        passes = abs(measured - expected) <= tolerance and measured <= promised
        yield "P(any false alarm in 30 d)", measured, expected, tolerance, passes
        return
    for name, quantile, expected, hours, share in (
        ("median delay, h", 0.5, cell.expected[0], 1, 0.10),
        ("90th percentile, h", 0.9, cell.expected[1], 2, 0.15),
    ):
        measured = float(np.quantile(alarms, quantile))
        tolerance = max(hours, share * expected)
        yield name, measured, expected, tolerance, abs(measured - expected) <= tolerance


def main() -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=800, help="runs per line (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=20260101, help="(default: %(default)s)")
    options = parser.parse_args()
    started = time.perf_counter()
    failures = 0
    print(f"{options.runs} runs a line, {DELAY_RUNS} times as many for delays; reference {REFERENCE_HOURS} h")
    print("thresholds: continuous 8760 h, release 1 / 0.05")
    print("watch       turns/h   icc    rate, %  figure                       measured expected     +/-")
    for number, cell in enumerate(CELLS):
        runs = options.runs if cell.before == cell.after else DELAY_RUNS * options.runs
        alarms = first_alarms(cell, runs=runs, seed=options.seed + number)
        rate = f"{cell.before:.0%} -> {cell.after:.0%}".replace("%", "")
        for name, measured, expected, tolerance, passes in judged(cell, alarms):
            failures += not passes
            print(
                f"{cell.watch.value:<11}{cell.turns:>8}{cell.correlation:>6.2f}{rate:>11}  {name:<28}"
                f"{measured:>9.4g}{expected:>9.4g}{tolerance:>8.3g}  {'pass' if passes else 'FAIL'}",
                flush=True,
            )
    print(f"{failures} outside tolerance; {time.perf_counter() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
