"""Grafana's API: what is pushed, what is left alone, and how trouble is met, against a real HTTP server."""

from __future__ import annotations

import json
import logging
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from incident import SHOP, alert_about, rise

from monitor.errors import ConfigError, Paused, Permanent, Retryable
from monitor.grafana.dashboard import RATE_PANEL, UID
from monitor.grafana.publisher import GrafanaPublisher
from monitor.model.trends import Alert, AlertState
from monitor.settings.tree import GrafanaSettings

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
TOKEN = "glsa_very-secret"
POSTGRES = {"uid": "Pzz9", "name": "ragmon-db", "type": "grafana-postgresql-datasource"}
PROMETHEUS = {"uid": "prom1", "name": "metrics", "type": "prometheus"}


PAGE = "<html>login</html>"
"""What is below any path that is not the API's."""


class Grafana:
    """The part of Grafana's API that is used, with memory; `script` replies first, once or for ever."""

    def __init__(self) -> None:
        self.sources: list[dict[str, Any]] = [POSTGRES]
        self.folders: dict[str, dict[str, Any]] = {}
        self.dashboard: dict[str, Any] | None = None
        self.meta: dict[str, Any] = {}
        self.annotations: list[dict[str, Any]] = []
        self.script: list[tuple[str, str, int, Any]] = []
        self.always: tuple[int, Any] | None = None
        self.requests: list[tuple[str, str, Any, dict[str, str]]] = []

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        """Return status and body."""
        if self.always is not None:
            return self.always
        for i, (wanted, where, status, reply) in enumerate(self.script):
            if (wanted, where) == (method, path):
                del self.script[i]
                return status, reply
        replies = {
            "health": lambda: (200, {"database": "ok", "version": "13.0.0"}),
            "org": self._organisation,
            "datasources": lambda: (200, self.sources),
            "folders": lambda: self._folder(method, path, body),
            "dashboards": lambda: self._dashboard(method, body),
            "annotations": lambda: self._annotation(method, path, query, body),
        }
        return replies[path.split("/")[2]]()

    def _organisation(self) -> tuple[int, Any]:
        headers = self.requests[-1][3]
        is_login = headers["Authorization"].startswith("Basic ")
        return 200, {"id": int(headers.get("X-Grafana-Org-Id", 1)) if is_login else 1, "name": "An org."}

    def _folder(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "POST":
            self.folders[body["uid"]] = body
            return 200, body
        folder = self.folders.get(path.rsplit("/", 1)[1])
        return (200, folder) if folder else (404, {"message": "folder not found"})

    def _dashboard(self, method: str, body: Any) -> tuple[int, Any]:
        if method == "GET":
            if self.dashboard is None:
                return 404, {"message": "Dashboard not found"}
            return 200, {"dashboard": self.dashboard, "meta": self.meta}
        version = (self.dashboard or {"version": 0})["version"] + 1
        self.dashboard = {**body["dashboard"], "id": 31, "version": version}
        self.meta = {"folderUid": body["folderUid"], "provisioned": False}
        return 200, {"uid": UID, "version": version}

    def _annotation(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if method == "GET":
            wanted = set(query.get("tags", []))
            return 200, [a for a in self.annotations if wanted <= set(a["tags"])]
        if method == "POST":
            self.annotations.append({**body, "id": len(self.annotations) + 1})
            return 200, {"id": len(self.annotations), "message": "Annotation added"}
        self.annotations[int(path.rsplit("/", 1)[1]) - 1].update(body)
        return 200, {"message": "Annotation patched"}

    def sent(self, method: str, path: str = "") -> list[Any]:
        """Return the bodies of the requests of a method to paths that begin so."""
        return [body for verb, where, body, _ in self.requests if verb == method and where.startswith(path)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        grafana: Grafana = self.server.grafana  # type: ignore[attr-defined]
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else None
        grafana.requests.append((self.command, parts.path, body, dict(self.headers)))
        path = "/api" + parts.path.split("/api", 1)[1] if "/api/" in parts.path else parts.path
        status, reply = (
            grafana.answer(self.command, path, parse_qs(parts.query), body) if path.startswith("/api/") else (200, PAGE)
        )
        data = reply.encode() if isinstance(reply, str) else json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(reply, str) else "application/json")
        if 300 <= status < 400:
            self.send_header("Location", reply)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815 -- http.server's names

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, grafana: Grafana, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.grafana = grafana
        self.tls = tls

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.tls is None:
            super().finish_request(request, client_address)
            return
        try:
            request = self.tls.wrap_socket(request, server_side=True)
        except (ssl.SSLError, OSError):
            return
        with request:
            super().finish_request(request, client_address)


@pytest.fixture
def grafana() -> Grafana:
    """An empty Grafana with one PostgreSQL data source."""
    return Grafana()


@pytest.fixture
def url(grafana: Grafana) -> Iterator[str]:
    """Where it listens."""
    yield from _listening(grafana, None, "http://127.0.0.1")


def _listening(grafana: Grafana, tls: ssl.SSLContext | None, host: str) -> Iterator[str]:
    with _Server(grafana, tls) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"{host}:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class Time:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        """Return the time it is set to."""
        return self.now


def settings(url: str | None, **changes: object) -> GrafanaSettings:
    """Return the section with a token."""
    return GrafanaSettings.model_validate({"url": url, "token": TOKEN, **changes})


def alert(state: AlertState = AlertState.FIRING, *, recovered_at: datetime | None = None) -> Alert:
    """Return an alert about a rise at 10:00."""
    regression = rise(series=replace(SHOP, app="shop-bot"), recovered_at=recovered_at, rate=0.123)
    return alert_about(regression, state, alert_id="a" * 32)


async def pushed(publisher: GrafanaPublisher, *, times: int = 1) -> None:
    """Provision some times, then close."""
    try:
        for _ in range(times):
            await publisher.provision()
    finally:
        await publisher.close()


async def annotated(publisher: GrafanaPublisher, *alerts: Alert) -> None:
    """Annotate, then close."""
    try:
        for each in alerts:
            await publisher.annotate(each)
    finally:
        await publisher.close()


async def test_the_dashboard_is_made_in_a_folder_of_its_own(grafana: Grafana, url: str) -> None:
    """Folder and dashboard are made once; a second push changes nothing."""
    await pushed(GrafanaPublisher(settings(url), clock=Time()), times=2)
    assert list(grafana.folders) == ["rag-monitor"]
    (body,) = grafana.sent("POST", "/api/dashboards/db")
    assert (body["folderUid"], body["overwrite"]) == ("rag-monitor", False)
    assert "id" not in body["dashboard"]
    assert "overwrite" not in body["dashboard"]
    assert len(grafana.sent("POST")) == 2


async def test_names_are_text(grafana: Grafana, url: str) -> None:
    """Grafana shows an annotation's text as HTML: what a sender called its app is no markup there, nor hidden."""
    name = "<a href='https://x.example'>shop</a>\u202e"
    hostile = alert_about(rise(series=replace(SHOP, app=name, environment=name), release=name))
    await annotated(GrafanaPublisher(settings(url), clock=Time()), hostile)
    (annotation,) = grafana.annotations
    assert "<" not in annotation["text"]
    assert "://" not in annotation["text"]
    assert "\u202e" not in annotation["text"] + "".join(annotation["tags"])


async def test_another_process_pushes_nothing_new(grafana: Grafana, url: str) -> None:
    """The revision is read from Grafana, so a restart does not write the dashboard again."""
    for _ in range(2):
        await pushed(GrafanaPublisher(settings(url), clock=Time()))
    assert len(grafana.sent("POST", "/api/dashboards/db")) == 1


async def test_another_revision_replaces_the_dashboard_where_it_is(grafana: Grafana, url: str) -> None:
    """A dashboard of an older version is overwritten; one that was moved stays in its folder."""
    grafana.dashboard = {"uid": UID, "version": 8, "id": 31, "tags": ["managed", "revision:old"]}
    grafana.meta = {"folderUid": "f1"}
    await pushed(GrafanaPublisher(settings(url), clock=Time()))
    (body,) = grafana.sent("POST")
    assert (body["folderUid"], body["overwrite"]) == ("f1", True)


async def test_a_dashboard_changed_meanwhile_is_replaced_on_one_more_try(grafana: Grafana, url: str) -> None:
    """412: one re-read, one retry with `overwrite` beside the dashboard and without an id."""
    grafana.dashboard = {"uid": UID, "version": 8, "id": 31, "tags": ["managed"]}
    grafana.script = [("POST", "/api/dashboards/db", 412, {"status": "version-mismatch", "message": "changed"})]
    await pushed(GrafanaPublisher(settings(url), clock=Time()))
    first, second = grafana.sent("POST", "/api/dashboards/db")
    assert first == second
    assert second["overwrite"] is True
    assert "id" not in second["dashboard"]


TAKEN = ("POST", "/api/dashboards/db", 412, {"status": "name-exists", "message": "same name"})


async def test_beside_a_namesake_ours_has_another_title(grafana: Grafana, url: str) -> None:
    """412 although there is no dashboard of ours: another has the title. It stays as it is, and ours is made."""
    grafana.script = [TAKEN]
    await pushed(GrafanaPublisher(settings(url), clock=Time()), times=2)
    first, second = grafana.sent("POST", "/api/dashboards/db")
    assert [body["dashboard"]["title"] for body in (first, second)] == ["RAG quality", "RAG quality (rag-monitor)"]
    assert not first["overwrite"]
    assert not second["overwrite"]


async def test_two_namesakes_are_left_to_a_person(grafana: Grafana, url: str) -> None:
    """The error says which titles are taken, and what to do; nothing is overwritten."""
    grafana.script = [TAKEN, TAKEN]
    with pytest.raises(Permanent, match=r"'RAG quality \(rag-monitor\)'; rename one of them, or name another folder"):
        await pushed(GrafanaPublisher(settings(url), clock=Time()))
    assert [body["overwrite"] for body in grafana.sent("POST", "/api/dashboards/db")] == [False, False]


async def test_a_dashboard_that_was_renamed_keeps_its_title(grafana: Grafana, url: str) -> None:
    """A new revision replaces panels and not the title, under which it could meet a namesake."""
    grafana.dashboard = {"uid": UID, "version": 8, "id": 31, "title": "Our bot", "tags": ["managed", "revision:old"]}
    await pushed(GrafanaPublisher(settings(url), clock=Time()))
    (body,) = grafana.sent("POST", "/api/dashboards/db")
    assert body["dashboard"]["title"] == "Our bot"


async def test_a_dashboard_without_its_tag_is_left_alone(
    grafana: Grafana, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever takes the tag away keeps their panels; that is said once."""
    grafana.dashboard = {"uid": UID, "version": 8, "tags": ["rag-monitor"]}
    with caplog.at_level(logging.INFO, "monitor.grafana.publisher"):
        await pushed(GrafanaPublisher(settings(url), clock=Time()), times=3)
    assert grafana.sent("POST") == []
    assert [r.message for r in caplog.records if "lost its tag" in r.message] == [
        f"grafana: dashboard {UID} has lost its tag 'managed' and is not updated any more"
    ]


async def test_a_provisioned_dashboard_is_not_pushed_again_and_annotations_go_on(
    grafana: Grafana, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Grafana's refusal is taken once, with one warning; alerts are annotated all the same."""
    grafana.script = [("POST", "/api/dashboards/db", 400, {"message": "Cannot save provisioned dashboard"})]
    publisher = GrafanaPublisher(settings(url), clock=Time())
    for _ in range(60):
        await publisher.provision()
    await publisher.annotate(alert())
    await publisher.close()
    assert len(grafana.sent("POST", "/api/dashboards/db")) == 1
    assert len(grafana.annotations) == 1
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1


@pytest.mark.parametrize("conflict", [409, 412])
async def test_a_folder_made_by_somebody_else_is_reused(grafana: Grafana, url: str, conflict: int) -> None:
    """A conflict on making the folder means that it is there; it keeps its title."""
    folder = {"uid": "ragmon", "title": "RAG", "version": 3}
    grafana.script = [
        ("GET", "/api/folders/ragmon", 404, {"message": "not found"}),
        ("POST", "/api/folders", conflict, {"status": "version-mismatch"}),
        ("GET", "/api/folders/ragmon", 200, folder),
    ]
    await pushed(GrafanaPublisher(settings(url, folder="ragmon"), clock=Time()))
    assert grafana.sent("POST", "/api/dashboards/db")[0]["folderUid"] == "ragmon"
    assert grafana.sent("PUT") == []


@pytest.mark.parametrize(
    ("suffix", "begins"),
    [("", "/api/"), ("/", "/api/"), ("/grafana", "/grafana/api/"), ("/grafana/", "/grafana/api/")],
)
async def test_an_address_may_have_a_path_and_a_trailing_slash(
    grafana: Grafana, url: str, suffix: str, begins: str
) -> None:
    """Every call goes below the path that was given."""
    publisher = GrafanaPublisher(settings(url + suffix), clock=Time())
    await pushed(publisher)
    assert {path[: len(begins)] for _, path, _, _ in grafana.requests} == {begins}


async def test_a_missing_token_is_a_config_error(url: str) -> None:
    """Without any credential nothing is sent."""
    publisher = GrafanaPublisher(GrafanaSettings(url=url), clock=Time())
    with pytest.raises(ConfigError, match=r"grafana\.token: missing"):
        await publisher.provision()


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_token_is_tried_every_five_minutes_and_a_new_one_is_picked_up(
    grafana: Grafana, url: str, status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An hour of refusals is a dozen calls and news once; then the new token of the file serves without a restart."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    grafana.always = (status, {"message": "Invalid API key"})
    clock = Time()
    publisher = GrafanaPublisher(settings(url, token=None, token_file=token), clock=clock)

    async def minute() -> None:
        clock.now += timedelta(minutes=1)
        await publisher.provision()
        await publisher.annotate(alert())

    with caplog.at_level(logging.INFO, "monitor"):
        errors = []
        for _ in range(60):
            with pytest.raises(Retryable, match="token") as refused:
                await minute()
            errors.append(refused.value)
        assert [type(error) for error in errors] == [Retryable] + [Paused] * 59
        assert all(error.retry_after is not None for error in errors)
        assert TOKEN not in "".join(map(str, errors))
        assert 10 <= len(grafana.requests) <= 15
        grafana.always = None
        token.write_text("glsa_new")
        clock.now += timedelta(minutes=5)
        await minute()
        await publisher.close()
    assert grafana.requests[-1][3]["Authorization"] == "Bearer glsa_new"
    assert TOKEN not in caplog.text
    assert "accepts the token again" in caplog.text


async def test_a_token_of_another_organisation_is_refused_and_nothing_is_written(grafana: Grafana, url: str) -> None:
    """The settings say 4, the token says 1."""
    publisher = GrafanaPublisher(settings(url, org_id=4), clock=Time())
    with pytest.raises(ConfigError, match=r"token \(or login\) belongs to organisation 1, the settings say 4"):
        await pushed(publisher)
    assert {method for method, _, _, _ in grafana.requests} == {"GET"}


async def test_a_login_works_in_the_organisation_of_the_settings(grafana: Grafana, url: str) -> None:
    """Each request of a login names the organisation; without one it is the login's own."""
    login = url.replace("//", "//me:pw@")
    for org_id in (4, None):
        await pushed(GrafanaPublisher(settings(login, token=None, org_id=org_id), clock=Time()))
        assert {headers.get("X-Grafana-Org-Id") for *_, headers in grafana.requests} == {org_id and str(org_id)}
        grafana.requests.clear()


LOGIN_REDIRECT = "redirects to /login: a login stands before Grafana"


async def test_a_redirect_to_a_login_page_is_no_success(grafana: Grafana, url: str) -> None:
    """The page answers 200 to what was a POST, and nothing was kept: an error, a problem, and tried again later."""
    clock = Time()
    publisher = GrafanaPublisher(settings(url), clock=clock)
    grafana.script = [("POST", "/api/annotations", 302, "/login?state=s3cr3t")]
    with pytest.raises(Retryable, match=LOGIN_REDIRECT) as refused:
        await publisher.annotate(alert())
    assert "s3cr3t" not in str(refused.value)
    assert grafana.annotations == []
    assert [method for method, *_ in grafana.requests] == ["GET", "POST"]
    assert list(publisher.health()) == ["annotations"]
    with pytest.raises(Paused):
        await publisher.provision()
    clock.now += timedelta(minutes=5)
    await annotated(publisher, alert())
    assert len(grafana.annotations) == 1
    assert publisher.health() == {}


async def test_the_reported_case_of_a_login_page(grafana: Grafana, url: str, shared: Path) -> None:
    """G04-B: the annotation is answered with a redirect, and the login page with 200."""
    case = json.loads((shared / "cases/round2/payloads/G04-B.grafana.json").read_text())
    for step in case["script"]:
        (method, path), reply = step["when"], step["reply"]
        grafana.script.append((method, path, reply["status"], reply["headers"].get("Location", reply["body"])))
    with pytest.raises(Retryable, match=LOGIN_REDIRECT):
        await annotated(GrafanaPublisher(settings(url), clock=Time()), alert())


@pytest.mark.parametrize("work", ["check", "provision", "annotate"])
async def test_a_page_is_no_success(grafana: Grafana, url: str, work: str) -> None:
    """A proxy that asks for a login answers 200 to everything, which is not Grafana's answer to anything."""
    grafana.always = (200, PAGE)
    publisher = GrafanaPublisher(settings(url), clock=Time())
    calls = {
        "check": publisher.check,
        "provision": publisher.provision,
        "annotate": lambda: publisher.annotate(alert()),
    }
    with pytest.raises(Retryable, match=r"answered with a page \(text/html\) and not as Grafana does"):
        await calls[work]()
    await publisher.close()


async def test_a_right_that_is_missing_stops_nothing_else(grafana: Grafana, url: str) -> None:
    """403 to the dashboard: it is tried every five minutes, alerts are annotated all the same, each time."""
    clock = Time()
    publisher = GrafanaPublisher(settings(url), clock=clock)

    async def minute() -> type[Exception] | None:
        clock.now += timedelta(minutes=1)
        await publisher.annotate(alert())
        try:
            await publisher.provision()
        except Retryable as error:
            return type(error)
        return None

    grafana.script = [("GET", "/api/folders/rag-monitor", 403, {"message": "folders:read"})] * 2
    assert [await minute() for _ in range(7)] == [Retryable, *[Paused] * 6]
    assert len([1 for _, path, *_ in grafana.requests if path.startswith("/api/folders")]) == 2
    assert "403 (folders:read)" in publisher.health()["dashboard"]
    assert len(grafana.annotations) == 1
    clock.now += timedelta(minutes=5)
    assert await minute() is None
    assert publisher.health() == {}
    await publisher.close()


async def test_a_refused_annotation_is_a_problem_until_it_is_taken(grafana: Grafana, url: str) -> None:
    """Another alert's success does not hide it."""
    publisher = GrafanaPublisher(settings(url), clock=Time())
    other = replace(alert(), alert_id="b" * 32)
    grafana.script = [("POST", "/api/annotations", 400, {"message": "bad text"})]
    with pytest.raises(Permanent):
        await publisher.annotate(alert())
    await publisher.annotate(other)
    assert publisher.health() == {"annotations": "grafana: annotating: answered 400 (bad text)"}
    await annotated(publisher, alert())
    assert publisher.health() == {}


async def test_every_panel_names_the_data_source_that_was_found(grafana: Grafana, url: str) -> None:
    """Queries, variables and annotation queries carry its uid and type; none is of another kind or a placeholder."""
    await pushed(GrafanaPublisher(settings(url, datasource="ragmon-db"), clock=Time()))
    text = json.dumps(grafana.dashboard)
    assert text.count('"uid": "Pzz9"') > 15
    assert "${datasource}" not in text
    assert "rag_monitor_defect_ratio" not in text
    assert "-- Mixed --" not in text


async def test_prometheus_serves_too(grafana: Grafana, url: str) -> None:
    """With a Prometheus data source the same panels ask in PromQL."""
    grafana.sources = [PROMETHEUS]
    await pushed(GrafanaPublisher(settings(url), clock=Time()))
    text = json.dumps(grafana.dashboard)
    assert "rag_monitor_defect_ratio" in text
    assert "rawSql" not in text


@pytest.mark.parametrize(
    ("sources", "wanted", "message"),
    [
        ([POSTGRES, PROMETHEUS], None, "name one"),
        ([], None, "data sources are: none"),
        ([POSTGRES], "nope", r"no data source 'nope'; those that fit: 'ragmon-db' \(uid Pzz9"),
        ([POSTGRES, {"uid": "l", "name": "logs", "type": "loki"}], "logs", "of type 'loki'"),
    ],
)
async def test_a_data_source_that_is_missing_or_unclear_lists_the_candidates(
    grafana: Grafana, url: str, sources: list[dict[str, str]], wanted: str | None, message: str
) -> None:
    """Nothing is pushed to an unclear place; the error says what there is."""
    grafana.sources = sources
    publisher = GrafanaPublisher(settings(url, datasource=wanted), clock=Time())
    with pytest.raises(ConfigError, match=message):
        await pushed(publisher)
    assert grafana.sent("POST") == []


async def test_an_alert_is_annotated_once_and_closed_when_it_is_over(grafana: Grafana, url: str) -> None:
    """Milliseconds, the dashboard's uid, the rate panel and tags; the end comes later; repeating changes nothing."""
    over = alert(AlertState.RESOLVED, recovered_at=datetime(2026, 5, 4, 10, 15, tzinfo=UTC))
    publisher = GrafanaPublisher(settings(url), clock=Time())
    await annotated(publisher, alert(), alert(), over, over)
    (body,) = grafana.sent("POST", "/api/annotations")
    assert (body["dashboardUID"], body["panelId"]) == (UID, RATE_PANEL)
    assert (body["time"], body["timeEnd"]) == (1777888800000, 1777888800000)
    assert body["tags"] == ["rag-monitor", "shop-bot", "groundedness", "production", f"alert:{'a' * 32}"]
    assert "12.3 %" in body["text"]
    (patch,) = grafana.sent("PATCH", "/api/annotations")
    assert (patch["time"], patch["timeEnd"]) == (1777888800000, 1777889700000)
    assert len(grafana.annotations) == 1


async def test_an_annotation_without_its_dashboard_is_kept_by_its_tags(grafana: Grafana, url: str) -> None:
    """Where the dashboard is gone the annotation is made for the organisation."""
    grafana.script = [("POST", "/api/annotations", 404, {"message": "Dashboard not found"})]
    await annotated(GrafanaPublisher(settings(url), clock=Time()), alert())
    assert "dashboardUID" not in grafana.annotations[0]


async def test_what_only_a_person_can_mend_is_told_every_five_minutes(grafana: Grafana, url: str) -> None:
    """A missing data source is an error once, then a pause; when it is there the next try finds it."""
    grafana.sources = []
    clock = Time()
    publisher = GrafanaPublisher(settings(url), clock=clock)
    seen = []
    for _ in range(8):
        try:
            await publisher.provision()
        except (ConfigError, Paused) as error:
            seen.append(type(error).__name__)
        clock.now += timedelta(minutes=1)
    grafana.sources = [POSTGRES]
    clock.now += timedelta(minutes=5)
    await publisher.provision()
    await publisher.close()
    assert seen == ["ConfigError", *["Paused"] * 4, "ConfigError", *["Paused"] * 2]
    assert grafana.dashboard is not None


@pytest.mark.parametrize(("status", "kind"), [(500, Retryable), (503, Retryable), (429, Retryable), (422, Permanent)])
async def test_trouble_is_translated(grafana: Grafana, url: str, status: int, kind: type[Exception]) -> None:
    """Server errors may pass, a refusal of the content will not."""
    grafana.always = (status, {"message": "so it is"})
    publisher = GrafanaPublisher(settings(url), clock=Time())
    with pytest.raises(kind, match=f"answered {status} "):
        await annotated(publisher, alert())


async def test_nobody_listening_is_retryable(grafana: Grafana) -> None:
    """A Grafana that is down is tried again."""
    for gone in _listening(grafana, None, "http://127.0.0.1"):
        address = gone
    publisher = GrafanaPublisher(settings(address), clock=Time())
    with pytest.raises(Retryable, match="no answer from"):
        await pushed(publisher)


async def test_check_reads_only_and_says_what_is_there(grafana: Grafana, url: str) -> None:
    """One line with version, data source and dashboard; no write."""
    publisher = GrafanaPublisher(settings(url), clock=Time())
    line = await publisher.check()
    await publisher.close()
    source = "data source 'ragmon-db' (grafana-postgresql-datasource)"
    assert line == f"Grafana 13.0.0 at {url}/: {source}, dashboard missing, will be created"
    assert {method for method, _, _, _ in grafana.requests} == {"GET"}


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `ca.pem` and the certificate and key of `localhost` that it signed."""
    folder = tmp_path_factory.mktemp("authority")
    commands = (
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=test-authority",
        "req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=localhost",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile names",
    )
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    for command in commands:
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def secure_port(grafana: Grafana, authority: Path) -> Iterator[str]:
    """The port of a Grafana with a certificate for `localhost`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    for url in _listening(grafana, context, "https://localhost"):
        yield url.rsplit(":", 1)[1]


async def test_a_private_authority_is_trusted_when_named(secure_port: str, authority: Path) -> None:
    """With `ca_file` the certificate is accepted."""
    publisher = GrafanaPublisher(
        settings(f"https://localhost:{secure_port}", ca_file=authority / "ca.pem"), clock=Time()
    )
    assert "13.0.0" in await publisher.check()
    await publisher.close()


@pytest.mark.parametrize(("host", "ca_file"), [("127.0.0.1", "ca.pem"), ("localhost", None)])
async def test_a_wrong_name_or_an_unknown_authority_is_refused(
    secure_port: str, authority: Path, host: str, ca_file: str | None
) -> None:
    """Neither another host's certificate nor one nobody vouches for is accepted."""
    trusted = authority / ca_file if ca_file else None
    publisher = GrafanaPublisher(settings(f"https://{host}:{secure_port}", ca_file=trusted), clock=Time())
    with pytest.raises(Retryable, match="certificate"):
        await annotated(publisher, alert())


GO = {"int64": int, "string": str, "*string": str, "bool": bool, "[]string": list, "JSON": dict}


@pytest.mark.parametrize(
    ("request_line", "model"),
    [
        ("POST /api/dashboards/db", "SaveDashboardCommand"),
        ("POST /api/folders", "CreateFolderCommand"),
        ("POST /api/annotations", "PostAnnotationsCmd"),
        ("PATCH /api/annotations", "PatchAnnotationsCmd"),
    ],
)
async def test_bodies_fit_the_models_of_grafana(
    grafana: Grafana, url: str, shared: Path, request_line: str, model: str
) -> None:
    """Every field that is sent is one that Grafana 13 knows, of its type; what is required is there."""
    fields = json.loads((shared / "grafana" / "grafana13_models_from_go_client.json").read_text())[model]
    publisher = GrafanaPublisher(settings(url), clock=Time())
    await publisher.provision()
    await publisher.annotate(alert())
    await annotated(publisher, alert(AlertState.RESOLVED, recovered_at=NOW))
    bodies = grafana.sent(*request_line.split())
    assert bodies
    for body in bodies:
        assert {name for name, field in fields.items() if field["required"]} <= set(body)
        assert {name: type(value) for name, value in body.items()} == {name: GO[fields[name]["go"]] for name in body}
