"""What people get wrong at first, with the installed command; `tests/monitor/test_cli.py` has all the cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.conftest import Command, Start


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample: {rate: 2}", "rag-monitor: wrong.yaml: sample.rate: Input should be less than or equal to 1\n"),
        (
            "collectors: [{kind: otlp_http, prot: 1}]",
            "rag-monitor: wrong.yaml: collectors[0]: prot: unknown key; did you mean 'port'?\n",
        ),
    ],
)
def test_wrong_settings_end_the_start(rag_monitor: Command, text: str, message: str) -> None:
    """A mistake in the file is status 2 and one line, with the file and the key, and nothing else on either stream."""
    rag_monitor.write("wrong.yaml", f"{text}\n")
    done = rag_monitor("run", "-c", "wrong.yaml")
    assert (2, "", message) == (done.status, done.out, done.err)


def test_taken_port_ends_the_start(rag_monitor: Command, quick: Path, start: Start) -> None:
    """A second monitor on the same ports says which one it cannot have, with status 2, and the first goes on."""
    first = start("-c", quick)
    port = first.address("otlp_grpc").rpartition(":")[2]
    second = quick.read_text().replace("otlp_grpc, port: 0", f"otlp_grpc, port: {port}")
    done = rag_monitor("run", "-c", rag_monitor.write("second.yaml", second))
    assert 2 == done.status
    assert f"otlp_grpc: cannot listen on 127.0.0.1:{port}" in done.err
    assert "Traceback" not in done.err
    assert 200 == first.get("/readyz")[0]


def test_unknown_option_is_told(rag_monitor: Command) -> None:
    """A mistake on the command line is status 2 and says what is wrong."""
    done = rag_monitor("turns", "--frobnicate")
    assert (2, "") == (done.status, done.out)
    assert "Error: No such option '--frobnicate'." in done.err


def test_check_changes_nothing(rag_monitor: Command) -> None:
    """With the defaults all parts are well, and nothing was made."""
    done = rag_monitor.ok("check")
    parts = ["installation", "collectors", "dialects", "store", "metrics", "judge", "channels", "grafana"]
    told = [tuple(line.split()[:2]) for line in done.out.splitlines()]
    assert [("ok", part) for part in parts] == [row for row in told if row != ("ok", "listener")]
    assert 3 == told.count(("ok", "listener"))
    assert [] == list(rag_monitor.folder.iterdir())


def test_secrets_are_in_no_output(rag_monitor: Command) -> None:
    """Keys, tokens, passwords and webhook addresses are not repeated, whatever fails."""
    rag_monitor.write("key", "canary-file")
    rag_monitor.write(
        "secrets.yaml",
        """
        store: {url: "postgresql+psycopg://monitor:canary-store@127.0.0.1:9/monitor?sslpassword=canary-query"}
        judge: {kind: openai, api_key: canary-judge, base_url: "http://127.0.0.1:9/v1", timeout: 2s}
        channels:
          - {kind: webhook, url: "http://127.0.0.1:9/canary-hook", authorization: "Bearer canary-auth"}
          - {kind: webhook, name: second, url_file: key}
        grafana: {url: "http://127.0.0.1:9", token: canary-grafana, timeout: 2s}
        """,
    )
    runs = [rag_monitor(verb, "-c", "secrets.yaml") for verb in ("check", "run", "turns")]
    for text in ("judge: {kind: canary-kind}", "judge: {api_key: [canary-list]}", "channels: canary-channels"):
        rag_monitor.write("wrong.yaml", text)
        runs.append(rag_monitor("run", "-c", "wrong.yaml"))
    assert all(done.status for done in runs)
    assert [] == [done for done in runs if "canary" in done.out + done.err]
