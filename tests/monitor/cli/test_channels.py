"""`rag-monitor channels test`: marked messages to a real receiver, and what it makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from webhook_receiver import SECRET, Receiver

from monitor.cli.main import commands
from monitor.cli.output import FAILED
from monitor.errors import ConfigError


def call(folder: Path, receiver: Receiver, *arguments: str) -> Result:
    """Call the verb with two channels, which post to /hook/... and to /pager."""
    sections = [
        {"kind": "webhook", "name": "ops", "url": receiver.url},
        {"kind": "webhook", "name": "pager", "url": f"{receiver.origin}/pager"},
    ]
    return invoke(folder, sections, *arguments)


def invoke(folder: Path, sections: list[dict[str, str]], *arguments: str) -> Result:
    """Call the verb with these channels; its folder holds nothing but the settings afterwards."""
    path = folder / "settings.yaml"
    path.write_text(yaml.safe_dump({"store": {"url": f"sqlite:///{folder / 'm.db'}"}, "channels": sections}))
    called = CliRunner().invoke(commands, ("channels", "test", "-c", str(path), *arguments), standalone_mode=False)
    assert list(folder.iterdir()) == [path]
    return called


def test_every_channel_is_sent_a_marked_incident_that_ends(tmp_path: Path, receiver: Receiver) -> None:
    """Each gets firing, then resolved, of one incident; both say that they are a test, for people and for programs."""
    called = call(tmp_path, receiver)
    assert called.return_value == 0
    assert [line.split() for line in called.output.splitlines()] == [
        ["ok", "ops", "took", "firing", "and", "resolved"],
        ["ok", "pager", "took", "firing", "and", "resolved"],
    ]
    for path in (f"/hook/{SECRET}", "/pager"):
        firing, resolved = (body for where, _, body in receiver.taken if where == path)
        assert (firing["state"], resolved["state"]) == ("firing", "resolved")
        assert firing["alert_id"] == resolved["alert_id"]
        for body in (firing, resolved):
            assert body["alert_id"].startswith("test-")
            assert body["metric"] == "TEST"
            assert body["title"].startswith("TEST of rag-monitor: ")
            assert body["message"].endswith(
                "This is a test message, sent by rag-monitor channels test: nothing is wrong."
            )


def test_one_channel_by_its_name(tmp_path: Path, receiver: Receiver) -> None:
    """Nobody else hears of the test."""
    assert call(tmp_path, receiver, "pager").return_value == 0
    assert {path for path, _, _ in receiver.taken} == {"/pager"}


def test_a_channel_that_refuses_is_named_and_the_others_are_tried(tmp_path: Path, receiver: Receiver) -> None:
    """The status is 1, the line says what the other side answered, and no address is shown."""
    receiver.statuses = {f"/hook/{SECRET}": 404}
    called = call(tmp_path, receiver)
    assert called.return_value == FAILED
    assert [line.rstrip().split(maxsplit=2) for line in called.output.splitlines()] == [
        ["FAILED", "ops", "channel 'ops': the endpoint answered 404"],
        ["ok", "pager", "took firing and resolved"],
    ]
    assert SECRET not in called.output


def test_a_name_that_is_no_channel_lists_those_that_are(tmp_path: Path, receiver: Receiver) -> None:
    """Nothing is sent."""
    with pytest.raises(ConfigError, match="channels test: no channel 'oops'; known: ops, pager"):
        raise call(tmp_path, receiver, "oops").exception or AssertionError
    assert receiver.taken == []


def test_no_channel_at_all(tmp_path: Path) -> None:
    """Without a channel there is nothing that could be well."""
    with pytest.raises(ConfigError, match="channels: none; expected a list"):
        raise invoke(tmp_path, []).exception or AssertionError
