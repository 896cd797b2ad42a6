"""The shipped dashboard: Grafana's schema, its queries on a real database, and the metrics it asks Prometheus for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from incident import alert_about, rise
from json_schema import faults
from sqlalchemy import insert
from window_sums import sums_of

from monitor.assets import asset_dir
from monitor.errors import ConfigError
from monitor.grafana.dashboard import DataSource, bind, load, revision, tags
from monitor.model.judgements import Job, JudgeVersion, SecondOpinion, SecondOpinionKind
from monitor.model.trends import Rollup, Series, Sums
from monitor.stages.publish import GAUGES, SPANS
from monitor.stages.score import COUNTERS
from monitor.statistics.rates import wilson_rate
from monitor.store.alerts import save
from monitor.store.database import Database
from monitor.store.second_opinions import meet, record
from monitor.store.series import rollup_row
from monitor.store.sql_store import open_store
from monitor.store.tables import rollups

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
POSTGRES = DataSource(uid="p1", name="db", type="grafana-postgresql-datasource")
PROMETHEUS = DataSource(uid="m1", name="metrics", type="prometheus")
FILE = asset_dir("dashboards") / "quality.json"
SERIES = Series(app="it's a bot", environment="", slice="", metric="groundedness_proxy", rubric_id="r1")


def bound(source: DataSource) -> dict[str, Any]:
    """Return the dashboard as it is pushed."""
    return dict(bind(load(FILE), source))


def dicts(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a JSON value."""
    if isinstance(node, dict):
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from dicts(below)


@pytest.mark.parametrize("source", [POSTGRES, PROMETHEUS])
def test_the_dashboard_fits_grafanas_schema(shared: Path, source: DataSource) -> None:
    """Every panel, variable and annotation query has only fields that Grafana knows, of the right types."""
    schema = json.loads((shared / "grafana" / "dashboard.jsonschema.json").read_text())
    assert faults(bound(source), schema, schema) == []
    broken = bound(source)
    broken["panels"][0]["gridPos"]["w"] = "wide"
    broken["panels"][2]["titel"] = "x"
    assert len(faults(broken, schema, schema)) == 2


@pytest.mark.parametrize("source", [POSTGRES, PROMETHEUS])
def test_every_panel_has_queries_and_one_id(source: DataSource) -> None:
    """Binding leaves no panel empty, and ids are unique."""
    panels = bound(source)["panels"]
    assert all(panel["targets"] for panel in panels if panel["type"] != "row")
    assert len({panel["id"] for panel in panels}) == len(panels)
    names = [v["name"] for v in bound(source)["templating"]["list"]]
    assert sorted(names) == ["app", "environment", "metric", "window"]


def test_binding_names_the_source_everywhere_and_changes_with_it() -> None:
    """Another data source or another file is another revision; the same is the same."""
    first, again = bound(POSTGRES), bound(POSTGRES)
    assert first == again
    assert revision(tags(first)) != revision(tags(bound(PROMETHEUS)))
    references = [d["datasource"] for d in dicts(first) if "datasource" in d]
    assert {r["uid"] for r in references} == {"p1", "-- Grafana --"}


def test_prometheus_queries_ask_for_metrics_that_are_exposed() -> None:
    """Every metric and every window label in a query is one that the monitor exposes."""
    text = json.dumps(bound(PROMETHEUS))
    assert set(re.findall(r"rag_monitor_(\w+)", text)) <= set(GAUGES) | set(COUNTERS)
    assert set(re.findall(r'window=\\"(\w+)\\"', text)) <= set(SPANS)
    assert {option["value"] for v in bound(PROMETHEUS)["templating"]["list"] for option in v.get("options", ())} == set(
        SPANS
    )


def test_a_file_that_is_no_dashboard_is_a_config_error(tmp_path: Path) -> None:
    """The path is named."""
    (tmp_path / "quality.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"quality\.json"):
        load(tmp_path / "quality.json")


def filled(text: str, *, window: str, until: datetime) -> str:
    """Return a query as Grafana sends it, for the first test app and the time from `START` on."""
    quoted = {"app": "it''s a bot", "environment": "", "metric": "groundedness_proxy"}
    for name, value in quoted.items():
        text = text.replace(f"${{{name}:sqlstring}}", f"'{value}'")
    text = text.replace("${window}", window).replace("$__interval_ms", "3600000")
    text = text.replace("$__unixEpochFrom()", str(int(START.timestamp())))
    text = text.replace("$__unixEpochTo()", str(int(until.timestamp())))
    assert "$" not in text
    return text


def rows(count: int) -> list[Rollup]:
    """Return hours of two releases with unequal weights, one hour without a verdict, and a second rubric at the end."""
    hourly = []
    for hour in range(count):
        for release, n, k, weight in (("1", 20, hour % 4, 1.0), ("2", 10, hour % 3, 3.5)):
            scored = 0 if hour == 5 else n
            defects = min(k, scored)
            sums = sums_of(scored, defects, weight=weight, turns=n * 4, pending=1, cost_usd=scored * 0.001)
            series = SERIES if hour < count - 3 else Series(**{**as_dict(SERIES), "rubric_id": "r2"})
            hourly.append(
                Rollup(
                    series=series, release=release, start=START + hour * HOUR, length=HOUR, sums=sums,
                    unscored={"timeout": 2, "no_context": 1},
                )
            )  # fmt: skip
    return hourly


def as_dict(series: Series) -> dict[str, str]:
    """Return a series' fields."""
    return {name: getattr(series, name) for name in ("app", "environment", "slice", "metric", "rubric_id")}


OLD = JudgeVersion(judge="openai:m", model="m-1", fingerprint="fp")
NEW = JudgeVersion(judge="openai:m", model="m-2", fingerprint="fp-2")


def anchor(number: int) -> SecondOpinion:
    """Return an old verdict judged again: the first of them is a defect to the new version."""
    return SecondOpinion(
        job=Job(turn_id=str(number), content_hash="", metric="relevance", rubric_id="r", probability=1.0),
        kind=SecondOpinionKind.ANCHOR,
        version=NEW,
        score=1.0 if number == 0 else 5.0,
        defect=number == 0,
        first_score=5.0,
        first_defect=False,
        judged_at=START + 7 * HOUR,
    )


@pytest.fixture
def connection(postgres_url: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection to a database with 48 hours of rollups and one alert."""
    open_store(postgres_url).close()
    database = Database(postgres_url, patience=timedelta(seconds=10))
    regression = rise(series=SERIES, rule="release", began_at=START + 3 * HOUR, detected_at=START + 5 * HOUR)
    alert = alert_about(regression, pending_at=START, firing_at=START)
    with database.writing("filling the database") as writing:
        writing.execute(insert(rollups), [rollup_row(row) for row in rows(48)])
        save(writing, [alert])
        for version, at in ((OLD, START), (NEW, START + 7 * HOUR)):
            meet(writing, version, now=at)
        record(writing, [anchor(number) for number in range(4)])
    database.close()
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as opened:
        opened.execute("SET TIME ZONE 'UTC'")
        yield opened


def query(
    connection: psycopg.Connection[tuple[Any, ...]], panel: int, *, window: str = "24h", until: datetime | None = None
) -> list[tuple[Any, ...]]:
    """Return the rows of a panel's query."""
    (found,) = [p for p in bound(POSTGRES)["panels"] if p["id"] == panel]
    text = filled(found["targets"][0]["rawSql"], window=window, until=until or START + 48 * HOUR)
    return connection.execute(text.encode()).fetchall()


@pytest.mark.postgres
@pytest.mark.parametrize("window", ["1h", "24h"])
def test_the_charted_rate_and_band_are_those_of_the_statistics(
    connection: psycopg.Connection[tuple[Any, ...]], window: str
) -> None:
    """SQL and Python agree to ten digits at every hour, over releases, unequal weights and trailing windows."""
    charted = {time: values for time, *values in query(connection, 2, window=window)}
    expected = {}
    for hour in range(48):
        end = START + (hour + 1) * HOUR
        inside = [r for r in rows(48) if end - SPANS[window] < r.start + HOUR <= end]
        by_rubric = {
            rubric: sum((r.sums for r in inside if r.series.rubric_id == rubric), Sums())
            for rubric in {r.series.rubric_id for r in inside}
            if any(r.start + HOUR == end and r.series.rubric_id == rubric for r in inside)
        }
        rate = wilson_rate(max(by_rubric.values(), key=lambda sums: sums.n))
        if rate is not None:
            expected[end] = [rate.value, rate.lower, rate.upper]
    assert set(charted) == set(expected)
    for end, limits in expected.items():
        assert charted[end] == pytest.approx(limits, abs=1e-10), end
    assert (START + 6 * HOUR in charted) == (window == "24h")


@pytest.mark.postgres
def test_the_present_rate_is_the_last_24_hours_of_the_latest_rubric(
    connection: psycopg.Connection[tuple[Any, ...]],
) -> None:
    """One row a metric, of the rubric in use, with its interval and number of scored turns."""
    ((metric, rate, lower, upper, scored, until),) = query(connection, 6)
    expected = wilson_rate(sum((r.sums for r in rows(48)[-6:]), Sums()))
    assert expected is not None
    assert (metric, scored, until) == ("groundedness_proxy", 90, START + 48 * HOUR)
    assert [rate, lower, upper] == pytest.approx([expected.value, expected.lower, expected.upper], abs=1e-10)


@pytest.mark.postgres
def test_what_came_of_the_turns_adds_up_to_all_turns(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Scored, pending, reasons and not sampled are every turn once, hour by hour."""
    totals: dict[datetime, int] = {}
    names = set()
    for time, outcome, turns in query(connection, 3, until=START + 40 * HOUR):
        totals[time] = totals.get(time, 0) + turns
        names.add(outcome)
    assert totals == {START + hour * HOUR: 120 for hour in range(40)}
    assert names == {"scored", "pending", "timeout", "no_context", "not_sampled"}


@pytest.mark.postgres
def test_turns_by_release(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Each hour has 80 turns on one release and 40 on the other."""
    counted = query(connection, 4)
    assert len(counted) == 96
    assert {(release, turns) for _, release, turns in counted} == {("1", 80), ("2", 40)}


@pytest.mark.postgres
def test_cost_by_metric_and_day(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """A day's cost is that of its windows over releases and rubrics, also where the time shown begins during a day."""
    days: dict[datetime, float] = {}
    for row in rows(48):
        day = row.start.replace(hour=0)
        days[day] = days.get(day, 0.0) + row.sums.cost_usd
    charted = {time: cost for time, _, cost in query(connection, 7)}
    assert charted == pytest.approx(days)


@pytest.mark.postgres
def test_alerts_are_counted_and_listed(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """One is firing, and the table says since when and on what numbers."""
    assert query(connection, 1) == [(1,)]
    ((began, recovered, state, metric, *_),) = query(connection, 5)
    assert (began, recovered, state, metric) == (START + 3 * HOUR, None, "firing", "groundedness_proxy")


@pytest.mark.postgres
def test_releases_and_changes_of_the_judge_are_marked(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Each release is dated to its first hour, and the second rubric to its own; the first rubric is no change."""
    listed = bound(POSTGRES)["annotations"]["list"]
    marks = {
        a["name"]: connection.execute(
            filled(a["target"]["rawSql"], window="1h", until=START + 48 * HOUR).encode()
        ).fetchall()
        for a in listed
        if "rawSql" in a["target"]
    }
    assert sorted(marks["Releases"]) == [(START, "release 1", "release"), (START, "release 2", "release")]
    changed = (START + 45 * HOUR, "groundedness_proxy: another judge or prompt", "rubric")
    assert marks["Judge or prompt changed"] == [changed]
    mark_text = "judge changed: openai:m answers as m-2 (fp-2); 4 old verdicts judged again, 75 % agree on defects"
    assert marks["Another model behind the judge's name"] == [(START + 7 * HOUR, mark_text, "judge")]


@pytest.mark.postgres
def test_variables_list_what_there_is(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Apps, environments and metrics, also with odd names."""
    listed = {
        v["name"]: connection.execute(filled(v["query"], window="1h", until=START).encode()).fetchall()
        for v in bound(POSTGRES)["templating"]["list"]
        if v["type"] == "query"
    }
    assert listed == {"app": [("it's a bot",)], "environment": [("",)], "metric": [("groundedness_proxy",)]}
