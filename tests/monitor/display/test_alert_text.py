"""Alerts in plain words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incident import alert_about, rise

from monitor.display.alert_text import explanation, headline, instant, one_line, percent, subject
from monitor.model.trends import Alert, AlertState, Series
from monitor.text.invisible import escaped

BEGAN = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)


def alert(*, series: Series, recovered_at: datetime | None = None) -> Alert:
    """Return an alert in the state that its regression is in."""
    regression = rise(series=series, recovered_at=recovered_at, rate_upper=0.26, baseline_rate=0.004, null_rate=0.01)
    return alert_about(regression, AlertState.FIRING if recovered_at is None else AlertState.RESOLVED)


@pytest.mark.parametrize(
    ("environment", "slice_", "expected"),
    [
        ("", "", "relevance of bot"),
        ("production", "", "relevance of bot (production)"),
        ("", "language=de", "relevance of bot (language=de)"),
        ("production", "language=de", "relevance of bot (production, language=de)"),
    ],
)
def test_a_subject_names_only_what_is_known(environment: str, slice_: str, expected: str) -> None:
    """No empty brackets and no dangling comma."""
    series = Series(app="bot", environment=environment, slice=slice_, metric="relevance", rubric_id="r")
    assert subject(series) == expected


def test_firing_and_resolved_read_differently() -> None:
    """The headline says that it rose or is over; the text says since, or from when to when."""
    series = Series(app="bot", environment="", slice="", metric="relevance", rubric_id="r")
    firing, over = alert(series=series), alert(series=series, recovered_at=BEGAN + timedelta(hours=9))
    assert headline(firing) == "relevance of bot: defect rate rose to 20.0 % (normal: 0.400 %)"
    assert headline(over) == "relevance of bot: incident is over, the defect rate was 20.0 % (normal: 0.400 %)"
    rate = "20.0 % of the judged turns are defects (95 % interval: 15.0 % to 26.0 %)."
    assert explanation(firing).startswith(f"Since 4 May 2026 10:00 UTC {rate}")
    assert explanation(over).startswith(f"From 4 May 2026 10:00 UTC to 4 May 2026 19:00 UTC {rate}")
    assert "The normal rate is 0.400 %; up to 1.00 % still counts as normal." in explanation(firing)


def test_instants_are_shown_in_utc() -> None:
    """Another zone's instant is the same instant."""
    berlin = timezone(timedelta(hours=2))
    assert instant(datetime(2026, 5, 4, 12, 0, tzinfo=berlin)) == "4 May 2026 10:00 UTC"


def test_small_rates_keep_their_digits() -> None:
    """A rate below one in a thousand is not shown as zero."""
    assert [percent(share) for share in (0, 0.00052, 0.0205, 0.5, 1)] == [
        "0.000 %", "0.052 %", "2.05 %", "50.0 %", "100.0 %",
    ]  # fmt: skip


@given(st.text(), st.integers(1, 80))
def test_one_line(name: str, most: int) -> None:
    """Whatever a name holds, it stays one line of so many characters; one that needs nothing stays as it is."""
    line = one_line(name, most=most)
    assert len(line) <= most
    assert [line] == (line.splitlines() or [""])
    assert line == escaped(line)
    if name.isalnum() and len(name) <= most:
        assert name == line


@pytest.mark.parametrize("name", ["a" * 100_000, "a\n\x1b[2J" * 10_000])
def test_names_break_no_sentence(name: str) -> None:
    """An alert on an app of any name is described in lines that stay short and that no terminal obeys."""
    series = Series(app=name, environment=name, slice=f"language={name}", metric="relevance", rubric_id="r")
    named = alert(series=series)
    named = replace(named, regression=replace(named.regression, release=name))
    for text in (subject(series), headline(named), explanation(named)):
        assert text.isprintable()
        assert len(text) < 500


HOSTILE = (
    "<a href='https://x.example/login'>shop</a><img src=x onerror=alert(1)>", "<!channel> <@U1|you>", "@here @everyone",
    "[log in](https://x.example)", "![x](http://x.example/p.png)", "*shop* `x` ~y~ &lt;b&gt;",
    "shop\u202e\u200e\u200f\u061c\u200b", "\r\nBcc: all@example.org",
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text(name: str) -> None:
    """A name is text to whoever takes an alert for HTML, Markdown, Slack's markup or the head of a mail."""
    series = Series(app=name, environment=name, slice=f"language={name}", metric=name, rubric_id="r")
    named = alert(series=series)
    named = replace(named, regression=replace(named.regression, release=name, judge_change=f"From {name} to y."))
    for text in (headline(named), explanation(named)):
        assert not set("<>&[]@*`~") & set(text)
        assert "://" not in text
        assert text == escaped(text)
        assert "defect" in text
