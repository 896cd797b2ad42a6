"""The evidence meter: evidence, alarm, onset and all-clear."""

import math
import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.bets import rate_meter
from monitor.statistics.meter import Meter, MeterReading, Watch
from monitor.statistics.reference import Reference

HOURS = st.lists(st.integers(0, 80).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=40)
QUIET = [(100, 2)] * 10
BAD = [(100, 8)] * 10


def meter_at(
    null_rate: float, *, dispersion: float = 1.0, watch: Watch = Watch.CONTINUOUS, threshold: float = 8760
) -> Meter:
    """Return a meter against a known null rate."""
    reference = Reference(5000, 100, null_rate, dispersion, null_rate, null_rate, 0.14)
    return rate_meter(reference, watch=watch, threshold=threshold)


def replay(meter: Meter, hours: Sequence[Sequence[float]], *, after: MeterReading | None = None) -> list[MeterReading]:
    """Return the reading after each hour, going on from `after` or else from the start."""
    readings = list(accumulate(hours, meter.advance, initial=after or meter.start()))
    return readings[1:]


def evidence(meter: Meter, hours: Sequence[Sequence[float]]) -> list[float]:
    """Return the log evidence after each hour."""
    return [reading.log_evidence for reading in replay(meter, hours)]


@pytest.mark.parametrize(
    ("record", "watch", "dispersion"),
    [
        ("continuous", Watch.CONTINUOUS, 1.0),
        ("release", Watch.RELEASE, 1.0),
        ("continuous, dispersion 1.7", Watch.CONTINUOUS, 1.7),
    ],
)
def test_recorded_evidence(golden: dict[str, Any], record: str, watch: Watch, dispersion: float) -> None:
    """The evidence after each of twelve hours agrees with an independent implementation."""
    meter = meter_at(golden["null_rate"], dispersion=dispersion, watch=watch, threshold=1e9)
    assert golden["log_evidence"][record] == pytest.approx(evidence(meter, golden["hours"]), rel=0, abs=1e-9)


def test_recorded_alarm(golden: dict[str, Any]) -> None:
    """The alarm comes with hour 9; onset, rate and resolve line agree with an independent implementation."""
    readings = replay(meter_at(golden["null_rate"]), golden["hours"])
    assert [reading.fired for reading in readings].index(True) == 9
    incident = readings[9].incident
    assert incident is not None
    assert (incident.hour, incident.onset.hour, incident.rate) == (9, golden["onset"]["hour"], 33 / 600)
    assert golden["resolve_line"] == pytest.approx(incident.resolve_line, rel=1e-12)
    assert golden["onset"]["hour"] == readings[-1].onset
    total, onset = readings[-1].total, incident.onset
    rate = (total.defects - onset.defects) / (total.scored - onset.scored)
    assert golden["onset"]["rate"] == pytest.approx(rate, rel=1e-12)


def test_recorded_release_alarm(golden: dict[str, Any]) -> None:
    """At 20 to 1 the release watch alarms with hour 8."""
    readings = replay(meter_at(golden["null_rate"], watch=Watch.RELEASE, threshold=20), golden["hours"])
    assert [reading.fired for reading in readings].index(True) == 8


def test_recorded_recovery(golden: dict[str, Any]) -> None:
    """The evidence of recovery after each hour agrees with an independent implementation."""
    meter = meter_at(golden["null_rate"])
    opened = replay(meter, golden["hours"][:10])[-1]
    readings = replay(meter, golden["recovery"]["hours"], after=opened)
    recovery = [reading.log_all_clear for reading in readings]
    assert golden["recovery"]["log_all_clear"] == pytest.approx(recovery, rel=0, abs=1e-9)


@given(hours=HOURS, cut=st.integers(0, 40), watch=st.sampled_from(Watch))
def test_replay_equals_going_on(hours: list[tuple[int, int]], cut: int, watch: Watch) -> None:
    """Replaying all hours gives what hour-by-hour reading gave, from any hour on."""
    meter = meter_at(0.3, watch=watch, threshold=50)
    whole = replay(meter, hours)
    before = whole[:cut]
    assert whole[cut:] == replay(meter, hours[cut:], after=before[-1] if before else None)


@given(hours=HOURS, where=st.integers(0, 40), watch=st.sampled_from(Watch))
def test_empty_hours_change_nothing(hours: list[tuple[int, int]], where: int, watch: Watch) -> None:
    """An hour without scored turns changes no evidence, no excursion and no incident, then or later."""
    meter = meter_at(0.3, watch=watch, threshold=50)
    plain = replay(meter, hours)
    where = min(where, len(hours))
    gap = replay(meter, [*hours[:where], (0, 0), *hours[where:]])
    assert gap[where].fired is gap[where].resolved is False
    assert [r.log_evidence for r in plain] == [r.log_evidence for i, r in enumerate(gap) if i != where]
    assert [r.excursions for r in plain] == [r.excursions for i, r in enumerate(gap) if i != where]
    assert [r.log_all_clear for r in plain] == [r.log_all_clear for i, r in enumerate(gap) if i != where]


@given(hours=HOURS, watch=st.sampled_from(Watch))
def test_alarms_and_all_clears_alternate(hours: list[tuple[int, int]], watch: Watch) -> None:
    """No alarm is raised while an incident is open, and none is resolved that was not."""
    readings = replay(meter_at(0.2, watch=watch, threshold=5), [*hours, *BAD, *QUIET, *BAD])
    events = [reading.fired for reading in readings if reading.fired or reading.resolved]
    assert events == [index % 2 == 0 for index in range(len(events))]
    is_open = False
    for reading in readings:
        assert not (reading.fired and reading.resolved)
        is_open = (is_open or reading.fired) and not reading.resolved
        assert is_open is (reading.incident is not None)


def test_an_incident_is_resolved_and_another_raised() -> None:
    """After the all-clear a continuous watch begins anew and alarms again."""
    readings = replay(meter_at(0.0228), [*QUIET, *BAD, *QUIET * 2, *BAD])
    assert [i for i, reading in enumerate(readings) if reading.fired] == [12, 42]
    (resolved,) = [i for i, reading in enumerate(readings) if reading.resolved]
    assert 20 <= resolved < 40
    assert readings[resolved].log_evidence == -math.inf
    assert readings[resolved].incident is readings[resolved].onset is None
    fresh = meter_at(0.0228).advance(meter_at(0.0228).start(), (100, 2))
    assert readings[resolved + 1].log_evidence == fresh.log_evidence


def test_a_release_watch_alarms_once() -> None:
    """After its all-clear a release watch stays silent, so its chance of a false alarm holds for good."""
    readings = replay(meter_at(0.0228, watch=Watch.RELEASE, threshold=20), [*BAD, *QUIET * 3, *BAD * 5])
    assert sum(reading.fired for reading in readings) == 1
    assert sum(reading.resolved for reading in readings) == 1


def test_onset_is_where_the_rise_began() -> None:
    """The onset is the first bad hour."""
    reading = replay(meter_at(0.0228), [*QUIET, *BAD[:2]])[-1]
    assert reading.onset == 10


def test_no_rise_no_onset() -> None:
    """Without a rise there is no onset."""
    reading = replay(meter_at(0.05), QUIET)[-1]
    assert reading.onset is None


@pytest.mark.parametrize(("defects", "line"), [(4, 1.2), (100, 1.5)])
def test_the_resolve_line_is_near_the_null_rate(defects: int, line: float) -> None:
    """The resolve line is 1.2 times the null rate for a small rise and 1.5 times for a large one."""
    readings = replay(meter_at(0.03), [(100, defects)] * 500)
    (incident,) = {reading.incident for reading in readings if reading.fired}
    assert incident is not None
    assert incident.resolve_line == pytest.approx(0.03 * line)


def test_a_partial_hour_previews_the_whole() -> None:
    """MeterReading parts of an hour from the last closed one ends where reading the whole hour does."""
    meter = meter_at(0.0228)
    closed = replay(meter, QUIET)[-1]
    previews = [meter.advance(closed, part) for part in ((30, 4), (60, 5), (100, 8))]
    assert previews[-1] == meter.advance(closed, (100, 8))


def test_dispersion_tempers_the_evidence() -> None:
    """Twice the dispersion counts like half of the turns."""
    tempered = evidence(meter_at(0.0228, dispersion=2.0), [(100, 4), (90, 6)])
    halved = evidence(meter_at(0.0228), [(50, 2), (45, 3)])
    assert halved == pytest.approx(tempered, rel=1e-12)


def test_long_incidents_do_not_overflow() -> None:
    """A hundred thousand defective turns an hour for a week stay finite."""
    reading = replay(meter_at(0.0228, threshold=1e300), [(100_000, 100_000)] * 168)[-1]
    assert 1e6 < reading.log_evidence < math.inf


def test_time_to_a_false_alarm(rng: random.Random) -> None:
    """At the null rate itself the mean time to an alarm is at least the threshold: about 2.2 times as long."""
    meter = meter_at(0.05, threshold=40)
    lasted = []
    for _ in range(300):
        reading = meter.start()
        while not reading.fired:
            reading = meter.advance(reading, (100, sum(rng.random() < 0.05 for _ in range(100))))
        lasted.append(reading.total.hour)
    assert 40 < sum(lasted) / len(lasted) < 140


def test_false_alarms_of_a_release(rng: random.Random) -> None:
    """At the null rate itself at most 1 release in 5 ever alarms at 5 to 1."""
    meter = meter_at(0.05, watch=Watch.RELEASE, threshold=5)
    alarmed = 0
    for _ in range(300):
        hours = [(40, sum(rng.random() < 0.05 for _ in range(40))) for _ in range(60)]
        alarmed += any(reading.fired for reading in replay(meter, hours))
    assert 0.03 < alarmed / 300 < 0.2 + 3 * math.sqrt(0.2 * 0.8 / 300)


@pytest.mark.parametrize(
    "hour", [(10, 11), (10, -1), (-1, 0), (math.nan, 0), (10, math.nan), (math.inf, 1), (10,), (10, 1, 1), ()]
)
def test_impossible_hours(hour: tuple[float, ...]) -> None:
    """Counts that no hour can have are refused, with the hour's position."""
    meter = meter_at(0.05)
    reading = replay(meter, QUIET)[-1]
    with pytest.raises(ValueError, match="hour 10 counts"):
        meter.advance(reading, hour)
