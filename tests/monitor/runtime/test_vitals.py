"""What the monitor tells about itself: numbers at a scrape, problems at a readiness check."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.errors import StoreUnavailable
from monitor.model.stored import Backlog
from monitor.model.trends import Alert, AlertState, Regression, Series
from monitor.payloads.turn_records.fragments import turn_fragment
from monitor.runtime import app
from monitor.runtime.build import Parts, open_parts
from monitor.runtime.intake import Intake
from monitor.runtime.pipeline import Pipeline
from monitor.runtime.vitals import Vitals
from monitor.settings.tree import Settings
from monitor.telemetry import Telemetry

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
SAMPLE = re.compile(r"^rag_monitor_(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


def samples(telemetry: Telemetry) -> Mapping[tuple[str, str], float]:
    """(name, labels) -> value, of all that is exported."""
    return {(name, labels): float(value) for name, labels, value in SAMPLE.findall(telemetry.render().decode())}


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Parts, Telemetry]]:
    """A store with its parts, and a telemetry."""
    settings = Settings.model_validate({"store": {"url": f"sqlite:///{folder / 'shop.db'}"}})
    telemetry = Telemetry("test")
    async with open_parts(settings) as parts:
        yield parts, telemetry
    telemetry.close()


def turn(number: int) -> bytes:
    """An imported turn."""
    return f'{{"question": "q{number}", "context": "c", "answer": "secret of a user"}}'.encode()


async def test_what_waits_is_exported(tmp_path: Path) -> None:
    """The backlog is there by what waits, with the age of the oldest, and no text."""
    async with opened(tmp_path) as (parts, telemetry):
        received = NOW - timedelta(seconds=90)
        fragments = [turn_fragment(turn(n), origin=f"t:{n}", app="shop", received_at=received) for n in range(3)]
        parts.store.append(fragments)
        async with Vitals(parts.store, telemetry, clock=lambda: NOW):
            found, page = samples(telemetry), telemetry.render()
    assert 3 == found["waiting", 'what="fragments"']
    assert 90 == found["waiting_seconds", 'what="fragments"']
    assert 0 == found["waiting_seconds", 'what="jobs"']
    assert b"secret" not in page


async def test_intake_is_counted(tmp_path: Path) -> None:
    """What was made durable is counted by signal, and what waits in bytes."""
    async with opened(tmp_path) as (parts, telemetry), Intake(parts.store, parts.settings.intake) as intake:
        vitals = Vitals(parts.store, telemetry, clock=lambda: NOW)
        vitals.watch_intake(intake)
        await intake.put([turn_fragment(turn(1), origin="t:1", app="shop", received_at=NOW)])
        found = samples(telemetry)
    assert (1, 0) == (found["received_total", 'signal="turns"'], found["received_total", 'signal="traces"'])
    assert 0 == found["intake_pending_bytes", ""]


class Failing:
    """A store that cannot serve, as long as `reason` is set."""

    def __init__(self) -> None:
        self.reason = "locked"
        self.asked = 0

    def backlog(self) -> Backlog:
        """Refuse, or say that nothing waits."""
        self.asked += 1
        if self.reason:
            raise StoreUnavailable("busy: try again in 3 s", reason=self.reason)
        nothing = {"fragments": 0, "turns": 0, "jobs": 0, "windows": 0}
        return Backlog(**nothing, oldest_fragment_at=None, oldest_job_at=None)


async def test_store_in_trouble_is_a_problem(caplog: pytest.LogCaptureFixture) -> None:
    """A store that cannot serve makes us unready by its reason and is logged once."""
    with caplog.at_level(logging.WARNING):
        telemetry = Telemetry("test")
        async with Vitals(Failing(), telemetry, clock=lambda: NOW) as vitals:  # type: ignore[arg-type]
            problems, found = vitals.problems(), samples(telemetry)
        telemetry.close()
    reason = "locked: another process holds the database's lock"
    assert {"store": reason} == problems
    assert 1 == found["problem", 'part="store"']
    assert [f"store: {reason}"] == [record.getMessage() for record in caplog.records]


async def test_no_sdk_warning_at_a_scrape(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Everything that is watched can be scraped without a complaint of OpenTelemetry's."""
    with caplog.at_level(logging.WARNING):
        async with (
            opened(tmp_path) as (parts, telemetry),
            Intake(parts.store, parts.settings.intake) as intake,
            Vitals(parts.store, telemetry, clock=lambda: NOW) as vitals,
        ):
            vitals.watch_intake(intake)
            telemetry.ticked("assemble", rows=1, seconds=0.1)
            telemetry.render()
    assert [] == [record.getMessage() for record in caplog.records]


def settings(folder: Path) -> Settings:
    """A monitor on free ports."""
    return Settings.model_validate(
        {
            "store": {"url": f"sqlite:///{folder / 'shop.db'}"},
            "collectors": [{"kind": "otlp_http", "port": 0}, {"kind": "otlp_grpc", "port": 0}],
            "web": {"port": 0},
            "channels": [{"kind": "webhook", "url": "http://127.0.0.1:9"}],
            "grafana": {"url": "http://127.0.0.1:9", "token": "t"},
        }
    )


async def page(address: tuple[str, int], path: str) -> str:
    """The reply to one GET request."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    reply = await reader.read()
    writer.close()
    await writer.wait_closed()
    return reply.decode()


async def test_worker_that_ends_by_a_fault_makes_us_unready(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever looks sees that nobody scores any more, and the log names the fault without what it says."""

    async def ends(_: asyncio.Event) -> None:
        raise ValueError("secret of a user")

    with caplog.at_level(logging.ERROR):
        telemetry = Telemetry("test")
        async with opened(tmp_path) as (parts, _):
            vitals = Vitals(parts.store, telemetry, clock=lambda: NOW)
            scorer = Pipeline(parts=parts).scorer(parts.settings.score, clock=lambda: NOW)
            worker = asyncio.create_task(ends(asyncio.Event()))
            vitals.watch_scorer(scorer, worker)
            assert {} == vitals.problems()
            await asyncio.wait([worker])
            await asyncio.sleep(0)
            (problem,) = vitals.problems().items()
        telemetry.close()
        assert ": ".join(problem).startswith("score.worker: ended by a fault")
    assert "scoring ended: ValueError at " in caplog.text
    assert "secret" not in caplog.text


async def test_whole_monitor_exports_what_it_promises(tmp_path: Path) -> None:
    """What the stages and the intake count is on one page, and no name is given twice."""
    async with app.running(settings(tmp_path)) as monitor:
        exported = await page(monitor.web, "/metrics")
    for name in (
        "waiting",
        "received_total",
        "judge_cost_usd_total",
        "intake_pending_bytes",
        "notifications_undelivered",
        "annotations_missing",
    ):
        assert f"\nrag_monitor_{name}" in exported
    types = re.findall(r"^# TYPE (\S+)", exported, re.MULTILINE)
    assert sorted(set(types)) == sorted(types)


class Board:
    """What a publisher says of itself."""

    def health(self) -> Mapping[str, str]:
        """Be refused."""
        return {"annotations": "grafana: annotating: answered 400 (bad text)"}


async def test_what_grafana_does_not_take_is_a_problem_and_a_number(tmp_path: Path) -> None:
    """Its reason is in words, its alerts are counted since they came into their state."""
    async with opened(tmp_path) as (parts, telemetry):
        vitals = Vitals(parts.store, telemetry, clock=lambda: NOW)
        vitals.watch_publisher(Board())
        exported = samples(telemetry)
        assert (0, 0) == (exported["annotations_missing", ""], exported["annotations_missing_seconds", ""])
        parts.store.save_alerts([firing(NOW - timedelta(seconds=90)), firing(NOW - timedelta(seconds=30))])
        vitals.refresh_quality(lateness=timedelta(0), now=NOW)
        exported = samples(telemetry)
        assert {"grafana.annotations": "grafana: annotating: answered 400 (bad text)"} == vitals.problems()
    assert (2, 90) == (exported["annotations_missing", ""], exported["annotations_missing_seconds", ""])


def firing(at: datetime) -> Alert:
    """An alert that fires since then."""
    regression = Regression(
        series=Series(app="bot", environment="", slice="", metric="groundedness", rubric_id="r1"),
        rule="continuous",
        began_at=at,
        detected_at=at,
        recovered_at=None,
        rate=0.2,
        rate_lower=0.15,
        rate_upper=0.25,
        baseline_rate=0.05,
        null_rate=0.06,
        evidence_log10=4.0,
        threshold_log10=3.0,
    )
    return Alert(
        alert_id=at.isoformat(),
        fingerprint="f1",
        state=AlertState.FIRING,
        regression=regression,
        pending_at=at,
        firing_at=at,
    )
