"""Alerts as channels are to announce them, one of them about an app whose names are hostile, and what they came to."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from incident import BEGAN_AT, SHOP, alert_about, rise

from monitor.model.trends import Alert, AlertState, Series

HOSTILE_APP = "<!channel> <a href='https://e.example'>x</a> [y](https://e.example) \u202e*b*\r\nBcc: m@e.example"
HOSTILE = Series(app=HOSTILE_APP, environment="<@U1> & co", slice="a=\u2028_b_", metric="safety", rubric_id="r1")
LINK = "https://m.example/alerts/{alert_id}"


def firing(series: Series = SHOP) -> Alert:
    """Return an alert about a release that fires."""
    return alert_about(rise(series=series, rule="release", release="1.5.0", promise="The promise."))


def resolved(series: Series = SHOP) -> Alert:
    """Return the same alert once it is over."""
    alert = firing(series)
    over = replace(alert.regression, recovered_at=BEGAN_AT + timedelta(hours=9))
    return replace(alert, state=AlertState.RESOLVED, regression=over, resolved_at=over.recovered_at)


def long_names() -> Series:
    """Return a series whose names are as long as a request may be."""
    return Series(app="&" * 100_000, environment="<" * 100_000, slice="f=" + "&" * 9000, metric="safety", rubric_id="r")
