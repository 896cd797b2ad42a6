"""Trends as gauges and alerts as annotations."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from incident import alert_about, rise
from window_sums import sums_of

from monitor.errors import Paused, Permanent, Retryable
from monitor.model.trends import Alert, AlertState, Rollup, Series, Sums
from monitor.stages.publish import GAUGES, quality_gauges, tick
from monitor.statistics.rates import wilson_rate
from monitor.store.sql_store import SqlStore
from monitor.telemetry import Gauge, Telemetry

NOW = datetime(2026, 5, 4, 12, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
LATENESS = timedelta(minutes=15)
SERIES = Series(app="bot", environment="production", slice="", metric="groundedness_proxy", rubric_id="r1")


def window(
    ago: int, n: int, k: int, *, turns: int = 100, release: str = "1", unscored: dict[str, int] | None = None
) -> Rollup:
    """Return the window that ended so many hours before 12:00."""
    sums = sums_of(n, k, weight=2, turns=turns, pending=3, cost_usd=n / 8)
    start = NOW.replace(minute=0) - (ago + 1) * HOUR
    return Rollup(series=SERIES, release=release, start=start, length=HOUR, sums=sums, unscored=unscored or {})


def alert(alert_id: str = "a1", state: AlertState = AlertState.FIRING, *, at: datetime = NOW) -> Alert:
    """Return an alert that has fired."""
    recovered_at = at if state is AlertState.RESOLVED else None
    regression = rise(series=SERIES, began_at=at, detected_at=at, recovered_at=recovered_at)
    return alert_about(regression, state, alert_id=alert_id)


def values(gauges: tuple[Gauge, ...], name: str, **labels: str) -> list[float]:
    """Return the values of gauges with this name and these labels."""
    return [g.value for g in gauges if g.name == name and labels.items() <= g.labels.items()]


def test_ratio_and_interval_are_those_of_the_statistics() -> None:
    """The last closed hour and the last 24 hours, with the same limits as everywhere else."""
    rows = [window(0, 40, 4), *(window(ago, 40, 2) for ago in range(1, 24)), window(24, 40, 40)]
    gauges = quality_gauges(rows, [], lateness=LATENESS, now=NOW)
    for label, of in (("1h", rows[:1]), ("24h", rows[:24])):
        rate = wilson_rate(sum((r.sums for r in of), Sums()))
        assert rate is not None
        names = ("defect_ratio", "defect_ratio_lower", "defect_ratio_upper")
        assert [values(gauges, name, window=label) for name in names] == [[rate.value], [rate.lower], [rate.upper]]


def test_a_window_that_is_not_closed_is_not_shown() -> None:
    """Until its lateness is over an hour counts nowhere; then it is the last hour."""
    rows = [window(0, 40, 40), window(1, 40, 0)]
    before = quality_gauges(rows, [], lateness=LATENESS, now=NOW - 6 * timedelta(minutes=1))
    assert values(before, "defect_ratio", window="1h") == [0]
    assert values(quality_gauges(rows, [], lateness=LATENESS, now=NOW), "defect_ratio", window="1h") == [1]


def test_without_scored_turns_there_is_no_ratio_but_a_count() -> None:
    """Nothing judged is neither 0 % nor 100 %; the turns are still accounted for."""
    gauges = quality_gauges([window(0, 0, 0, unscored={"no_context": 60})], [], lateness=LATENESS, now=NOW)
    assert values(gauges, "defect_ratio") == []
    counts = {g.labels["outcome"]: g.value for g in gauges if g.name == "window_turns" and g.labels["window"] == "1h"}
    assert counts == {"scored": 0, "pending": 3, "not_sampled": 37, "no_context": 60}


def test_turns_by_release_are_counted_once_however_many_metrics_there_are() -> None:
    """Two metrics see the same turns; two releases are two gauges."""
    rows = [window(0, 10, 1, turns=70, release="1"), window(0, 10, 1, turns=30, release="2")]
    rows += [replace(row, series=replace(SERIES, metric="relevance")) for row in rows]
    gauges = quality_gauges(rows, [], lateness=LATENESS, now=NOW)
    assert [values(gauges, "release_turns", release=r, window="1h") for r in ("1", "2")] == [[70], [30]]


def test_firing_is_one_and_quiet_is_zero() -> None:
    """Every series has the gauge, so that an alert rule on it never sees "no data"."""
    other = replace(window(0, 10, 1), series=replace(SERIES, metric="relevance"))
    gauges = quality_gauges([window(0, 10, 1), other], [alert()], lateness=LATENESS, now=NOW)
    assert values(gauges, "alert_firing", metric="groundedness_proxy") == [1]
    assert values(gauges, "alert_firing", metric="relevance") == [0]


def test_cost() -> None:
    """Judging costs what it cost over the hour and the day; nothing is said where it was free."""
    gauges = quality_gauges([window(0, 10, 1), window(3, 8, 1)], [], lateness=LATENESS, now=NOW)
    assert values(gauges, "window_cost_usd", window="1h") == [10 / 8]
    assert values(gauges, "window_cost_usd", window="24h") == [18 / 8]
    assert values(quality_gauges([window(0, 0, 0)], [], lateness=LATENESS, now=NOW), "window_cost_usd") == []


def test_the_gauges_are_exposed_under_their_documented_names() -> None:
    """Prometheus sees every documented metric with its description, and no other."""
    telemetry = Telemetry("0")
    gauges = quality_gauges([window(0, 10, 1)], [alert()], lateness=LATENESS, now=NOW)
    for name, description in GAUGES.items():
        telemetry.watch(name, lambda: gauges, description=description)
    text = telemetry.render().decode()
    telemetry.close()
    assert {g.name for g in gauges} == set(GAUGES)
    assert 'rag_monitor_defect_ratio{app="bot",environment="production",metric="groundedness_proxy"' in text
    assert "# TYPE rag_monitor_window_turns gauge" in text


class Board:
    """A publisher that notes what it publishes, or fails with `failures`."""

    def __init__(self) -> None:
        self.provisioned = 0
        self.annotated: list[tuple[str, str]] = []
        self.dashboard_failure: Exception | None = None
        self.failures: dict[str, Exception] = {}

    async def provision(self) -> None:
        """Count, or fail."""
        self.provisioned += 1
        if self.dashboard_failure is not None:
            raise self.dashboard_failure

    async def annotate(self, alert: Alert) -> None:
        """Note, or fail."""
        if alert.alert_id in self.failures:
            raise self.failures[alert.alert_id]
        self.annotated.append((alert.alert_id, alert.state.value))


async def test_an_alert_is_annotated_once_per_state(store: SqlStore) -> None:
    """Firing and resolved are each annotated once; what never fired is not."""
    quiet = replace(alert("a0", AlertState.RESOLVED), firing_at=None)
    store.save_alerts([alert(), quiet])
    board = Board()
    assert await tick(store, board) == 1
    assert await tick(store, board) == 0
    store.move_alert(alert(state=AlertState.RESOLVED), before=AlertState.FIRING, notifications=())
    assert await tick(store, board) == 1
    assert board.annotated == [("a1", "firing"), ("a1", "resolved")]
    assert board.provisioned == 3


async def test_a_refused_dashboard_keeps_no_annotation_back(store: SqlStore) -> None:
    """The failure is reported after everything else was done."""
    store.save_alerts([alert()])
    board = Board()
    board.dashboard_failure = Permanent("no", reason="http_400")
    with pytest.raises(Permanent):
        await tick(store, board)
    assert board.annotated == [("a1", "firing")]


async def test_one_refused_annotation_keeps_no_other_back_and_silence_ends_the_round(store: SqlStore) -> None:
    """A refusal concerns one alert; when Grafana is down the rest would only wait in vain."""
    store.save_alerts([alert(f"a{i}", at=NOW + i * HOUR) for i in range(3)])
    board = Board()
    board.failures = {"a0": Permanent("no", reason="http_400")}
    with pytest.raises(Permanent):
        await tick(store, board)
    assert [a for a, _ in board.annotated] == ["a1", "a2"]
    board.failures = {"a0": Retryable("down")}
    with pytest.raises(Retryable):
        await tick(store, board)
    board.failures = {}
    assert await tick(store, board) == 1


async def test_a_pause_is_no_news(store: SqlStore) -> None:
    """While Grafana is left in peace the tick ends quietly; a pause of the dashboard alone lets annotations through."""
    store.save_alerts([alert()])
    board = Board()
    board.dashboard_failure = Paused("not tried")
    board.failures = {"a1": Paused("not tried")}
    assert await tick(store, board) == 0
    board.failures = {}
    assert await tick(store, board) == 1


async def test_an_alert_that_moved_on_meanwhile_is_annotated_again(store: SqlStore) -> None:
    """Resolved while its firing was being annotated: nothing is overwritten, the end follows with the next tick."""

    class Slow(Board):
        async def annotate(self, alert: Alert) -> None:
            await super().annotate(alert)
            if alert.state is AlertState.FIRING:
                store.save_alerts([_resolved(alert)])
                store.move_alert(_resolved(alert), before=AlertState.FIRING, notifications=())

    store.save_alerts([alert()])
    board = Slow()
    assert await tick(store, board) == 0
    assert await tick(store, board) == 1
    (kept,) = store.alerts()
    assert (kept.state, kept.annotated) == (AlertState.RESOLVED, True)


def _resolved(firing: Alert) -> Alert:
    return replace(
        firing, state=AlertState.RESOLVED, resolved_at=NOW, regression=replace(firing.regression, recovered_at=NOW)
    )
