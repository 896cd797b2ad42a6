"""Alerts by mail, against a real server on loopback."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest
from announced import HOSTILE, LINK, firing, long_names, resolved
from authority import Authority
from smtp_service import PASSWORD, MailServer, Serve

from monitor import plugins
from monitor.cli.channels import send_test
from monitor.display.alert_text import plain
from monitor.errors import ConfigError, Permanent, Retryable
from monitor.ports import Channel

PEOPLE = ["oncall@example.org", "rag@example.org"]


def channel(server: MailServer | int, **changes: object) -> Channel:
    """Return a channel to a server without TLS, or as `changes` say."""
    port = server if isinstance(server, int) else server.port
    section = {
        "host": "127.0.0.1", "port": port, "encryption": "none", "sender": "monitor@example.org", "recipients": PEOPLE,
        "link": LINK, **changes,
    }  # fmt: skip
    return plugins.channel("smtp", section, "channels[0]", name="ops")


def body(mail: EmailMessage, kind: str) -> str:
    """Return the text of a mail, or its page."""
    part = mail.get_body((kind,))
    assert part is not None
    text = part.get_content()
    assert isinstance(text, str)
    return text


async def test_an_incident_is_one_thread(serve_mail: Serve) -> None:
    """The end answers the beginning; a list's filters and programs that answer for people know it for what it is."""
    server = serve_mail()
    for alert in (firing(), resolved(), resolved()):
        await channel(server).send(alert)
    begun, over, again = server.mails
    assert begun["Subject"] == "groundedness of shop (production): defect rate rose to 20.0 % (normal: 5.00 %)"
    assert (begun["From"], begun["To"]) == ("rag-monitor <monitor@example.org>", "oncall@example.org, rag@example.org")
    assert begun["List-Id"] == "Alerts of rag-monitor <alerts.rag-monitor.example.org>"
    assert begun["Auto-Submitted"] == "auto-generated"
    assert begun["Message-ID"] == "<a1.firing@example.org>"
    assert begun["References"] is None
    assert (over["In-Reply-To"], over["References"]) == ("<a1.firing@example.org>", "<a1.firing@example.org>")
    assert over["Message-ID"] == again["Message-ID"] == "<a1.resolved@example.org>"
    assert begun["Date"].datetime.tzinfo is not None
    for kind in ("plain", "html"):
        assert "20.0 % of the judged turns are defects" in body(begun, kind)
        assert "The promise." in body(begun, kind)
        assert "https://m.example/alerts/a1" in body(begun, kind)
    assert server.envelopes[0].mail_from == "monitor@example.org"
    assert server.envelopes[0].rcpt_tos == PEOPLE


async def test_names_are_text_in_headers_and_pages(serve_mail: Serve) -> None:
    """A name adds no header, recipient, tag or link, however it is written and however long it is."""
    server = serve_mail()
    for series in (HOSTILE, long_names()):
        await channel(server).send(firing(series))
    hostile, long = server.mails
    assert hostile["Subject"].startswith(plain("safety of <!channel> <a href='https://e.example'>x</a> [y]"))
    assert hostile["Bcc"] is None
    assert server.envelopes[0].rcpt_tos == PEOPLE
    page = body(hostile, "html")
    assert set(re.findall("<[^>]*>", page)) == {
        "<!doctype html>", "<html>", "<body>", "<h3>", "</h3>", "<p>", "</p>", '<a href="https://m.example/alerts/a1">',
        "</a>", "<table>", "<tr>", "<th align=left>", "</th>", "<td>", "</td>", "</tr>", "</table>", "</body>",
        "</html>",
    }  # fmt: skip
    assert len(bytes(long)) < 20_000


@pytest.mark.parametrize("encryption", ["starttls", "tls"])
async def test_a_login_goes_over_tls(encryption: str, serve_mail: Serve, tmp_path: Path) -> None:
    """With the authority of the settings and a password from a file; `check` logs in and sends nothing."""
    authority = Authority(tmp_path, "ours")
    server = serve_mail(authority.issue("server"), from_the_start=encryption == "tls")
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    login = {"encryption": encryption, "username": "monitor", "ca_file": authority.ca_file}
    ops = channel(server, password_file=tmp_path / "password", **login)
    await ops.check()
    assert server.mails == []
    await ops.send(firing())
    assert len(server.mails) == 1
    wrong = channel(server, password=f"{PASSWORD}x", **login)
    for work in (wrong.check, lambda: wrong.send(firing())):
        with pytest.raises(Permanent, match="channel 'ops': the server answered 535") as refused:
            await work()
        assert (refused.value.reason, PASSWORD in repr(refused.value)) == ("smtp_535", False)
    with pytest.raises(Retryable, match="channel 'ops': TLS refused"):
        await channel(server, encryption=encryption).check()


async def test_nothing_is_sent_to_a_server_without_starttls(serve_mail: Serve) -> None:
    """Whoever stands between cannot make us write in the clear."""
    server = serve_mail()
    with pytest.raises(Permanent, match="does not offer what the settings ask for: STARTTLS"):
        await channel(server, encryption="starttls").send(firing())
    assert server.mails == []


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        ("451 later", Retryable, "answered 451"),
        ("452 monitor@example.org is over quota", Retryable, "answered 452"),
        ("550 no", Permanent, "answered 550"),
        ("554 spam of monitor@example.org", Permanent, "answered 554"),
    ],
)
@pytest.mark.parametrize("refused", [("DATA",), PEOPLE])
async def test_what_a_server_refuses(
    refused: list[str], reply: str, error: type[Exception], message: str, serve_mail: Serve
) -> None:
    """Codes from 500 on are for good, those below pass; what the server says besides is not repeated."""
    server = serve_mail()
    server.replies = dict.fromkeys(refused, reply)
    with pytest.raises(error, match=f"^channel 'ops': the server {message}$"):
        await channel(server).send(firing())


async def test_one_of_two_recipients_is_refused(serve_mail: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """The other gets the mail, once; the log says how many did not, and no address."""
    server = serve_mail()
    server.replies = {PEOPLE[1]: "550 unknown"}
    with caplog.at_level(logging.WARNING):
        await channel(server).send(firing())
    assert server.envelopes[0].rcpt_tos == PEOPLE[:1]
    assert "channel 'ops': the server refused 1 of 2 recipients" in caplog.text
    assert "@" not in caplog.text


async def test_nobody_listening_is_tried_again() -> None:
    """Neither sending nor a check waits long, and both say which channel."""
    ops = channel(9, timeout="2s")
    for work in (ops.check, lambda: ops.send(firing())):
        with pytest.raises(Retryable, match="channel 'ops': no answer: "):
            await work()


async def test_a_test_message_says_so(serve_mail: Serve) -> None:
    """`rag-monitor channels test` sends two mails of one thread, marked in words."""
    server = serve_mail()
    assert {"ops": ""} == await send_test({"ops": channel(server)}, now=datetime(2026, 5, 4, tzinfo=UTC))
    begun, over = server.mails
    assert begun["Subject"].startswith("TEST of rag-monitor: ")
    assert over["References"] == begun["Message-ID"]
    assert "This is a test message" in body(begun, "plain")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipients": []}, "recipients"),
        ({"recipients": ["oncall"]}, "recipients"),
        ({"sender": "x@example.org\nBcc: y@example.org"}, "expected an address such as"),
        ({"username": "monitor"}, "channel 'ops': username and password go together"),
        ({"username": "monitor", "password": PASSWORD}, "channel 'ops': encryption: none would show the password"),
        ({"password": PASSWORD, "password_file": "x"}, "given twice"),
        ({"ca_file": "/nowhere/ca.pem"}, "cannot read authorities"),
        ({"hots": "x"}, "hots: unknown key; did you mean 'host'?"),
    ],
)
def test_a_wrong_section_is_told(changes: dict[str, object], message: str) -> None:
    """What cannot work is said at start, without the password."""
    with pytest.raises(ConfigError, match=re.escape(message)) as wrong:
        channel(9, **changes)
    assert PASSWORD not in str(wrong.value)
