"""Hours of scored turns -> evidence of a regression, an alarm, its onset, and the all-clear.

An evidence meter multiplies, hour after hour, bets whose mean is at most 1 while the rate is at most the null rate, so
the evidence itself bounds false alarms, however often anyone looks. A continuous watch adds a fresh stake every hour
(Shiryaev-Roberts e-detector: Shin, Ramdas, Rinaldo 2024): at most one false alarm in `threshold` hours on average. A
release watch stakes once, at the deployment: a false alarm ever with a chance of at most 1 / `threshold` (Ville 1939).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from operator import add, mul

RECOVERIES = (1 / 1.25, 1 / 1.5, 1 / 2, 1 / 3)
"""Odds ratios against the resolve line that the all-clear bets on, in equal parts."""

RESOLVE_HOURS = 168.0
"""While the rate stays at or above the resolve line, a false all-clear comes at most once in so many hours."""

_LEAST_LIFT, _MOST_LIFT = 1.2, 1.5
_LOG_RESOLVE = math.log(RESOLVE_HOURS)
_ONE_IS_LOST = 37.0


class Watch(Enum):
    """When the change that a meter looks for may have happened."""

    CONTINUOUS = "continuous"
    """At any hour; after the all-clear the watch begins anew."""
    RELEASE = "release"
    """At the first hour, a deployment; alarms at most once."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Totals at the start of an hour."""

    hour: int
    """Position of the hour; the first hour that was read is 0."""
    scored: float
    defects: float
    """Defects, or summed badness of scores."""


@dataclass(frozen=True, slots=True)
class Incident:
    """An alarm that waits for its all-clear."""

    hour: int
    """Position of the hour that raised the alarm."""
    onset: Mark
    rate: float
    """Rate from the onset to the alarm."""
    resolve_line: float
    """Rate between null rate and incident that the all-clear bets against."""
    reliefs: tuple[tuple[float, ...], ...]
    """Log factor of each recovery, per count of an hour."""


@dataclass(frozen=True, slots=True)
class MeterReading:
    """What a meter shows after an hour."""

    total: Mark
    """Totals of all hours read; its position is the next hour's."""
    log_evidence: float
    """Natural logarithm of the evidence; minus infinity where there is none."""
    fired: bool
    """Whether this hour raised the alarm."""
    resolved: bool
    """Whether this hour ended the incident."""
    incident: Incident | None
    """The open incident; while it is open no further alarm is raised."""
    log_all_clear: float
    """Natural logarithm of the evidence of recovery; minus infinity where there is none."""
    bets: tuple[float, ...]
    """Natural logarithm of what each bet is worth."""
    excursions: tuple[float, ...]
    """Each bet's log likelihood ratio since its last reset at 0 (CUSUM)."""
    onsets: tuple[Mark, ...]
    """Where each excursion began."""
    recoveries: tuple[float, ...]
    """Natural logarithm of what each bet on recovery is worth."""

    @property
    def onset(self) -> int | None:
        """Position of the hour in which the rise began: the incident's, else the present one's; None without a rise."""
        mark = self._rise()
        return mark.hour if mark else None

    def _rise(self) -> Mark | None:
        if self.incident:
            return self.incident.onset
        best = max(self.excursions)
        return self.onsets[self.excursions.index(best)] if best > 0 else None


@dataclass(frozen=True, slots=True)
class Meter:
    """The bets of one series; the functions of `bets` build it. An hour is a tuple of counts, see `reference`."""

    watch: Watch
    log_threshold: float
    """Natural logarithm of the evidence that raises the alarm."""
    null_rate: float
    dispersion: float
    factors: tuple[tuple[float, ...], ...]
    """Log factor of each bet, per count of an hour."""
    turns: tuple[float, ...]
    """Turns that each count of an hour counts."""
    badness: tuple[float, ...]
    """Defects that each count of an hour counts."""

    def start(self) -> MeterReading:
        """Return the reading before the first hour."""
        nothing = Mark(0, 0.0, 0.0)
        return MeterReading(
            total=nothing,
            log_evidence=-math.inf,
            fired=False,
            resolved=False,
            incident=None,
            log_all_clear=-math.inf,
            bets=(-math.inf if self.watch is Watch.CONTINUOUS else 0.0,) * len(self.factors),
            excursions=(0.0,) * len(self.factors),
            onsets=(nothing,) * len(self.factors),
            recoveries=(),
        )

    def advance(self, reading: MeterReading, hour: Sequence[float]) -> MeterReading:
        """Return the reading after one more hour; an hour without scored turns changes no evidence.

        A part of an hour gives a valid preview, as long as the whole hour later goes on from the same reading. Raises
        ValueError for counts that no hour can have.
        """
        total = self._total(reading.total, hour)
        if total.scored == reading.total.scored:
            return replace(reading, total=total, fired=False, resolved=False)
        following = self._bet(reading, hour, total)
        if following.incident:
            return self._relieve(following, hour)
        return self._fire(following) if following.log_evidence >= self.log_threshold else following

    def _total(self, total: Mark, hour: Sequence[float]) -> Mark:
        scored = sum(map(mul, self.turns, hour))
        defects = sum(map(mul, self.badness, hour))
        if len(hour) != len(self.turns) or not 0 <= defects <= scored < math.inf or min(hour) < 0:
            allowed = f"{len(self.turns)} counts, none below 0, no more defects than turns"
            raise ValueError(f"evidence meter: hour {total.hour} counts {hour}; allowed: {allowed}")
        return Mark(total.hour + 1, total.scored + scored, total.defects + defects)

    def _bet(self, reading: MeterReading, hour: Sequence[float], total: Mark) -> MeterReading:
        logs = [sum(map(mul, factors, hour)) for factors in self.factors]
        stakes = map(_log_plus_one, reading.bets) if self.watch is Watch.CONTINUOUS else reading.bets
        bets = tuple(map(add, stakes, logs))
        onsets = zip(reading.excursions, reading.onsets, strict=True)
        return replace(
            reading,
            total=total,
            log_evidence=_log_mean(bets),
            fired=False,
            resolved=False,
            bets=bets,
            excursions=tuple([max(height, 0.0) + log for height, log in zip(reading.excursions, logs, strict=True)]),
            onsets=tuple([mark if height > 0 else reading.total for height, mark in onsets]),
        )

    def _fire(self, reading: MeterReading) -> MeterReading:
        onset = reading.onsets[reading.excursions.index(max(reading.excursions))]
        defects = reading.total.defects - onset.defects
        rate = defects / (reading.total.scored - onset.scored)
        lift = min(max(math.sqrt(rate / self.null_rate), _LEAST_LIFT), _MOST_LIFT)
        line = min(1.0, self.null_rate * lift)
        incident = Incident(
            hour=reading.total.hour - 1,
            onset=onset,
            rate=rate,
            resolve_line=line,
            reliefs=tuple(self._relief(recovery, line) for recovery in RECOVERIES),
        )
        return replace(reading, fired=True, incident=incident, recoveries=(-math.inf,) * len(RECOVERIES))

    def _relief(self, recovery: float, line: float) -> tuple[float, ...]:
        """Return the log factor of one bet on a fall below `line`, per count of an hour."""
        fall = 1 - recovery
        return tuple(
            (math.log1p(-fall * badness) - turns * math.log1p(-fall * line)) / self.dispersion
            for turns, badness in zip(self.turns, self.badness, strict=True)
        )

    def _relieve(self, reading: MeterReading, hour: Sequence[float]) -> MeterReading:
        reliefs = reading.incident.reliefs if reading.incident else ()
        recoveries = tuple(
            _log_plus_one(bet) + sum(map(mul, relief, hour))
            for bet, relief in zip(reading.recoveries, reliefs, strict=True)
        )
        log_all_clear = _log_mean(recoveries)
        if log_all_clear < _LOG_RESOLVE:
            return replace(reading, log_all_clear=log_all_clear, recoveries=recoveries)
        # A product bet worth nothing stays worth nothing: that is why a release watch alarms only once.
        return replace(self.start(), total=reading.total, resolved=True, bets=(-math.inf,) * len(self.factors))


def _log_plus_one(log: float) -> float:
    """Return ln(1 + exp(log)) without overflow."""
    return log if log > _ONE_IS_LOST else math.log1p(math.exp(log))


def _log_mean(logs: Sequence[float]) -> float:
    """Return the logarithm of the mean of exponentials."""
    top = max(logs)
    if top == -math.inf:
        return top
    return top + math.log(sum([math.exp(log - top) for log in logs]) / len(logs))
