"""What came out of the demo, for a person: lines for the terminal and a page with the picture."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from html import escape

from monitor.cli.demonstration import Demonstration, Period
from monitor.display.alert_text import explanation, headline, instant, percent
from monitor.display.chart import Mark, Point, trend_svg
from monitor.display.tables import short, trend_rows
from monitor.statistics.rates import wilson_rate

_POINT = timedelta(hours=6)


def lines(demo: Demonstration) -> tuple[str, ...]:
    """Return the report, a paragraph's line at a time."""
    firing = next((a for a in demo.alerts if a.firing_at), None)
    what = f"{demo.metric} (a lexical proxy, not a model's judgement)" if demo.proxy else demo.metric
    report = [
        f"Judged {demo.judged} of {demo.before.turns + demo.after.turns} turns for {what}.",
        _period("Before the release", demo.before),
        _period("After it", demo.after),
    ]
    if firing is None:
        report.append("No alert fired.")
    else:
        began, fired = firing.regression.began_at, firing.regression.detected_at
        waited = (fired - demo.scenario.released_at) / timedelta(hours=1)
        side = "after" if waited >= 0 else "before"
        report += [
            f"Release 2.0.0 went out {instant(demo.scenario.released_at)}.",
            f"The regression began {instant(began)}.",
            f"The alert fired {instant(fired)}, {abs(waited):.0f} h {side} the release.",
            explanation(firing),
        ]
    report += [
        "The worst turns after it:",
        *(f"  {line}" for line in _worst(demo) or ["none was called a defect"]),
    ]
    hit, alarm, missed, passed = demo.agreement
    report.append(
        f"Against the truth, turn by turn: {hit} of {hit + missed} defects found, "
        f"{alarm} of {alarm + passed} good answers called defects."
    )
    if demo.proxy:
        report.append(f"A judge model (groundedness and relevance) would have cost about ${demo.cost_usd:.2f}.")
    else:
        report.append(f"The judge model cost ${demo.cost_usd:.2f}.")
    return tuple(report)


def page(demo: Demonstration) -> str:
    """Return an HTML page with the trend, its interval, the truth, the release and the alerts."""
    title = f"Defect rate by {demo.metric}"
    marks = [Mark(at=demo.scenario.released_at, kind="release", label="release 2.0.0")]
    for alert in demo.alerts:
        if alert.firing_at:
            regression = alert.regression
            marks.append(Mark(at=regression.began_at, kind="onset", label="regression began"))
            marks.append(Mark(at=regression.detected_at, kind="alert", label="alert fired"))
            if regression.recovered_at:
                marks.append(Mark(at=regression.recovered_at, kind="recovered", label="recovered"))
    points = _points(demo)
    svg = trend_svg(points, marks, title=title) if points else "<p>No turn was judged.</p>"
    heads = [headline(alert) for alert in demo.alerts if alert.firing_at]
    paragraphs = "".join(f"<p>{escape(line)}</p>" for line in (*heads, *lines(demo)))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        "<style>body{font-family:system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#111827}"
        "svg{width:100%;height:auto}figcaption{color:#4b5563;font-size:.9rem}</style>"
        f"<h1>{escape(title)}</h1><figure>{svg}<figcaption>Every six hours: the estimated rate (dots), its 95 % "
        "interval (band) and the true rate (rings), which only the simulated app knows. Times in UTC."
        "</figcaption></figure>"
        f"{paragraphs}</html>"
    )


def _period(name: str, period: Period) -> str:
    estimate = period.estimate
    shown = (
        f"{percent(estimate.value)} defects (95 % interval {percent(estimate.lower)} to {percent(estimate.upper)})"
        if estimate
        else "no turn judged"
    )
    aside = period.turns - period.applicable
    return (
        f"{name}: {shown}; the truth is {percent(period.truth)} of {period.applicable} answers that state "
        f"something over retrieved documents ({aside} other turns: refusals, failures, nothing retrieved)."
    )


def _worst(demo: Demonstration) -> Sequence[str]:
    return [
        f"{w.turn.turn_id}  score {w.verdict.finding.score or 0:.2f}  {'invented' if w.true_defect else 'true'}  "
        f"{short(w.turn.query)} -> {short(w.turn.response)}"
        for w in demo.worst
    ]


def _points(demo: Demonstration) -> Sequence[Point]:
    points = []
    for row in trend_rows(demo.rollups, by=_POINT):
        rate = wilson_rate(row.sums)
        if rate is None or row.metric != demo.metric:
            continue
        true = [bad for turn_id, bad in demo.truths.items() if row.start <= demo.starts[turn_id] < row.end]
        points.append(
            Point(
                start=row.start,
                end=row.end,
                rate=rate.value,
                lower=rate.lower,
                upper=rate.upper,
                n=row.sums.n,
                truth=sum(true) / len(true) if true else None,
            )
        )
    return points
