"""The command's verbs, called in this process: statuses, messages, formats. `tests/e2e` runs the installed command."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pytest

from monitor.cli import main as cli

VERBS = (
    "run", "check", "migrate", "replay", "reassemble", "score",
    "turns", "trends", "alerts", "channels", "explain", "demo",
)  # fmt: skip


@dataclass(frozen=True)
class Done:
    """What a call came to."""

    status: int
    out: str
    err: str


Call: TypeAlias = Callable[..., Done]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Call]:
    """Calls the command in a folder of its own; keywords are its environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "GRAFANA_URL", "GRAFANA_TOKEN", "RAG_MONITOR_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    ours = [logging.getLogger(name) for name in ("", "monitor", "collectors")]
    before = [(logger.level, logger.handlers[:]) for logger in ours]

    def run(*arguments: str, **environment: str) -> Done:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["rag-monitor", *arguments])
            for name, value in environment.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                cli.main()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, out, err)

    yield run
    for logger, (level, handlers) in zip(ours, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(call: Call, verb: str) -> None:
    """The help of the command names the verb, and the verb's own ends in examples of it."""
    assert f"  {verb} " in call("--help").out
    done = call(verb, "--help")
    _, _, examples = done.out.partition("Examples:\n")
    lines = [line.split() for line in examples.splitlines()]
    assert done.status == 0
    assert lines
    assert all(["rag-monitor", verb] == words[:2] for words in lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sample: {rate: 2}", "wrong.yaml: sample.rate: Input should be less than or equal to 1"),
        ("sampel: {rate: 1}", "wrong.yaml: sampel: unknown key; did you mean 'sample'?"),
        ("rollup: {window: 7h}", "wrong.yaml: rollup: window (7:00:00) does not divide a day"),
        ("rollup: {window: 0s}", "wrong.yaml: rollup.window: "),
        ("rollup: {window: 2d}", "wrong.yaml: rollup.window: "),
        ("store: {url: [", "wrong.yaml:2:1: not YAML"),
        ("judge: {kind: openai}", "wrong.yaml: judge: kind openai needs api_key"),
        ("store: {url: 'mysql://u:s3cr3t@h/d'}", "wrong.yaml: store.url: "),
        ("store: {url: 'sqlite://'}", "wrong.yaml: store.url: SQLite in memory"),
        ("collectors: [{kind: otlp_htp}]", "wrong.yaml: collectors[0].kind: no collector 'otlp_htp'; known: "),
        ("collectors: [{kind: otlp_http, prot: 1}]", "wrong.yaml: collectors[0]: prot: unknown key; did you mean "),
        ("collectors: [{kind: otlp_http}, {kind: otlp_http}]", "wrong.yaml: collectors[1].name: 'otlp_http' is taken"),
        ("web: {port: 4317}", "wrong.yaml: collectors[1].port: port 4317 on localhost is taken by web.port"),
        ("channels: [{kind: pigeon}]", "wrong.yaml: channels[0].kind: no channel 'pigeon'; known: "),
        ("channels: [{url: x}]", "wrong.yaml: channels[0].kind: missing"),
        ("channels: [{kind: webhook}]", "wrong.yaml: channel 'webhook': url: missing"),
        ("assemble: {dialects: [latin]}", "wrong.yaml: assemble.dialects[0]: no dialect 'latin'; known: "),
        ("judge: {kind: openai, api_key: k}\nmetrics: [tone]", "wrong.yaml: metrics"),
    ],
)
def test_wrong_settings_are_told_with_file_and_key(call: Call, tmp_path: Path, text: str, message: str) -> None:
    """A mistake in the file ends `run` with status 2 and a line that says where it is."""
    (tmp_path / "wrong.yaml").write_text(f"{text}\n")
    done = call("run", "-c", "wrong.yaml")
    assert (2, "") == (done.status, done.out)
    assert done.err.startswith(f"rag-monitor: {message}")
    assert "s3cr3t" not in done.err
    assert 1 == len(done.err.splitlines())
    # Else no process that is started later could be ended by SIGTERM.
    assert set() == signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("turns", "--frobnicate"), "No such option '--frobnicate'"),
        (("frobnicate",), "No such command 'frobnicate'"),
        (("run", "--role", "cook"), "'cook' is not one of 'ingest', 'score', 'schedule'"),
        (("turns", "--since", "yesterday"), "--since: 'yesterday' is neither a time"),
        (("turns", "--limit", "0"), "--limit"),
        (("demo", "--days", "2"), "--days"),
        (("run", "-c", "nowhere.yaml"), "nowhere.yaml: cannot read the settings: No such file or directory"),
        (("replay", "nowhere"), "nowhere: no such file or folder"),
        (("replay",), "Missing argument 'PATH'"),
    ],
)
def test_wrong_usage_is_told(call: Call, arguments: tuple[str, ...], message: str) -> None:
    """A mistake on the command line ends with status 2 and says what is wrong."""
    call("migrate")
    done = call(*arguments)
    assert (2, "") == (done.status, done.out)
    assert message in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("turns", "--app", "shpo"), "no turn of app 'shpo' is stored; did you mean 'shop'?"),
        (("turns", "--app", "desk", "--format", "jsonl"), "no turn of app 'desk' is stored; known: shop"),
        (("turns", "--bad", "--metric", "tone"), "no stored turn was measured by 'tone'; known: groundedness_proxy"),
        (("trends", "--app", "desk"), "no turn of app 'desk' is stored; known: shop"),
        (("trends", "--metric", "tone"), "no stored turn was measured by 'tone'; known: groundedness_proxy"),
        (("score", "--metric", "refusal_proxy", "--since", "9d", "--app", "desk"), "no turn of app 'desk' is stored"),
    ],
)
def test_unknown_names_are_told(call: Call, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """Whoever asks for an app or metric that nothing is stored of hears so, with what there is; the status is 1."""
    (tmp_path / "rag-monitor.yaml").write_text("metrics: [groundedness, refusal_proxy]\n")
    record = {
        "query": "Why?",
        "response": "A mill grinds.",
        "citations": [{"content": "A mill grinds."}],
        "app": "shop",
    }
    (tmp_path / "turns.jsonl").write_text(json.dumps(record) + "\n")
    assert 0 == call("replay", "turns.jsonl").status
    assert 0 == call(arguments[0], "--app", "shop", *(arguments[1:5] if arguments[0] == "score" else ())).status
    done = call(*arguments)
    assert (1, "") == (done.status, done.out)
    assert done.err.startswith(f"rag-monitor: {message}")


def test_no_name_is_known_yet(call: Call) -> None:
    """An empty store knows no app."""
    call("migrate")
    assert "no turn of app 'shop' is stored; known: none" in call("turns", "--app", "shop").err


@pytest.mark.parametrize("verb", ["turns", "trends", "alerts", "explain"])
def test_missing_store_is_told_and_not_made(call: Call, tmp_path: Path, verb: str) -> None:
    """Whoever reads from a store that is not there hears so; no empty store appears in its place."""
    done = call(verb, *(["3f9c"] if verb == "explain" else []), "--store", "sqlite:///shop.db")
    expected = "rag-monitor: no store at shop.db; `rag-monitor run`, `replay` and `migrate` make it\n"
    assert Done(1, "", expected) == done
    assert [] == list(tmp_path.iterdir())


def test_store_of_another_program_is_refused(call: Call, tmp_path: Path) -> None:
    """A file that is no store of ours is named, and left as it is."""
    other = tmp_path / "other.db"
    other.write_text("no database at all, but long enough to be taken for one" * 20)
    before = other.read_bytes()
    done = call("turns", "--store", "sqlite:///other.db")
    assert 1 == done.status
    assert "other.db" in done.err
    assert before == other.read_bytes()


def test_settings_file_of_the_folder_is_found(call: Call, tmp_path: Path) -> None:
    """`rag-monitor.yaml` in the working directory is read, the environment beats it, and options beat both."""
    (tmp_path / "rag-monitor.yaml").write_text("store: {url: 'sqlite:///file.db'}\n")
    call("migrate")
    call("migrate", RAG_MONITOR__STORE__URL="sqlite:///environment.db")
    call("migrate", "--store", "sqlite:///option.db", RAG_MONITOR__STORE__URL="sqlite:///no.db")
    (tmp_path / "other.yaml").write_text("store: {url: 'sqlite:///other.db'}\n")
    call("migrate", RAG_MONITOR_CONFIG="other.yaml")
    assert {"file.db", "environment.db", "option.db", "other.db"} == {path.name for path in tmp_path.glob("*.db")}


def test_options_before_the_verb(call: Call, tmp_path: Path) -> None:
    """Settings, store and format may stand before the verb; one behind it beats it, and both beat the environment."""
    (tmp_path / "other.yaml").write_text("store: {url: 'sqlite:///other.db'}\n")
    (tmp_path / "wrong.yaml").write_text("store: {url: 'sqlite:///wrong.db'}\n")
    statuses = [
        call("-c", "other.yaml", "migrate", RAG_MONITOR_CONFIG="wrong.yaml").status,
        call("--store", "sqlite:///before.db", "migrate").status,
        call("--store", "sqlite:///wrong.db", "migrate", "--store", "sqlite:///behind.db").status,
        call("-c", "other.yaml", "--format", "jsonl", "judge", "second-opinions").status,
        call("judge", "-c", "other.yaml", "second-opinions").status,
    ]
    assert [0] * 5 == statuses
    assert {"other.db", "before.db", "behind.db"} == {path.name for path in tmp_path.glob("*.db")}
    assert "" == call("--format", "jsonl", "--store", "sqlite:///before.db", "turns").out


def test_an_option_before_a_verb_that_does_not_take_it(call: Call) -> None:
    """An option that would do nothing is refused."""
    done = call("--store", "sqlite:///shop.db", "demo")
    assert 2 == done.status
    assert "`demo` takes no --store" in done.err
    assert "`show` takes no --config" in call("prompts", "-c", "x.yaml", "show", "groundedness").err


def test_replay_reads_turns_and_says_what_it_did(call: Call, tmp_path: Path) -> None:
    """Good lines are judged, bad ones are told with file and number, and the status is 0 as long as any was good."""
    good = '{"question": "How long?", "context": "The warranty lasts two years.", "answer": "It lasts two years."}'
    (tmp_path / "chats.jsonl").write_text(f"{good}\nnot JSON, but what a user wrote\n")
    done = call("replay", "chats.jsonl", "--app", "shop")
    assert 0 == done.status
    first, last = done.err.splitlines()
    assert first.startswith("chats.jsonl:2: ")
    assert "1 records read, 1 left out; 1 turns are new, 1 judged" == last
    assert "what a user wrote" not in done.err


def test_bad_turns(call: Call, tmp_path: Path) -> None:
    """`--bad` shows turns that a verdict calls a defect, and with `--metric` only one of its verdicts."""
    text = "The warranty lasts two years."
    lines = [
        f'{{"turn_id": "{answer[:3]}", "question": "q", "context": "{text}", "answer": "{answer}"}}'
        for answer in (text, "Penguins cannot fly because their wings became flippers.")
    ]
    (tmp_path / "chats.jsonl").write_text("\n".join(lines))
    call("replay", "chats.jsonl")
    assert 2 == len(call("turns", "--format", "jsonl").out.splitlines())
    (bad,) = call("turns", "--bad", "--format", "jsonl").out.splitlines()
    assert "Penguins" in bad
    assert '"groundedness_proxy":{"score":' in bad
    assert [bad] == call("turns", "--bad", "--metric", "groundedness_proxy", "--format", "jsonl").out.splitlines()
    assert "" == call("turns", "--bad", "--metric", "safety", "--format", "jsonl").out
    assert 2 == call("turns", "--metric", "safety").status


def test_replay_of_nothing_good_fails(call: Call, tmp_path: Path) -> None:
    """A file of which nothing could be read ends with status 1; an empty one is no failure."""
    (tmp_path / "bad.jsonl").write_text("not JSON\n")
    (tmp_path / "empty.jsonl").write_text("\n")
    assert 1 == call("replay", "bad.jsonl").status
    assert 0 == call("replay", "empty.jsonl").status


def test_since_takes_ages_and_times(call: Call, tmp_path: Path) -> None:
    """`--since` is an age, an instant with its zone, or one in UTC."""
    now = datetime.now(UTC)
    lines = [
        f'{{"question": "q{hours}", "context": "c", "answer": "a", "started_at": "{at.isoformat()}"}}'
        for hours in (1, 30)
        for at in [now - timedelta(hours=hours)]
    ]
    (tmp_path / "chats.jsonl").write_text("\n".join(lines))
    call("replay", "chats.jsonl")
    day = now - timedelta(hours=2)
    for since in ("24h", "1d", day.isoformat(), f"{day:%Y-%m-%dT%H:%M}"):
        assert ["q1" in line for line in call("turns", "--since", since, "--format", "jsonl").out.splitlines()] == [
            True
        ]
    assert 2 == len(call("turns", "--since", "2d", "--format", "jsonl").out.splitlines())


def test_explain_needs_neither_judge_nor_key(call: Call, tmp_path: Path) -> None:
    """What is stored about a turn is shown also where the judge's key is not at hand."""
    (tmp_path / "chats.jsonl").write_text('{"question": "q", "context": "c", "answer": "a", "turn_id": "t"}\n')
    call("replay", "chats.jsonl", "--store", "sqlite:///shop.db")
    (tmp_path / "rag-monitor.yaml").write_text("judge: {kind: openai}\nstore: {url: 'sqlite:///shop.db'}\n")
    turn_id = call("turns").out.split("│")[1].strip()
    assert 12 == len(turn_id)
    done = call("explain", turn_id)
    assert 0 == done.status
    assert "query: q" in done.out


def test_explain_of_an_unknown_turn_fails(call: Call) -> None:
    """A turn that is not there ends with status 1 and says where ids are listed."""
    call("migrate")
    done = call("explain", "3f9c")
    expected = "rag-monitor: no turn has the id '3f9c'; `rag-monitor turns` lists ids\n"
    assert Done(1, "", expected) == done
