"""The baseline of each series, or how long it is still learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from window_sums import sums_of

from monitor.detection.baseline_status import baseline_statuses, status_lines
from monitor.model.trends import Baseline, Rollup, Series, Sums
from monitor.settings.tree import DetectSettings

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SERIES = Series(app="shop", environment="production", slice="", metric="groundedness", rubric_id="r1")
SETTINGS = DetectSettings()


def rows(defects: Sequence[int], *, series: Series = SERIES, of: int = 100) -> list[Rollup]:
    """A row an hour, each of `of` scored turns with so many defects."""
    return [
        Rollup(
            series=series,
            release="",
            start=START + number * HOUR,
            length=HOUR,
            sums=sums_of(of, k),
        )
        for number, k in enumerate(defects)
    ]


def printed(rollups: Sequence[Rollup], *baselines: Baseline, now: datetime = START + 8 * DAY) -> tuple[str, ...]:
    """The lines for these rows."""
    statuses = baseline_statuses(rollups, {baseline.series: baseline for baseline in baselines}, SETTINGS, now=now)
    return status_lines(statuses, SETTINGS)


def baseline(hours: int) -> Baseline:
    """The first so many hours."""
    return Baseline(series=SERIES, start=START, end=START + hours * HOUR, pinned_by="first_windows")


def test_it_still_learns() -> None:
    """Without a baseline it says until when, and how much data is missing."""
    (line,) = printed(rows([1] * 3), now=START + 3 * HOUR)
    assert line.startswith(
        "groundedness of shop (production): no baseline yet, learning it until 2026-03-08 00:00 UTC and until 24 "
        "windows have data (3 so far); until then only a release"
    )
    (later,) = printed(rows([1] * 30), now=START + 30 * HOUR)
    assert "have data" not in later
    assert later.endswith("only a release worse than the one before it, which had 24 windows, raises an alert")


def test_what_is_normal() -> None:
    """With a baseline it says the rate of its turns, not of those that came after it."""
    (line,) = printed(rows([3] * 168 + [60] * 20), baseline(168))
    assert line.endswith("baseline 3.0% (2.8% to 3.3%), learnt from 2026-03-01 to 2026-03-08")


def test_a_regression_in_the_baseline() -> None:
    """A baseline whose halves surely differ has a warning with both rates; one that only scatters has none."""
    (line,) = printed(rows([3] * 84 + [38] * 84), baseline(168))
    assert line.endswith("warning: the rate changed in that time, from 3.0% in the first half to 38.0% in the second")
    (even,) = printed(rows([3, 4, 2, 3] * 42), baseline(168))
    assert "warning" not in even


def test_only_what_goes_on() -> None:
    """Slices, series without scores and those that ended before the horizon are left out."""
    sliced = replace(SERIES, slice="language=de")
    unscored = [replace(row, sums=Sums(turns=5)) for row in rows([0] * 3, series=replace(SERIES, app="quiet"))]
    assert () == printed([*rows([1] * 3, series=sliced), *unscored], now=START + 3 * HOUR)
    assert 1 == len(printed(rows([1]), now=START + 7 * DAY))
    assert () == printed(rows([1]), now=START + 7 * DAY + HOUR)
