"""Every table of the command line on a narrow screen: no name is cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from incident import alert_about, rise
from judged_turn import judged_turn
from rich.table import Table

from monitor.cli.check import Checked, check_table
from monitor.cli.judge_report import (
    agreement_table,
    forecast_table,
    injection_table,
    second_opinion_table,
    trial_table,
)
from monitor.cli.prompts import shipped_table
from monitor.detection.judge_agreement import SecondOpinionSummary
from monitor.display.fit import fitted
from monitor.display.tables import TrendRow, alert_table, trend_table, turn_table
from monitor.judging.trials.canary import Result, Trial, canaries
from monitor.judging.trials.cost_forecast import Forecast
from monitor.judging.trials.labelled import Measured
from monitor.model.judgements import Exchange, Finding, Job, SecondOpinionKind, Verdict
from monitor.model.trends import AlertState, Series, Sums
from monitor.statistics.agreement import agreement

APP = "customer-support-assistant-of-the-northern-region"
ENVIRONMENT = "production-europe-west"
RELEASE = "2026.11.30-a1b2c3d"
METRIC = "groundedness_in_our_own_handbook"
MODEL = "example-org/an-open-model-of-72-billion-parameters-instruct"
AT = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
TURN = replace(
    judged_turn(name="a-turn-whose-id-is-long"),
    app=APP,
    environment=ENVIRONMENT,
    error="RateLimitError",
    release=RELEASE,
)
_JOB = Job(turn_id=TURN.turn_id, content_hash="", metric=METRIC, rubric_id="r", probability=1.0)
VERDICT = Verdict(job=_JOB, finding=Finding(score=1.0, defect=True), exchange=Exchange(), judged_at=AT)


def _trends() -> Table:
    sums = Sums(turns=1_000_000, n=999_999, k=1, sw=999_999, sw2=999_999, cost_usd=123.45)
    row = TrendRow(
        app=APP,
        environment=ENVIRONMENT,
        metric=METRIC,
        rubric_id="r",
        start=AT,
        end=AT + timedelta(days=1),
        sums=sums,
        unscored={"expired": 12, "no_context": 3},
    )
    return trend_table([row])


def _alerts() -> Table:
    series = Series(app=APP, environment=ENVIRONMENT, slice="", metric=METRIC, rubric_id="r")
    return alert_table([alert_about(rise(series=series, recovered_at=AT), AlertState.RESOLVED)])


def _second_opinions() -> Table:
    return second_opinion_table(
        [
            SecondOpinionSummary(
                kind=SecondOpinionKind.ANCHOR,
                metric=METRIC,
                rubric_id="r",
                model=MODEL,
                fingerprint="",
                agreement=agreement([(True, True), (False, False)]),
                shift=0.1,
                shift_lower=-0.1,
                shift_upper=0.3,
            )
        ]
    )


def _agreement() -> Table:
    of = agreement([(True, True), (False, False)])
    return agreement_table(METRIC, [Measured(group=f"source={APP}", agreement=of, area=0.5, unscored={})])


def _forecast() -> Table:
    call = Forecast(metrics=(METRIC, "relevance"), turns=9, calls=1, input_tokens=1e4, output_tokens=1e3, usd=0.1)
    return forecast_table([call], 1000)


def _turns() -> Table:
    return turn_table([(TURN, (VERDICT,))])


def _injections() -> Table:
    return injection_table([VERDICT])


def _trials() -> Table:
    return trial_table([Trial(canary=replace(canaries()[0], technique=MODEL), result=Result.FLIPPED)])


def _parts() -> Table:
    return check_table([Checked(part="installation", ok=False, message=f"asking openai:{MODEL}: no connection")])


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize(
    ("table", "names"),
    [
        (_trends, (APP, ENVIRONMENT, METRIC, "2026-05-04 10:00", "not sampled", "not asked", "1000000")),
        (_trends, ("15: 12 expired, 3 no_context",)),
        (_turns, (TURN.turn_id[:12], APP, RELEASE, METRIC, "1 defect", "RateLimitError", "response")),
        (_alerts, (APP, ENVIRONMENT, METRIC, "continuous", "resolved", "normal rate", "20.0% (15.0% to 25.0%)")),
        (_second_opinions, (METRIC, MODEL, "another model answers", "shift of the score")),
        (_agreement, (f"source={APP}", METRIC, "passed rightly", "found are true")),
        (_forecast, (METRIC, "relevance", "output tokens", "$ per 1,000 turns")),
        (_injections, (TURN.turn_id, METRIC, "defect")),
        (_trials, (MODEL, *Result, "noticed")),
        (_parts, ("installation", "FAILED", MODEL)),
        (shipped_table, ("published_conversation_relevance_reference", "spring_fact_checking", "what it is")),
    ],
)
def test_a_narrow_screen(table: Callable[[], Table], names: tuple[str, ...], width: int) -> None:
    """Each name, heading and number stands whole on a line."""
    text = fitted(table(), width)
    assert [] == [name for name in names if not any(name in line for line in text.splitlines())]
    assert "…" not in text


def test_a_wide_screen() -> None:
    """Where there is room a table is a table: a heading, and a line a row."""
    heads = [line for line in fitted(_alerts(), 250).splitlines() if "state" in line]
    assert 1 == len(heads)
    assert "normal rate" in heads[0]
