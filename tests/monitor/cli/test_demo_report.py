"""The demo's report says what was found, also when that is not what was hoped for."""

import re
from dataclasses import replace
from datetime import timedelta
from xml.etree import ElementTree as ET

from incident import alert_about, rise
from judged_turn import ASKED_AT, judged_turn
from window_sums import sums_of

from monitor.cli.demo_report import lines, page
from monitor.cli.demonstration import Demonstration, JudgedTurn, Period, Scenario
from monitor.model.judgements import Exchange, Finding, Job, Verdict
from monitor.model.trends import Alert, Rollup, Series
from monitor.statistics.rates import Rate

START = ASKED_AT.replace(hour=0)
RELEASED = START + timedelta(days=3)
SERIES = Series(app="python-docs-chat", environment="", slice="", metric="groundedness_proxy", rubric_id="r1")
QUESTION = 'What does <b>"with"</b> do?'


def rate(value: float) -> Rate:
    """An estimate within four points."""
    return Rate(value=value, lower=value - 0.04, upper=value + 0.04, confidence=0.95, scored=100, n_eff=100.0)


def alert() -> Alert:
    """A firing alert, six hours after the release."""
    regression = rise(
        series=SERIES,
        rule="release",
        began_at=RELEASED + timedelta(hours=2),
        detected_at=RELEASED + timedelta(hours=6),
        release="2.0.0",
        promise="A promise.",
    )
    return alert_about(regression)


def worst(score: float | None) -> JudgedTurn:
    """A turn that was called a defect."""
    job = Job(turn_id="t", content_hash="c", metric="groundedness_proxy", rubric_id="r1", probability=0.5)
    finding = Finding(score=score, defect=True)
    verdict = Verdict(job=job, finding=finding, exchange=Exchange(), judged_at=RELEASED)
    return JudgedTurn(turn=judged_turn(query=QUESTION), verdict=verdict, true_defect=True)


def rollup(hours: int, defects: int) -> Rollup:
    """An hour with ten judged turns."""
    sums = sums_of(10, defects, weight=2, sws=10)
    start = START + timedelta(hours=hours)
    return Rollup(series=SERIES, release="", start=start, length=timedelta(hours=1), sums=sums)


FOUND = Demonstration(
    scenario=Scenario(days=6, start=START),
    metric="groundedness_proxy",
    proxy=True,
    before=Period(turns=400, applicable=360, estimate=rate(0.06), true_defects=18),
    after=Period(turns=300, applicable=250, estimate=rate(0.3), true_defects=75),
    alerts=(alert(),),
    worst=(worst(0.01), worst(None)),
    judged=310,
    agreement=(55, 1, 2, 252),
    cost_usd=0.138,
    rollups=(rollup(10, 1), rollup(80, 3)),
    truths={"t": True},
    starts={"t": START + timedelta(hours=80)},
)


def test_estimate_stands_beside_the_truth() -> None:
    """Both periods name estimate, interval and truth, and how many turns the truth is about."""
    report = lines(FOUND)
    assert "Judged 310 of 700 turns for groundedness_proxy (a lexical proxy, not a model's judgement)." == report[0]
    assert report[1].startswith("Before the release: 6.00 % defects (95 % interval 2.00 % to 10.0 %); ")
    assert "the truth is 5.00 % of 360 answers" in report[1]
    assert "(40 other turns: " in report[1]
    assert "the truth is 30.0 % of 250 answers" in report[2]


def test_alert_is_told_with_its_delay() -> None:
    """Release, onset and alert are in order, with the hours between."""
    report = "\n".join(lines(FOUND))
    assert "Release 2.0.0 went out 7 Mar 2026 00:00 UTC.\nThe regression began 7 Mar 2026 02:00 UTC.\n" in report
    assert "The alert fired 7 Mar 2026 06:00 UTC, 6 h after the release.\n" in report
    assert "A promise." in report


def test_false_alarm_is_told_as_one() -> None:
    """An alert before the release is said to be before it."""
    early = alert()
    regression = replace(early.regression, detected_at=RELEASED - timedelta(hours=5))
    report = lines(replace(FOUND, alerts=(replace(early, regression=regression),)))
    assert any("5 h before the release" in line for line in report)


def test_nothing_found_is_told() -> None:
    """Without an alert, a verdict or a bad turn the report says so."""
    nothing = Period(turns=0, applicable=0, estimate=None, true_defects=0)
    report = lines(replace(FOUND, alerts=(), worst=(), before=nothing, after=nothing, rollups=(), judged=0))
    assert "No alert fired." in report
    assert "  none was called a defect" in report
    assert report[1].startswith("Before the release: no turn judged; the truth is 0.000 % of 0 answers")
    assert "<p>No turn was judged.</p>" in page(replace(FOUND, rollups=()))


def test_agreement_counts_both_kinds_of_error() -> None:
    """Found and missed defects, and good answers that were blamed."""
    assert any("55 of 57 defects found, 1 of 253 good answers called defects." in line for line in lines(FOUND))


def test_cost_is_told_as_what_it_is() -> None:
    """What a model would have cost is no expense; what it did cost is one."""
    assert "A judge model (groundedness and relevance) would have cost about $0.14." == lines(FOUND)[-1]
    assert "The judge model cost $0.14." == lines(replace(FOUND, proxy=False))[-1]


def test_page_is_well_formed_and_escaped() -> None:
    """Texts of users are no markup; the picture has estimate, truth, release and alert."""
    html = page(FOUND)
    svg = re.search(r"<svg.*</svg>", html, re.DOTALL)
    assert svg
    picture = ET.fromstring(svg[0])  # noqa: S314 -- our own
    text = " ".join(picture.itertext())
    assert all(word in text for word in ("release 2.0.0", "alert fired", "regression began"))
    assert "<b>" not in html
    assert html.startswith('<!doctype html><html lang="en">')


def test_covered_is_inclusive() -> None:
    """A truth on the edge of the interval is in it; without an estimate nothing is."""
    period = Period(turns=100, applicable=100, estimate=rate(0.25), true_defects=29)
    assert period.covered
    assert not replace(period, true_defects=30).covered
    assert not replace(period, estimate=None).covered
