"""What ends the process that reads it costs nobody else anything: it is set aside after two, and said so."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from monitor.assembly.rules import reading_rules
from monitor.cli.main import commands
from monitor.model.judgements import Reason
from monitor.model.spans import Fragment
from monitor.payloads.turn_records.fragments import decode_turns, turn_fragment
from monitor.settings.tree import AssembleSettings
from monitor.stages.assemble import tick
from monitor.store.sql_store import SqlStore, open_store

SCRIPT = Path(__file__).parents[2] / "services" / "assemble_process.py"
ASKED_AT = datetime(2026, 3, 4, 9, 0, tzinfo=UTC)
TURNS = 6


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where the store is."""
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    """A store with records of turns that nobody read yet."""
    opened = open_store(url)
    opened.append(_fragments(TURNS))
    yield opened
    opened.close()


def _fragments(turns: int) -> list[Fragment]:
    return [
        turn_fragment(
            orjson.dumps({"query": f"What is {number}?", "response": "A number."}),
            origin=f"chats.jsonl:{number}",
            app="shop",
            received_at=ASKED_AT,
        )
        for number in range(turns)
    ]


def _ended(url: str, worker: str, stage: str, trace_id: str) -> int:
    """Return how a process ended."""
    command = [sys.executable, str(SCRIPT), url, worker, stage, trace_id]
    return subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).returncode


@pytest.mark.long
def test_deadly_trace(store: SqlStore, url: str) -> None:
    """A trace that ended a batch and then two processes alone is read no more; all others are turns."""
    deadly = _fragments(TURNS)[3].trace_id
    assert [-9, -9, -9, 0] == [_ended(url, f"run {run}", "assemble", deadly) for run in range(4)]
    assert TURNS - 1 == len(list(store.turns()))
    assert (deadly,) == store.set_aside()
    (left,) = [trace for trace in store.assembled(since=ASKED_AT, limit=99) if trace.trace_id == deadly]
    assert {"process_died": 1} == left.unread
    assert 0 == store.backlog().fragments


@pytest.mark.long
def test_killed_by_others(store: SqlStore, url: str) -> None:
    """A trace that was being read at one death of a batch and one alone is innocent: it is read by the next process."""
    trace_id = _fragments(TURNS)[3].trace_id
    assert [-9, -9, 0] == [_ended(url, f"run {run}", "assemble", trace_id if run < 2 else "none") for run in range(3)]
    assert (TURNS, ()) == (len(list(store.turns())), store.set_aside())


@pytest.mark.long
def test_more_of_a_deadly_trace(store: SqlStore, url: str) -> None:
    """What arrives later for a trace that was set aside costs no further process."""
    deadly = _fragments(TURNS)[3]
    assert [-9, -9, -9, 0] == [_ended(url, f"run {run}", "assemble", deadly.trace_id) for run in range(4)]
    store.append([replace(deadly, digest=b"another")])
    assert 0 == _ended(url, "run 4", "assemble", deadly.trace_id)
    assert ((deadly.trace_id,), 0) == (store.set_aside(), store.backlog().fragments)


@pytest.mark.long
def test_deadly_trace_is_named_and_read_again(store: SqlStore, url: str) -> None:
    """The doctor names it with the command that has it read again, and then it is read by a process that can."""
    deadly = _fragments(TURNS)[3].trace_id
    assert [-9, -9, -9, 0] == [_ended(url, f"run {run}", "assemble", deadly) for run in range(4)]
    doctor = CliRunner().invoke(commands, ["doctor", "--store", url], catch_exceptions=False)
    assert f"set aside: trace {deadly}, for two processes died while reading it" in doctor.output
    CliRunner().invoke(commands, ["reassemble", "--store", url, "--trace", deadly], catch_exceptions=False)
    assert () == store.set_aside()
    rules = reading_rules((), hash_user=str)
    soon = datetime.now(UTC) + timedelta(minutes=1)
    assert 1 == tick(store, AssembleSettings(), now=soon, decode=decode_turns, rules=rules, worker="mended")
    assert TURNS == len(list(store.turns()))


@pytest.mark.long
def test_deadly_turn(store: SqlStore, url: str) -> None:
    """A turn that ended a batch and then two processes alone is unscored; all others are decided about as ever."""
    deadly = _fragments(TURNS)[3].trace_id
    assert [-9, -9, -9, 0] == [_ended(url, f"run {run}", "sample", deadly) for run in range(4)]
    assert 0 == store.backlog().turns
    reasons = {
        turn.trace_id: [outcome.reason for outcome in sampling.unscored]
        for turn in store.turns()
        if (sampling := store.sampling(turn.turn_id)) is not None
    }
    assert {deadly: [Reason.INTERNAL]} == {trace_id: told for trace_id, told in reasons.items() if told}
    assert TURNS - 1 == store.backlog().jobs


def test_trace_of_many_bytes(tmp_path: Path) -> None:
    """What is over the bytes of a trace that are looked at is counted, and its turns are flagged."""
    store = open_store(f"sqlite:///{tmp_path / 'store.db'}")
    first, second = (replace(fragment, trace_id="a" * 32) for fragment in _fragments(2))
    store.append([first, second])
    settings = AssembleSettings(max_bytes=len(first.payload))
    now = ASKED_AT + timedelta(minutes=20)
    rules = reading_rules((), hash_user=str)
    assert 1 == tick(store, settings, now=now, decode=decode_turns, rules=rules, worker="1")
    (turn,) = store.turns()
    (trace,) = store.assembled(since=ASKED_AT, limit=9)
    assert (True, {"over_limit": 1}) == ("span_limit" in turn.flags, trace.unread)
    store.close()
