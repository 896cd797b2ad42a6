"""A trend as a picture: rate with its interval over time, releases and alerts as marks. Values in, SVG text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

_WIDTH, _HEIGHT = 960, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 56, 44
_MARK_COLOURS = {"release": "#5b6b7f", "onset": "#b45309", "alert": "#b91c1c", "recovered": "#15803d"}
_LABEL_HEIGHT = 15
_TOPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
_DAY = 24
_STEPS = (1, 3, 6, 12, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 30 * _DAY)
_MOST_LABELS = 12
_CHARACTER = 6.4
"""Width of a label's character at 12 px, measured on common sans-serif fonts; only keeps labels apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The rate over one window, with its interval; shares in [0, 1]."""

    start: datetime
    end: datetime
    rate: float
    lower: float
    upper: float
    n: int
    truth: float | None = None
    """The true rate, where somebody knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened at one instant; `kind` is `release`, `onset`, `alert` or `recovered`."""

    at: datetime
    kind: str
    label: str


def trend_svg(points: Sequence[Point], marks: Sequence[Mark], *, title: str) -> str:
    """Return a standalone SVG element: points in order of time, at least one.

    Raises:
        ValueError: there are no points.
    """
    if not points:
        raise ValueError("a trend needs at least one point")
    scale = _Scale(points, marks)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
    parts = [
        f'{head} font-family="system-ui, sans-serif" font-size="12"><title>{escape(title)}</title>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        *_axes(scale),
        _band(points, scale),
        _line(points, scale),
        *_dots(points, scale),
        *_marks(marks, scale),
        "</svg>",
    ]
    return "".join(parts)


class _Scale:
    """Maps instants and rates to pixels."""

    def __init__(self, points: Sequence[Point], marks: Sequence[Mark]) -> None:
        self.first = min([points[0].start, *(m.at for m in marks)])
        self.last = max([points[-1].end, *(m.at for m in marks)])
        # A single wide interval must not flatten the rest: the axis follows rates and the median upper limit.
        uppers = sorted(p.upper for p in points)
        highest = max(*(p.rate for p in points), *(p.truth or 0.0 for p in points), uppers[len(uppers) // 2])
        self.top = next(top for top in _TOPS if top >= min(1.0, highest * 1.15))

    def x(self, at: datetime) -> float:
        span = (self.last - self.first) or timedelta(seconds=1)
        return _LEFT + (at - self.first) / span * (_WIDTH - _LEFT - _RIGHT)

    def y(self, rate: float) -> float:
        return _HEIGHT - _BOTTOM - min(rate, self.top) / self.top * (_HEIGHT - _TOP - _BOTTOM)


def _middle(point: Point) -> datetime:
    return point.start + (point.end - point.start) / 2


def _axes(scale: _Scale) -> list[str]:
    parts = []
    for i in range(6):
        rate = scale.top * i / 5
        y = scale.y(rate)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>')
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#4b5563">{rate * 100:.3g} %</text>'
        )
    span = scale.last - scale.first
    step = next((hours for hours in _STEPS if span / timedelta(hours=hours) <= _MOST_LABELS), 2160)
    tick = scale.first.replace(hour=0, minute=0, second=0, microsecond=0)
    while tick <= scale.last:
        if tick >= scale.first:
            label = tick.strftime("%d %b" if step >= _DAY else "%d %b %H:%M")
            x = scale.x(tick)
            parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 20}" text-anchor="middle" fill="#4b5563">{label}</text>')
        tick += timedelta(hours=step)
    return parts


def _band(points: Sequence[Point], scale: _Scale) -> str:
    above = [f"{scale.x(_middle(p)):.1f},{scale.y(p.upper):.1f}" for p in points]
    below = [f"{scale.x(_middle(p)):.1f},{scale.y(p.lower):.1f}" for p in reversed(points)]
    return f'<polygon points="{" ".join(above + below)}" fill="#2563eb" fill-opacity="0.18"/>'


def _line(points: Sequence[Point], scale: _Scale) -> str:
    at = " ".join(f"{scale.x(_middle(p)):.1f},{scale.y(p.rate):.1f}" for p in points)
    return f'<polyline points="{at}" fill="none" stroke="#1d4ed8" stroke-width="2"/>'


def _dots(points: Sequence[Point], scale: _Scale) -> list[str]:
    parts = []
    for p in points:
        x = scale.x(_middle(p))
        label = f"{_middle(p):%d %b %H:%M} UTC: {p.rate:.1%} ({p.lower:.1%} to {p.upper:.1%}), {p.n} judged"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{scale.y(p.rate):.1f}" r="3" fill="#1d4ed8"><title>{label}</title></circle>'
        )
        if p.truth is not None:
            parts.append(
                f'<circle cx="{x:.1f}" cy="{scale.y(p.truth):.1f}" r="4" fill="none" stroke="#111827">'
                f"<title>true rate {p.truth:.1%}</title></circle>"
            )
    return parts


def _marks(marks: Sequence[Mark], scale: _Scale) -> list[str]:
    parts: list[str] = []
    rows: list[float] = []
    for mark in sorted(marks, key=lambda m: m.at):
        colour = _MARK_COLOURS[mark.kind]
        x = scale.x(mark.at)
        width = len(mark.label) * _CHARACTER
        left = min(x, _WIDTH - _RIGHT - width)
        row = next((i for i, end in enumerate(rows) if left > end + 8), len(rows))
        rows[row : row + 1] = [left + width]
        y = _LABEL_HEIGHT * (row + 1)
        dash = "" if mark.kind == "alert" else ' stroke-dasharray="5 4"'
        ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{y + 4}" y2="{_HEIGHT - _BOTTOM}"'
        parts.append(f'<line {ends} stroke="{colour}" stroke-width="1.5"{dash}/>')
        parts.append(f'<text x="{left:.1f}" y="{y}" fill="{colour}">{escape(mark.label)}</text>')
    return parts
