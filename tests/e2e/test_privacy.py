"""What docs/privacy.md says of where users' text goes, seen from the other ends of a running monitor."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import yaml
from deadline import wait_until
from http_request import export
from incident import alert_about, rise
from judge_server import JudgeServer, refusal
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.model.trends import AlertState
from monitor.store.sql_store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook_receiver import Receiver

    from tests.e2e.conftest import Command, Monitor, Start

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
USER, SESSION = "user-canary-1f", "session-canary-2e"
QUESTION, ANSWER, DOCUMENT = "What is question-canary-3d?", "It is answer-canary-4c.", "document-canary-5b is here."
TEXT = ("question-canary-3d", "answer-canary-4c", "document-canary-5b")
SHOP = "shop-of-canaries"


@pytest.fixture
def judges() -> Iterator[tuple[JudgeServer, JudgeServer]]:
    """The judge and its fallback."""
    with closing(JudgeServer()) as judge, closing(JudgeServer()) as fallback:
        yield judge, fallback


def trace(number: int) -> bytes:
    """A request with one turn of the user."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = SHOP
    now = int(datetime.now(UTC).timestamp() * 1e9)
    found = json.dumps([{"document.id": "d1", "document.content": DOCUMENT}])
    for place, (kind, said, extra) in enumerate(
        (
            ("CHAIN", (QUESTION, ANSWER), {"user.id": USER, "session.id": SESSION}),
            ("RETRIEVER", (QUESTION, found), {"retrieval.documents.0.document.content": DOCUMENT}),
            ("LLM", (f"{DOCUMENT} {QUESTION}", ANSWER), {}),
        )
    ):
        span = resource.scope_spans.add().spans.add(
            trace_id=number.to_bytes(16), span_id=(8 * number + place).to_bytes(8), name=kind.lower(), kind=1
        )
        span.parent_span_id = (8 * number).to_bytes(8) if place else b""
        span.start_time_unix_nano, span.end_time_unix_nano = now + place, now + 1_000_000 + place
        values = {"openinference.span.kind": kind, "input.value": said[0], "output.value": said[1], **extra}
        for key, value in values.items():
            span.attributes.add(key=key).value.string_value = value
    return request.SerializeToString()


def canaries(text: str) -> list[str]:
    """Those of the canaries that stand in a text."""
    return [canary for canary in (*TEXT, USER, SESSION) if canary in text]


def send(monitor: Monitor, number: int) -> int:
    """The status of the answer to a trace."""
    host, port = monitor.address("otlp_http").rsplit(":", 1)
    return export((host, int(port)), trace(number)).status


def test_where_text_goes(
    rag_monitor: Command, start: Start, judges: tuple[JudgeServer, JudgeServer], receiver: Receiver
) -> None:
    """Judges get question, documents and answer, and no id; logs at their fullest, pages and webhooks get neither."""
    judge, fallback = judges
    settings = {
        "store": {"url": "sqlite:///monitor.db"},
        "collectors": [{"kind": "otlp_http", "port": 0}],
        "web": {"port": 0},
        "assemble": {"every": "200ms", "quiet": "400ms"},
        "sample": {"every": "200ms"},
        "alert": {"every": "200ms"},
        "rollup": {"every": "300ms", "lateness": "0s"},
        "metrics": ["groundedness"],
        "judge": {
            "kind": "openai",
            "base_url": judge.url,
            "api_key": "k",
            "model": "judge-1",
            "fallback": {"base_url": fallback.url, "api_key": "k", "model": "judge-2"},
            "second_opinions": {"share": 0},
        },
        "channels": [{"kind": "webhook", "url": receiver.url}],
        "log": {"level": "DEBUG"},
    }
    now = datetime.now(UTC)
    with closing(open_store(f"sqlite:///{rag_monitor.folder / 'monitor.db'}")) as store:
        store.save_alerts([alert_about(rise(began_at=now, detected_at=now), AlertState.PENDING)])
    monitor = start("-c", rag_monitor.write("private.yaml", yaml.safe_dump(settings)))

    assert 200 == send(monitor, 1)
    wait_until(lambda: monitor.metric("jobs_finished_total", "scored") == 1, "a verdict", seconds=60)
    assert [] == fallback.asked
    judge.answer = lambda _: refusal(400, "no", code="content_filter")
    assert 200 == send(monitor, 2)
    wait_until(lambda: monitor.metric("jobs_finished_total", "scored") == 2, "the fallback's verdict", seconds=60)
    for asked in (*judge.asked, *fallback.asked):
        assert list(TEXT) == canaries(json.dumps(asked.body))
        assert SHOP not in json.dumps(asked.body)
        assert [] == canaries(json.dumps(dict(asked.headers)))

    wait_until(lambda: receiver.taken, "the message about the alert", seconds=60)
    assert [] == canaries(json.dumps(receiver.taken))
    pages = "".join(monitor.get(path)[1] for path in ("/metrics", "/readyz", "/healthz"))
    assert [] == canaries(pages)
    assert 0 == monitor.stop()
    assert [] == canaries(monitor.text())


def test_dashboard_reads_what_the_page_grants() -> None:
    """The tables that the dashboard reads are those that the page has people grant."""
    model = (ROOT / "dashboards" / "quality.json").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:FROM|JOIN) (\w+)\b(?!\()", model))
    of_query = set(re.findall(r"(\w+) AS \(", model))
    assert set(granted()) == named - of_query


def granted() -> list[str]:
    """The tables that the page has people grant to Grafana."""
    (tables,) = re.findall(r"GRANT SELECT ON ([\w, ]+) TO grafana", PAGE)
    found: list[str] = tables.split(", ")
    return found


def test_grafana_reads_no_text(postgres_url: str) -> None:
    """After the page's statements Grafana's role reads the tables of its dashboard, and none of those with text."""
    (statements,) = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    open_store(postgres_url).close()
    with closing(psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True)) as owner:
        owner.execute(statements)
        try:
            owner.execute("SET ROLE grafana")
            for table in granted():
                owner.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 -- names of tables
            for table in ("spans", "turn_texts", "exchanges", "keys"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    owner.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 -- names of tables
        finally:
            owner.execute("RESET ROLE")
            owner.execute("DROP OWNED BY grafana")
            owner.execute("DROP ROLE grafana")
