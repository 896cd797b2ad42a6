"""Alerts as JSON over HTTP, against a real server on loopback."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from base64 import b64decode, b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from incident import BEGAN_AT, SHOP, alert_about, rise
from json_schema import faults
from webhook_receiver import SECRET, Receiver

from monitor.channels.webhook import Config, build
from monitor.errors import ConfigError, Permanent, Retryable
from monitor.model.trends import Alert, AlertState
from monitor.plugins import load
from monitor.settings.tree import plugin_config

SCHEMA = Path(__file__).parents[3] / "docs" / "alert.schema.json"


def alert(state: AlertState = AlertState.FIRING, *, recovered_at: datetime | None = None) -> Alert:
    """Return an alert about a release."""
    regression = rise(
        series=replace(SHOP, app="shop-bot", metric="groundedness_proxy"),
        rule="release",
        detected_at=datetime(2026, 5, 4, 13, 15, tzinfo=UTC),
        recovered_at=recovered_at,
        rate=0.1234,
        rate_lower=0.0987,
        rate_upper=0.1512,
        baseline_rate=0.0205,
        null_rate=0.0312,
        evidence_log10=3.4,
        threshold_log10=1.6,
        release="1.5.0",
        promise="The promise.",
    )
    return alert_about(
        regression,
        state,
        pending_at=datetime(2026, 5, 4, 13, 20, tzinfo=UTC),
        firing_at=datetime(2026, 5, 4, 13, 25, tzinfo=UTC),
        resolved_at=recovered_at and recovered_at + timedelta(minutes=5),
    )


async def send(config: Config, sent: Alert) -> None:
    """Send one alert."""
    await build(config, "ops").send(sent)


def config(url: str, **changes: object) -> Config:
    """Return a channel's section."""
    return Config.model_validate({"url": url, **changes})


async def test_a_firing_alert_is_posted_in_words_and_numbers(receiver: Receiver) -> None:
    """The body carries every documented key, and a message that a person understands."""
    await send(config(receiver.url, link="https://m.example/alerts/{alert_id}"), alert())
    ((path, headers, body),) = receiver.taken
    assert path == f"/hook/{SECRET}"
    assert headers["Content-Type"] == "application/json"
    assert headers["Idempotency-Key"] == "a1:firing"
    message = body.pop("message")
    assert message == (
        "Since 4 May 2026 10:00 UTC 12.3 % of the judged turns are defects (95 % interval: 9.87 % to 15.1 %). "
        "The normal rate is 2.05 %; up to 3.12 % still counts as normal. Most of these turns ran on release 1.5.0. "
        "Detected on 4 May 2026 13:15 UTC. The promise."
    )
    assert body == {
        "version": 1,
        "alert_id": "a1",
        "fingerprint": "f1",
        "state": "firing",
        "title": "groundedness_proxy of shop-bot (production): defect rate rose to 12.3 % (normal: 2.05 %)",
        "link": "https://m.example/alerts/a1",
        "app": "shop-bot",
        "environment": "production",
        "slice": "",
        "metric": "groundedness_proxy",
        "rubric_id": "r1",
        "rule": "release",
        "release": "1.5.0",
        "began_at": "2026-05-04T10:00:00Z",
        "detected_at": "2026-05-04T13:15:00Z",
        "recovered_at": None,
        "pending_at": "2026-05-04T13:20:00Z",
        "firing_at": "2026-05-04T13:25:00Z",
        "resolved_at": None,
        "rate": 0.1234,
        "rate_lower": 0.0987,
        "rate_upper": 0.1512,
        "baseline_rate": 0.0205,
        "null_rate": 0.0312,
        "evidence_log10": 3.4,
        "threshold_log10": 1.6,
        "promise": "The promise.",
        "judge_change": "",
    }


async def test_a_resolved_alert_says_from_when_to_when(receiver: Receiver) -> None:
    """The second message has the same id, its own key and the end."""
    await send(config(receiver.url), alert(AlertState.RESOLVED, recovered_at=BEGAN_AT + timedelta(hours=9)))
    ((_, headers, body),) = receiver.taken
    assert headers["Idempotency-Key"] == "a1:resolved"
    assert (body["state"], body["recovered_at"]) == ("resolved", "2026-05-04T19:00:00Z")
    assert body["resolved_at"] == "2026-05-04T19:05:00Z"
    assert "From 4 May 2026 10:00 UTC to 4 May 2026 19:00 UTC" in body["message"]
    assert "incident is over, the defect rate was 12.3 %" in body["title"]


async def test_bodies_fit_the_published_schema(receiver: Receiver) -> None:
    """What is posted has every key of docs/alert.schema.json and no other; a wrong value would be seen."""
    schema = json.loads(SCHEMA.read_text())
    await send(config(receiver.url), alert())
    await send(config(receiver.url), alert(AlertState.RESOLVED, recovered_at=BEGAN_AT + timedelta(hours=9)))
    for _, _, body in receiver.taken:
        assert faults(body, schema, schema) == []
        assert list(body) == list(schema["properties"])
        assert len(faults({**body, "rate": 1.5, "state": "open", "began_at": None}, schema, schema)) == 3


@pytest.mark.parametrize("status", [200, 201, 202, 204])
async def test_any_success_is_taken(receiver: Receiver, status: int) -> None:
    """2xx means that the other side has the alert."""
    receiver.status = status
    await send(config(receiver.url), alert())
    assert len(receiver.taken) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503])
async def test_trouble_that_passes_is_retryable(receiver: Receiver, status: int) -> None:
    """Overload and server errors are to be tried again."""
    receiver.status = status
    with pytest.raises(Retryable, match=str(status)):
        await send(config(receiver.url), alert())


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 410])
async def test_a_refusal_is_permanent_and_a_redirect_is_not_followed(receiver: Receiver, status: int) -> None:
    """Other answers will not change by asking again; the secret is not carried to another address."""
    receiver.status = status
    receiver.headers = {"Location": receiver.url}
    with pytest.raises(Permanent) as refused:
        await send(config(receiver.url), alert())
    assert refused.value.reason == f"http_{status}"
    assert len(receiver.taken) == 1


async def test_retry_after_is_honoured(receiver: Receiver) -> None:
    """Seconds and dates are both understood; nonsense is no hint."""
    receiver.status = 429
    pauses = []
    for value in ("90", format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True), "soon"):
        receiver.headers = {"Retry-After": value}
        with pytest.raises(Retryable) as paused:
            await send(config(receiver.url), alert())
        pauses.append(paused.value.retry_after)
    seconds, until, nothing = pauses
    assert seconds == timedelta(seconds=90)
    assert until is not None
    assert timedelta(minutes=9) < until <= timedelta(minutes=10)
    assert nothing is None


async def test_silence_is_retryable(receiver: Receiver) -> None:
    """An endpoint that never answers is left after the time limit."""
    receiver.status = 0
    with pytest.raises(Retryable, match="no answer"):
        await send(config(receiver.url, timeout="200ms"), alert())


async def test_nobody_listening_is_retryable_and_no_secret_is_shown(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    """The error names the channel, and neither the address nor the authorization; nor does the log."""
    gone = receiver.url.replace(str(receiver.server_address[1]), "9")
    with caplog.at_level(logging.DEBUG), pytest.raises(Retryable, match="channel 'ops'") as failed:
        await send(config(gone, authorization=f"Bearer {SECRET}", timeout="2s"), alert())
    assert SECRET not in f"{failed.value!r} {failed.value.__cause__!r} {failed.value.__context__!r}" or (
        failed.value.__suppress_context__
    )
    assert SECRET not in str(failed.value)
    assert SECRET not in caplog.text


async def test_secrets_may_come_from_files(receiver: Receiver, tmp_path: Path) -> None:
    """Address and authorization are read from files, without their line ends."""
    (tmp_path / "url").write_text(receiver.url + "\n")
    (tmp_path / "token").write_text("Bearer t\n")
    files = {"url_file": tmp_path / "url", "authorization_file": tmp_path / "token", "headers": {"X-Team": "rag"}}
    await send(Config.model_validate(files), alert())
    ((_, headers, _),) = receiver.taken
    assert (headers["Authorization"], headers["X-Team"]) == ("Bearer t", "rag")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({}, "url: missing"),
        ({"url": "hooks.example/secret"}, "not an http"),
        ({"url": "http://h/", "url_file": "x"}, "given twice"),
        ({"url": "http://h/secret\nhttp://other/"}, "white space within"),
        ({"url": "http://h/", "ca_file": "/nowhere/ca.pem"}, "cannot read authorities"),
    ],
)
def test_a_wrong_section_is_a_config_error(section: dict[str, object], message: str) -> None:
    """What cannot work is said at start, without the secret."""
    with pytest.raises(ConfigError, match=message) as wrong:
        build(Config.model_validate(section), "ops")
    assert "secret" not in str(wrong.value)


async def test_the_channel_is_found_by_its_kind(receiver: Receiver) -> None:
    """`channels: [{kind: webhook, ...}]` loads this module, whose Config refuses unknown keys."""
    module = load("channels", "webhook", "channels[0].kind")
    section = {"kind": "webhook", "name": "ops", "url": receiver.url}
    channel = module.build(plugin_config(module.Config, section, "channels[0]"), "ops")
    await channel.send(alert())
    assert len(receiver.taken) == 1
    with pytest.raises(ConfigError, match="urll"):
        plugin_config(module.Config, {"kind": "webhook", "urll": "x"}, "channels[0]")


async def test_a_message_without_release_or_promise_is_whole(receiver: Receiver) -> None:
    """What is unknown is left out of the words."""
    bare = alert()
    bare = replace(bare, regression=replace(bare.regression, release="", promise=""))
    await send(config(receiver.url), bare)
    assert "release" not in receiver.taken[0][2]["message"]


@pytest.fixture
def proxied(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """The receiver as the proxy that the environment names, with a login, for all but 127.0.0.1."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv(name, "127.0.0.1" if name == "NO_PROXY" else receiver.origin.replace("//", "//me:pw@"))
    return receiver


LOGIN = "Basic bWU6cHc="
UNKNOWN = "http://hooks.corp.example/rag"
"""A name that only the proxy knows."""


async def test_a_proxy_of_the_environment_is_used(proxied: Receiver) -> None:
    """The proxy gets the whole address, its own login and the message; the check goes the same way."""
    channel = build(config(UNKNOWN, authorization="Bearer t"), "ops")
    await channel.send(alert())
    await channel.check()
    ((path, headers, body),) = proxied.taken
    assert (path, body["alert_id"]) == (UNKNOWN, "a1")
    assert (headers["Authorization"], headers["Proxy-Authorization"]) == ("Bearer t", LOGIN)
    ((path, headers),) = proxied.heads
    assert (path, headers["Proxy-Authorization"]) == (UNKNOWN, LOGIN)
    assert "Authorization" not in headers


async def test_https_goes_through_a_tunnel(proxied: Receiver) -> None:
    """A proxy is asked for a connection; one that refuses it is named as what refused."""
    proxied.status = 403
    channel = build(config(UNKNOWN.replace("http:", "https:")), "ops")
    for work in (lambda: channel.send(alert()), channel.check):
        with pytest.raises(Retryable, match="channel 'ops': the proxy answered 403"):
            await work()
    assert [(where, headers["Proxy-Authorization"]) for where, headers in proxied.tunnels] == [
        ("hooks.corp.example:443", LOGIN)
    ] * 2


async def test_no_proxy_is_respected(proxied: Receiver) -> None:
    """A host that `NO_PROXY` names is reached directly."""
    await send(config(proxied.url), alert())
    ((path, headers, _),) = proxied.taken
    assert path == f"/hook/{SECRET}"
    assert "Proxy-Authorization" not in headers


async def test_a_proxy_that_is_down_is_named(proxied: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the receiver is what a person must look at, and the login is not shown."""
    monkeypatch.setenv("HTTP_PROXY", "http://me:pw@127.0.0.1:9")
    with pytest.raises(Retryable, match="cannot connect to the proxy that the environment names") as failed:
        await send(config(UNKNOWN), alert())
    assert "pw" not in str(failed.value)
    assert proxied.taken == []


async def test_a_login_of_the_netrc_file_is_not_sent(
    proxied: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever runs the monitor may have logins for other programs; they stay there."""
    (tmp_path / "netrc").write_text("default login somebody password else")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    await send(config(UNKNOWN), alert())
    await send(config(UNKNOWN, authorization="Bearer t"), alert())
    assert [headers.get("Authorization") for _, headers, _ in proxied.taken] == [None, "Bearer t"]


@pytest.mark.parametrize("status", [200, 401, 404, 405, 500, 501])
async def test_check_is_content_with_any_answer(receiver: Receiver, status: int) -> None:
    """The endpoint is there; whether it takes a message is not asked."""
    receiver.status = status
    await build(config(receiver.url), "ops").check()
    assert receiver.taken == []


@pytest.mark.parametrize("status", [407, 502, 503, 504])
async def test_check_sees_that_a_proxy_cannot_reach_the_endpoint(proxied: Receiver, status: int) -> None:
    """A gateway answers although nobody is behind it."""
    proxied.status = status
    with pytest.raises(Retryable, match=f"cannot be reached: a proxy or gateway answered {status}"):
        await build(config(UNKNOWN), "ops").check()


async def test_the_reported_case_of_a_proxy(receiver: Receiver, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R08: a webhook behind a proxy that alone knows its name is reached, and checked, through it."""
    case = json.loads((shared / "cases/round2/payloads/R08-webhook-proxy.scenario.json").read_text())
    for name, value in case["environment"].items():
        monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv(name, value.replace("http://127.0.0.1:PROXY", receiver.origin))
    (section,) = case["channels"]
    channel = build(plugin_config(Config, section, "channels[0]"), "ops")
    await channel.check()
    await channel.send(alert())
    assert [path for path, _, _ in receiver.taken] == [path for path, _ in receiver.heads] == [section["url"]]


SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def test_a_message_is_signed_byte_for_byte(receiver: Receiver, tmp_path: Path) -> None:
    """A receiver that keeps to Standard Webhooks finds who sent it, when, and that it is whole."""
    (tmp_path / "secret").write_text(f"{SIGNING}\n")
    channel = build(config(receiver.url, signing_secret_file=tmp_path / "secret"), "ops")
    before = datetime.now(UTC)
    for _ in range(2):
        await channel.send(alert())
    for (_, headers, _), body in zip(receiver.taken, receiver.bodies, strict=True):
        sent_at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
        assert timedelta(seconds=-1) < sent_at - before < timedelta(minutes=5)
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.new(b64decode(SIGNING.removeprefix("whsec_")), signed, hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{b64encode(digest).decode()}"
        assert headers["webhook-id"] == headers["Idempotency-Key"] == "a1:firing"


async def test_without_a_secret_nothing_is_signed(receiver: Receiver) -> None:
    """No header of a signature is there to be trusted."""
    await send(config(receiver.url), alert())
    ((_, headers, _),) = receiver.taken
    assert not [name for name in headers if name.lower().startswith("webhook-")]


@pytest.mark.parametrize("secret", ["hunter2", SIGNING.removeprefix("whsec_"), "whsec_hunter2", "whsec_aHVudGVyMg=="])
def test_a_signing_secret_that_is_none_is_told(secret: str) -> None:
    """One of another form or a short one, without repeating it."""
    with pytest.raises(ConfigError, match="channel 'ops': signing_secret: expected whsec_ and 24 to 64 bytes") as wrong:
        build(config("http://h/", signing_secret=secret), "ops")
    assert secret not in str(wrong.value)
