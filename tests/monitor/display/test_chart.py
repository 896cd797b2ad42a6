"""Trends as pictures."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest

from monitor.display.chart import Mark, Point, trend_svg

START = datetime(2026, 3, 1, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


def point(hour: int, rate: float) -> Point:
    """Return one hour."""
    start = START + timedelta(hours=hour)
    return Point(start=start, end=start + timedelta(hours=1), rate=rate, lower=rate / 2, upper=rate * 2, n=10)


def test_every_point_and_mark_is_drawn() -> None:
    """One dot a point, one line and label a mark; labels are escaped."""
    marks = [Mark(at=START + timedelta(hours=2), kind="release", label="release <2>")]
    root = ET.fromstring(trend_svg([point(h, 0.1) for h in range(5)], marks, title="t"))  # noqa: S314 -- ours
    assert len(root.findall(f"{SVG}circle")) == 5
    assert [t.text for t in root.findall(f"{SVG}text") if t.text and "release" in t.text] == ["release <2>"]


def test_marks_close_together_do_not_overlap() -> None:
    """Labels whose texts would touch go on different rows."""
    marks = [Mark(at=START + timedelta(minutes=m), kind="onset", label="regression began") for m in (0, 5, 10)]
    root = ET.fromstring(trend_svg([point(h, 0.1) for h in range(48)], marks, title="t"))  # noqa: S314 -- ours
    rows = [t.get("y") for t in root.findall(f"{SVG}text") if t.text == "regression began"]
    assert len(set(rows)) == 3


def test_no_points_is_an_error() -> None:
    """An empty trend is refused, not drawn as zero."""
    with pytest.raises(ValueError, match="at least one point"):
        trend_svg([], [], title="t")
