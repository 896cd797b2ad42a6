"""What is printed: JSON lines for programs, tables for people; windows added up, text kept apart from markup."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incident import SHOP, alert_about, rise
from judged_turn import judged_turn
from rich.console import Console
from rich.table import Table

from monitor.display.tables import (
    TrendRow,
    alert_line,
    alert_table,
    printable,
    short,
    trend_line,
    trend_rows,
    trend_table,
    turn_line,
    turn_table,
)
from monitor.model.judgements import Exchange, Finding, Job, Reason, Unscored, Verdict
from monitor.model.trends import Alert, Rollup, Series, Sums
from monitor.model.turns import Citation, Message

HOUR = timedelta(hours=1)
THURSDAY = datetime(2026, 3, 5, tzinfo=UTC)


def rollup(
    start: datetime,
    *,
    series: Series = SHOP,
    release: str = "",
    unscored: Mapping[str, int] | None = None,
    **sums: int,
) -> Rollup:
    """One window of an hour."""
    return Rollup(series=series, release=release, start=start, length=HOUR, sums=Sums(**sums), unscored=unscored or {})


def alert(**changed: object) -> Alert:
    """A firing alert about a rise to 25 %, of which the regression has `changed`."""
    regression = rise(began_at=THURSDAY, detected_at=THURSDAY + HOUR, rate=0.25, rate_lower=0.2, rate_upper=0.31)
    return alert_about(replace(regression, null_rate=0.07, **changed))  # type: ignore[arg-type]


def drawn(table: Table) -> str:
    """The table as text."""
    console = Console(width=1000)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_windows_add_up_over_releases_and_hours() -> None:
    """Every number of a day is the sum of its windows', of all releases; reasons are added one by one."""
    rollups = [
        rollup(THURSDAY, release="1", turns=10, n=4, k=1, pending=1, unscored={"no_context": 2}),
        rollup(THURSDAY, release="2", turns=5, n=5, k=5),
        rollup(THURSDAY + 23 * HOUR, release="2", turns=3, unscored={"no_context": 1, "timeout": 1}),
        rollup(THURSDAY + 24 * HOUR, turns=1),
    ]
    first, second = trend_rows(rollups, by=timedelta(days=1))
    assert (18, 9, 6, 1, 4) == (first.sums.turns, first.sums.n, first.sums.k, first.sums.pending, first.not_sampled)
    assert {"no_context": 3, "timeout": 1} == first.unscored
    assert (THURSDAY, THURSDAY + timedelta(days=1)) == (first.start, first.end)
    assert 1 == second.sums.turns


def test_slices_are_left_out() -> None:
    """A slice is a part of the whole app and is not counted twice."""
    sliced = replace(SHOP, slice="language=de")
    (row,) = trend_rows([rollup(THURSDAY, turns=2), rollup(THURSDAY, series=sliced, turns=1)], by=HOUR)
    assert 2 == row.sums.turns


def test_metrics_apps_and_rubrics_stay_apart() -> None:
    """Numbers of one series are never added to another's."""
    others = [replace(SHOP, metric="relevance"), replace(SHOP, app="a"), replace(SHOP, rubric_id="r2")]
    others.append(replace(SHOP, environment="staging"))
    rows = trend_rows([rollup(THURSDAY, series=series, turns=1) for series in (SHOP, *others)], by=HOUR)
    assert [1] * 5 == [row.sums.turns for row in rows]
    assert sorted([SHOP, *others], key=lambda s: (s.app, s.environment, s.metric, s.rubric_id)) == [
        Series(app=r.app, environment=r.environment, slice="", metric=r.metric, rubric_id=r.rubric_id) for r in rows
    ]


def test_weeks_begin_on_monday() -> None:
    """A week is that of ISO 8601, in UTC."""
    sunday = THURSDAY + timedelta(days=3, hours=23)
    first, second = trend_rows([rollup(THURSDAY), rollup(sunday), rollup(sunday + HOUR)], by=timedelta(weeks=1))
    monday = datetime(2026, 3, 2, tzinfo=UTC)
    assert (monday, monday + timedelta(weeks=1)) == (first.start, first.end)
    assert monday + timedelta(weeks=1) == second.start


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 400), st.sampled_from(["", "1", "2"])), min_size=1, max_size=30
    ),
    st.sampled_from([HOUR, timedelta(hours=6), timedelta(days=1), timedelta(weeks=1)]),
)
def test_no_turn_is_lost_or_doubled(windows: list[tuple[int, int, str]], by: timedelta) -> None:
    """However windows are added up, the turns stay the same, and each row lies in its own stretch of time."""
    rollups = [rollup(THURSDAY + at * HOUR, release=release, turns=turns) for turns, at, release in windows]
    rows = trend_rows(rollups, by=by)
    assert sum(turns for turns, _, _ in windows) == sum(row.sums.turns for row in rows)
    assert all(before.end <= after.start for before, after in pairwise(rows))


def test_rate_of_nothing_is_unknown() -> None:
    """Where nothing was scored there is no rate: neither zero nor a hundred per cent."""
    (row,) = trend_rows([rollup(THURSDAY, turns=3, pending=3)], by=HOUR)
    line = json.loads(trend_line(row))
    assert [None] * 5 == [line[key] for key in ("defect_rate", "lower", "upper", "confidence", "mean_score")]
    assert "no turn scored" in drawn(trend_table([row]))


def test_trend_accounts_for_every_turn() -> None:
    """Turns are the scored, the unscored by reason, the pending and the not sampled."""
    (row,) = trend_rows([rollup(THURSDAY, turns=9, n=3, sw=3, sw2=3, pending=1, unscored={"refused": 2})], by=HOUR)
    line = json.loads(trend_line(row))
    assert line["turns"] == line["scored"] + line["pending"] + line["not_sampled"] + sum(line["unscored"].values())
    assert 3 == line["not_sampled"]


def judged(**unscored: int) -> TrendRow:
    """A hundred turns, of which 16 of 80 scored ones are defects."""
    sums = {"turns": 100, "sampled": 100, "n": 80, "k": 16, "sw": 80, "sw2": 80, "swx": 16, "sw2x": 16}
    (row,) = trend_rows([rollup(THURSDAY, unscored=unscored, **sums)], by=HOUR)
    return row


def test_bounds_of_a_rate() -> None:
    """Beside the rate stands what it would be if all turns whose judging failed had passed, or none of them."""
    line = json.loads(trend_line(judged(content_filter=15, refused=5, no_context=40)))
    assert 0.2 == line["defect_rate"]
    assert {"failed": 20, "lower": pytest.approx(0.16), "upper": pytest.approx(0.36)} == line["bounds"]


def test_turns_that_a_metric_is_not_about_leave_nothing_open() -> None:
    """Without failed judgements there are no bounds."""
    assert json.loads(trend_line(judged(no_context=40, no_claims=3)))["bounds"] is None


def test_turn_line_says_what_is_not_known() -> None:
    """No retrieval seen, retrieval that found nothing and a document without text are three different things."""
    turn = judged_turn()
    for citations, printed in ((None, None), ((), [])):
        assert printed == json.loads(turn_line(replace(turn, citations=citations)))["citations"]
    (citation,) = json.loads(turn_line(replace(turn, citations=(Citation(id="kb-1"),))))["citations"]
    assert ("kb-1", None, "unknown", None) == tuple(citation[key] for key in ("id", "content", "score_kind", "used"))


def test_turn_line_is_one_line() -> None:
    """Line ends of the text are escaped, so a line is a turn."""
    turn = replace(judged_turn("a\nb\u2028c\r\n"), history=(Message(role="user", content="x\ny"),))
    assert 1 == len(turn_line(turn).split("\n"))
    assert "a\nb\u2028c\r\n" == json.loads(turn_line(turn))["response"]


def test_turn_with_its_verdicts() -> None:
    """The last outcome of each metric stands beside the turn, a defect called so, a failure by its reason."""
    turn = replace(judged_turn(), release="2.0.0")
    jobs = {
        name: Job(turn_id=turn.turn_id, content_hash="", metric=name, rubric_id="r", probability=1.0)
        for name in ("groundedness", "relevance", "safety")
    }
    good, bad = Finding(score=5.0, defect=False), Finding(score=1.0, defect=True)
    outcomes = [
        Verdict(job=jobs["groundedness"], finding=bad, exchange=Exchange(), judged_at=THURSDAY + HOUR),
        Verdict(job=jobs["groundedness"], finding=good, exchange=Exchange(), judged_at=THURSDAY),
        Verdict(job=jobs["relevance"], finding=good, exchange=Exchange(), judged_at=THURSDAY),
        Unscored(job=jobs["safety"], reason=Reason.EXPIRED, judged_at=THURSDAY),
    ]
    row = drawn(turn_table([(turn, outcomes), (judged_turn(name="2"), ())])).splitlines()[4]
    assert ["2.0.0", "1 defect", "5", "expired"] == [cell.strip() for cell in row.split("│")[4:8]]
    assert {
        "groundedness": {"score": 1.0, "defect": True, "reason": None},
        "relevance": {"score": 5.0, "defect": False, "reason": None},
        "safety": {"score": None, "defect": None, "reason": "expired"},
    } == json.loads(turn_line(turn, outcomes))["outcomes"]


def test_trend_table_says_why_there_is_no_score() -> None:
    """Reasons stand beside their counts, and what the lexical proxy does not see below its numbers."""
    table = drawn(trend_table([judged(expired=15, no_context=3)]))
    assert "18: 15 expired, 3 no_context" in table
    assert "SummEdits" not in table
    assert "AUC 0.54 on SummEdits" in drawn(trend_table([replace(judged(), metric="groundedness_proxy")]))


def test_alert_line_and_table() -> None:
    """An alert is printed with its defect rate and the normal one; the table shows when it recovered."""
    line = json.loads(alert_line(alert()))
    assert (0.25, 0.05, 0.07) == (line["rate"], line["baseline_rate"], line["null_rate"])
    assert ("2026-03-05T01:00:00Z", None) == (line["firing_at"], line["resolved_at"])
    table = drawn(alert_table([alert()]))
    assert "groundedness of shop (production)" in table
    assert "25.0% (20.0% to 31.0%)" in table
    assert "5.0%, up to 7.0%" in table
    over = alert(recovered_at=THURSDAY + 30 * HOUR)
    assert "2026-03-06 06:00" in drawn(alert_table([over]))


def test_text_is_no_markup() -> None:
    """Brackets in what users and apps wrote are printed and neither obeyed nor taken for an error."""
    turn = replace(judged_turn("[/b] [red]x", query="[bold]"), app="[/]", flags=frozenset({"[x]"}))
    table = drawn(turn_table([(turn, ())]))
    assert all(text in table for text in ("[/b] [red]x", "[bold]", "[/]", "[x]"))
    assert "[/red]" in drawn(alert_table([alert(series=replace(SHOP, app="[/red]"))]))


def test_terminals_obey_nothing() -> None:
    """Escape sequences and marks that turn writing round are escaped; other scripts, tabs and line ends stay."""
    assert r"\x1b[31mred\x07" == printable("\x1b[31mred\x07")
    assert r"\u202eb" == printable("\u202eb")
    kept = "a\tb\nc äß 你好\u3000한국어 👩\u200d👧"
    assert kept == printable(kept)


@pytest.mark.parametrize("app", ["a" * 100_000, "a\n" * 50_000, "\x1b[2J\t\r\n\u2028\u202e"])
def test_one_app_spoils_no_table(app: str) -> None:
    """Tables keep their width and a row a line, whatever an app calls itself; JSON lines have the name as it is."""
    turn = replace(judged_turn("fine"), app=app, environment=app, error=app)
    series = replace(SHOP, app=app, environment=app, slice=f"language={app}")
    (row,) = trend_rows([rollup(THURSDAY, series=replace(series, slice=""), turns=1)], by=HOUR)
    named = alert(series=series)
    tables = {
        turn_table([(turn, ())]): turn_line(turn),
        trend_table([row]): trend_line(row),
        alert_table([named]): alert_line(named),
    }
    for table, line in tables.items():
        lines = drawn(table).splitlines()
        assert 6 == len(lines)
        assert max(map(len, lines)) < 400
        assert app == json.loads(line)["app"]


def test_short_text() -> None:
    """Text is cut to 60 characters on one line."""
    assert ("", "a b", "x" * 60) == (short(None), short(" a\n\tb "), short("x" * 60))
    assert "x" * 59 + "…" == short("x" * 61)
