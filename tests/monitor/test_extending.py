"""docs/extending.md: what it shows works, and what it says of each kind is what the ports ask for."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, cast

import extending_page
import pytest
from deadline import wait_until
from incident import SHOP, alert_about, rise

from monitor import plugins
from monitor.errors import Permanent, Retryable
from monitor.judging import prompt_metric
from monitor.judging.coded.registry import coded
from monitor.model.spans import Fragment, Role, Step
from monitor.ports import Channel, Collector, Dialect, TurnScorer

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PAGE = extending_page.PAGE.read_text(encoding="utf-8")
HANGS_UP = b""
ALERT = alert_about(rise(series=replace(SHOP, metric="answer_length"), rate=0.25))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's package, as if it had been installed."""
    extending_page.install(tmp_path, extending_page.files())
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in {"acme_rag", "test_acme"}]:
        del sys.modules[name]


class Peer:
    """The other side of a plug-in, on a port of its own: says its lines one by one, and keeps what it is told."""

    def __init__(self, *answers: bytes) -> None:
        self.lines: list[bytes] = []
        self.port = 0
        self.has_said_all = asyncio.Event()
        self._answers = iter(answers)
        self._talks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await asyncio.gather(*self._talks)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._talks.add(cast("asyncio.Task[None]", asyncio.current_task()))
        while line := await reader.readline():
            self.lines.append(line)
            if line.startswith((b"done", b"bad")):
                continue
            answer = next(self._answers, None)
            if answer == HANGS_UP:
                break
            if answer is None:
                self.has_said_all.set()
            else:
                writer.write(answer)
        writer.close()
        await writer.wait_closed()


class Kept:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.fragments: list[Fragment] = []

    async def put(self, fragments: Sequence[Fragment]) -> None:
        """Keep them."""
        self.fragments += fragments


@pytest.mark.usefixtures("installed")
def test_tests_of_the_page() -> None:
    """What the page shows as tests of dialect and metric passes."""
    module = importlib.import_module("test_acme")
    tests = [test for name, test in vars(module).items() if name.startswith("test_")]
    assert 4 == len(tests)
    for test in tests:
        test()


@pytest.mark.usefixtures("installed")
def test_dialect_and_metric_are_found() -> None:
    """Both are found by their entry points and pass the checks of the start."""
    metric = coded("answer_length", where="metrics[0]")
    assert metric is not None
    assert ("acme", "Length of the answer") == (plugins.dialect("acme", "here").name, metric.rubric.title)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("answer", "error"),
    [(b"ok\n", None), (b"busy\n", Retryable), (b"nobody on call\n", Permanent), (HANGS_UP, Permanent)],
)
async def test_channel(answer: bytes, error: type[Exception] | None) -> None:
    """An alert is one line of JSON, and every answer is taken, tried again or given up."""
    async with Peer(answer) as peer:
        channel = plugins.channel("acme_pager", {"kind": "acme_pager", "port": peer.port}, "here", name="on_call")
        if error is None:
            await channel.send(ALERT)
        else:
            with pytest.raises(error):
                await channel.send(ALERT)
    expected = b'{"id": "a1", "state": "firing", "app": "shop", "metric": "answer_length", "rate": 0.25}\n'
    assert [expected] == peer.lines


@pytest.mark.usefixtures("installed")
async def test_channel_without_its_pager() -> None:
    """A pager that is away is tried again."""
    channel = plugins.channel("acme_pager", {"kind": "acme_pager", "port": 9}, "here", name="on_call")
    with pytest.raises(Retryable, match="on_call: no answer: ConnectionRefusedError"):
        await channel.check()


@pytest.mark.usefixtures("installed")
async def test_collector() -> None:
    """A record is reported as done once the sink has it, and one that is no turn as bad; the rest goes on."""
    record = b'{"question": "Open?", "context": "Open until six.", "answer": "Until six."}'
    kept = Kept()
    async with Peer(b"1 " + record + b"\n", b'2 {"hello": 1}\n', b"3 " + record + b"\n") as peer:
        section = {"kind": "acme_queue", "port": peer.port, "pause": "1h"}
        collector = plugins.collector("acme_queue", section, "here", sink=kept, clock=lambda: NOW)
        async with collector, asyncio.timeout(30):
            await peer.has_said_all.wait()
    assert [b"take\n", b"done 1\n", b"take\n", b"bad 2 no_turn\n", b"take\n", b"done 3\n", b"take\n"] == peer.lines
    assert 2 == len({fragment.digest for fragment in kept.fragments})
    stats = collector.stats()  # type: ignore[attr-defined]
    assert ({"turns": 2}, {"no_turn": 1}) == (stats.stored, stats.bad)


@pytest.mark.usefixtures("installed")
async def test_collector_without_its_queue() -> None:
    """A queue that is away is a problem, and no error."""
    section = {"kind": "acme_queue", "port": 9, "pause": "1h"}
    collector = plugins.collector("acme_queue", section, "here", sink=Kept(), clock=lambda: NOW)
    async with collector:
        health = await asyncio.to_thread(wait_until, collector.health, "the problem", seconds=30)
    assert "the queue does not answer: ConnectionRefusedError" == health["queue"]


def test_prompt(tmp_path: Path) -> None:
    """The prompt file with its schema is one that can be used."""
    extending_page.write(tmp_path, {k: v for k, v in extending_page.files().items() if k.startswith("tone.")})
    metric = prompt_metric.load(str(tmp_path / "tone.md"), judge_name="openai:m")
    assert ("tone", {"query", "response"}) == (metric.rubric.metric, metric.rubric.needs)


@pytest.mark.parametrize(
    ("heading", "port"),
    [("A dialect", Dialect), ("A channel", Channel), ("A collector", Collector), ("A metric that code", TurnScorer)],
)
def test_every_member_is_explained(heading: str, port: type) -> None:
    """The section of a kind has a row for each member of its port."""
    (section,) = [part for part in PAGE.split("\n## ") if part.startswith(heading)]
    rows = [line.removeprefix("| `").removeprefix("async ") for line in section.splitlines() if line.startswith("| `")]
    members = [name for name in vars(port) if not name.startswith("_") and name != "rubric"]
    assert members
    assert [] == [name for name in members if not any(row.startswith(name) for row in rows)]
    assert cast("str", port.__doc__)


def test_adding_a_thing_is_adding_a_file() -> None:
    """Every place that CONTRIBUTING.md names for a new file is where the present ones are."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| a")]
    places = [place for row in rows for place in re.findall(r"`([\w/<>.]+)`", row) if "/" in place]
    assert len(places) > len(rows)
    assert [] == [place for place in places if not list(ROOT.glob(re.sub(r"<\w+>", "*", place)))]


def test_fields_of_a_step() -> None:
    """The page names every field of a step and every role, and none that there is not."""
    table = PAGE.partition("| field of `Step` | what it holds |")[2].partition("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| ")]
    assert {field.name for field in fields(Step)} == {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    roles = next(line for line in PAGE.splitlines() if line.startswith("| `role(span) -> Role` |"))
    assert {role.name for role in Role} == set(re.findall(r"`([A-Z]+)`", roles))
