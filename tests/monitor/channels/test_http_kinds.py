"""What all channels over HTTP have in common, against a real server on loopback, and what each service is sent."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from announced import HOSTILE, LINK, firing, long_names, resolved
from json_schema import faults
from webhook_receiver import SECRET, Receiver

from monitor import plugins
from monitor.cli.channels import send_test
from monitor.display.alert_text import plain
from monitor.errors import ConfigError, Permanent, Retryable
from monitor.ports import Channel

KEY = SECRET.ljust(32, "x")
ADDRESSED: Mapping[str, Mapping[str, object]] = {
    "slack": {},
    "teams": {},
    "pagerduty": {"routing_key": KEY},
    "opsgenie": {"api_key": KEY},
}
"""By kind, what its section needs beside the address."""
every_kind = pytest.mark.parametrize("kind", ADDRESSED)
SHOWN = plain("safety of <!channel> <a href='https://e.example'>x</a> [y](https://e.… (<@U1> & co, a=\\u2028_b_): ")


def channel(kind: str, url: str, **changes: object) -> Channel:
    """Return a channel of this kind."""
    section = {"kind": kind, "name": "ops", "url": url, "link": LINK, **ADDRESSED[kind], **changes}
    return plugins.channel(kind, section, "channels[0]", name="ops")


def breaches(kind: str, receiver: Receiver) -> list[str]:
    """Return where what was sent is not what the service documents."""
    schema = json.loads((Path(__file__).parent / "schemas" / f"{kind}.schema.json").read_text())
    assert receiver.taken
    return [fault for _, _, body in receiver.taken for fault in faults(body, schema, schema)]


@every_kind
async def test_messages_are_as_the_service_documents_them(kind: str, receiver: Receiver) -> None:
    """Beginning and end, with a link and without, with hostile names and endless ones."""
    receiver.status = 202
    for changes in ({}, {"link": None}):
        configured = channel(kind, receiver.url, **changes)
        for alert in (firing(), resolved(), firing(HOSTILE), resolved(HOSTILE), firing(long_names())):
            await configured.send(alert)
    assert [] == breaches(kind, receiver)
    assert max(len(json.dumps(body)) for _, _, body in receiver.taken) < 20_000


@every_kind
async def test_a_test_message_says_so(kind: str, receiver: Receiver) -> None:
    """`rag-monitor channels test` is marked in words, whatever the service makes of it."""
    assert {"ops": ""} == await send_test({"ops": channel(kind, receiver.url)}, now=datetime(2026, 5, 4, tzinfo=UTC))
    assert [] == breaches(kind, receiver)
    begun, over = (json.dumps(body) for _, _, body in receiver.taken)
    assert "TEST of rag-monitor" in begun
    assert "TEST of rag-monitor" in over or "resolve" in over


@every_kind
async def test_a_check_brings_nobody_a_message(kind: str, receiver: Receiver) -> None:
    """Only whether somebody answers is asked, and no credential is shown."""
    receiver.status = 405
    await channel(kind, receiver.url).check()
    assert receiver.taken == []
    ((_, headers),) = receiver.heads
    assert KEY not in json.dumps(headers)
    receiver.status = 502
    with pytest.raises(Retryable, match="cannot be reached"):
        await channel(kind, receiver.url).check()


@every_kind
async def test_a_pause_that_is_asked_for_is_told(kind: str, receiver: Receiver) -> None:
    """Too many requests are tried again when the service says."""
    receiver.status, receiver.headers = 429, {"Retry-After": "30"}
    for alert in (firing(), resolved()):
        with pytest.raises(Retryable, match="channel 'ops': the endpoint answered 429") as paused:
            await channel(kind, receiver.url).send(alert)
        assert str(paused.value.retry_after) == "0:00:30"


@every_kind
@pytest.mark.parametrize("status", [307, 400, 403, 410])
async def test_a_refusal_is_permanent(kind: str, status: int, receiver: Receiver) -> None:
    """A redirect is one, too: nothing is carried elsewhere."""
    receiver.status, receiver.headers = status, {"Location": receiver.url}
    with pytest.raises(Permanent) as refused:
        await channel(kind, receiver.url).send(firing())
    assert refused.value.reason == f"http_{status}"
    assert len(receiver.taken) == 1


@every_kind
async def test_no_secret_is_shown_when_nobody_listens(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the address nor the key is in the error or in the log."""
    configured = channel(kind, f"http://127.0.0.1:9/hook/{SECRET}", timeout="2s")
    with caplog.at_level(logging.DEBUG):
        for work in (lambda: configured.send(firing()), configured.check):
            with pytest.raises(Retryable, match="channel 'ops': no answer") as failed:
                await work()
            assert SECRET not in f"{failed.value!r} {failed.value.__cause__!r}"
    assert SECRET not in caplog.text


@every_kind
def test_a_wrong_section_is_told_without_its_secrets(kind: str, tmp_path: Path) -> None:
    """A secret that is missing, given twice or in no file, an address that is none, an unknown key."""
    secret = next(iter(ADDRESSED[kind]), "url")
    for section, message in (
        ({secret: None}, f"channel 'ops': {secret}: missing; give {secret} or {secret}_file"),
        ({f"{secret}_file": "x"}, "given twice"),
        ({secret: None, f"{secret}_file": str(tmp_path / "gone")}, f"{secret}_file: cannot read"),
        ({"url": f"hooks.example/{SECRET}"}, "not an http:// or https:// address"),
        ({"urll": "x"}, "urll: unknown key; did you mean 'url'?"),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)) as wrong:
            channel(kind, **{"url": f"http://h/{SECRET}", **section})  # type: ignore[arg-type]
        assert SECRET not in str(wrong.value)


@every_kind
async def test_secrets_may_come_from_files(kind: str, receiver: Receiver, tmp_path: Path) -> None:
    """Without their line ends."""
    secret = next(iter(ADDRESSED[kind]), "url")
    (tmp_path / "secret").write_text(f"{ADDRESSED[kind].get(secret, receiver.url)}\n")
    sent = {"url": receiver.url, secret: None, f"{secret}_file": tmp_path / "secret"}
    await channel(kind, **sent).send(firing())  # type: ignore[arg-type]
    ((path, headers, body),) = receiver.taken
    assert path == f"/hook/{SECRET}"
    assert (KEY in json.dumps([headers, body])) == (secret != "url")


async def taken(kind: str, receiver: Receiver, *alerts: Any) -> list[Any]:
    """Return what a channel of this kind posts about these alerts."""
    for alert in alerts:
        await channel(kind, receiver.url).send(alert)
    return [body for _, _, body in receiver.taken]


async def test_slack(receiver: Receiver) -> None:
    """A header, the details, the link; names call nobody."""
    shown, hostile = await taken("slack", receiver, resolved(), firing(HOSTILE))
    title = "groundedness of shop (production): incident is over, the defect rate was 20.0 % (normal: 5.00 %)"
    assert shown["text"] == title
    header, section, context = shown["blocks"]
    assert header["text"] == {"type": "plain_text", "text": title, "emoji": False}
    assert section["text"]["type"] == "plain_text"
    assert section["text"]["text"].endswith("The promise.")
    assert context["elements"] == [{"type": "mrkdwn", "text": "<https://m.example/alerts/a1>"}]
    assert hostile["text"].startswith(SHOWN)
    assert hostile["blocks"][0]["text"]["text"].startswith(SHOWN)


async def test_teams(receiver: Receiver) -> None:
    """Texts are runs, in which Teams reads no Markdown; the colour says whether it is over."""
    begun, over, hostile = await taken("teams", receiver, firing(), resolved(), firing(HOSTILE))
    cards = [message["attachments"][0]["content"] for message in (begun, over, hostile)]
    titles = [card["body"][0]["inlines"][0] for card in cards]
    assert [title["color"] for title in titles] == ["attention", "good", "attention"]
    assert titles[0]["text"] == "groundedness of shop (production): defect rate rose to 20.0 % (normal: 5.00 %)"
    assert titles[2]["text"].startswith(SHOWN)
    assert cards[0]["actions"] == [
        {"type": "Action.OpenUrl", "title": "Open the alert", "url": "https://m.example/alerts/a1"}
    ]


async def test_pagerduty(receiver: Receiver) -> None:
    """An incident is triggered and resolved by the same key; who needs another severity says so."""
    begun, over = await taken("pagerduty", receiver, firing(), resolved())
    assert over == {"routing_key": KEY, "event_action": "resolve", "dedup_key": "a1"}
    payload = begun.pop("payload")
    assert begun == {
        "routing_key": KEY,
        "event_action": "trigger",
        "dedup_key": "a1",
        "client": "rag-monitor",
        "client_url": "https://m.example/alerts/a1",
        "links": [{"href": "https://m.example/alerts/a1", "text": "Open the alert"}],
    }
    details = payload.pop("custom_details")
    assert payload == {
        "summary": "groundedness of shop (production): defect rate rose to 20.0 % (normal: 5.00 %)",
        "source": "shop",
        "severity": "error",
        "timestamp": "2026-05-04T10:00:00Z",
        "component": "groundedness",
        "group": "production",
        "class": "release",
    }
    assert details["release"] == "1.5.0"
    assert "slice" not in details
    await channel("pagerduty", receiver.url, severity="critical").send(firing())
    assert receiver.taken[-1][2]["payload"]["severity"] == "critical"


async def test_opsgenie(receiver: Receiver) -> None:
    """An alert is created, and closed by its alias; Opsgenie, which shows HTML, finds none."""
    begun, over, hostile = await taken("opsgenie", receiver, firing(), resolved(), firing(HOSTILE))
    assert [path for path, _, _ in receiver.taken][:2] == [
        f"/hook/{SECRET}",
        f"/hook/{SECRET}/a1/close?identifierType=alias",
    ]
    assert {headers["Authorization"] for _, headers, _ in receiver.taken} == {f"GenieKey {KEY}"}
    assert (begun["alias"], begun["priority"], begun["entity"]) == ("a1", "P3", "shop")
    assert begun["message"] == "groundedness of shop (production): defect rate rose to 20.0 % (normal: 5.00 %)"
    assert begun["details"]["link"] == "https://m.example/alerts/a1"
    assert "incident is over" in over["note"]
    assert hostile["message"].startswith(SHOWN)
    assert not re.search("[<>]", json.dumps(hostile))
    await channel("opsgenie", receiver.url, teams=["rag"]).send(firing())
    assert receiver.taken[-1][2]["responders"] == [{"type": "team", "name": "rag"}]
