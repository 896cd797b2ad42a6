"""The place of a wrong setting is a field of its error, put together in one way."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor import errors
from monitor.errors import ConfigError, MonitorError, without_credentials, without_parts_of

_ROOT = Path(__file__).parents[2]


def test_place_and_problem() -> None:
    """The message is the place and what is wrong there; without a place it is the problem alone."""
    assert "store.url: no folder" == str(ConfigError("no folder", where="store.url"))
    assert "no folder" == str(ConfigError("no folder"))
    assert [("store.url", "no folder")] == list(ConfigError("no folder", where="store.url").problems)


def test_a_caller_knows_the_outer_place() -> None:
    """Each caller puts its place in front, also of several problems and of one that had none."""
    error = ConfigError.several([("kind", "missing"), ("", "not a mapping")]).at("channels[1]").at("monitor.yaml")
    assert "monitor.yaml: channels[1]: kind: missing\nmonitor.yaml: channels[1]: not a mapping" == str(error)


def test_errors_cross_processes() -> None:
    """A copy that was pickled says the same."""
    error = ConfigError.several([("a", "missing"), ("b", "too long")]).at("file")
    assert str(error) == str(pickle.loads(pickle.dumps(error)))  # noqa: S301 -- our own bytes


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("asking postgresql://me:hunter2@db/d: refused", "asking postgresql://***@db/d: refused"),
        ("'https://hun@t/e:r2@gate.example/v1'", "'https://***@gate.example/v1'"),
        ("driver_2://me:hunter2@db/d ://me:hunter2@db", "driver_2://***@db/d ://***@db"),
        ("host=db password='hun ter2' user=me", "host=db password=*** user=me"),
        ("https://db/?sslpassword=hunter2&x=1", "https://db/?sslpassword=***&x=1"),
        ("PGPASSWORD = hunter2", "PGPASSWORD = ***"),
        ("allowed: postgresql://user:password@host/database", "allowed: postgresql://user:password@host/database"),
        (
            "give it as store.password; https://host/a and me@example.org",
            "give it as store.password; https://host/a and me@example.org",
        ),
    ],
)
def test_credentials_are_hidden(text: str, shown: str) -> None:
    """User and password of an address, and what is named a password, are in no message; all else is."""
    assert shown == without_credentials(text)
    assert f"store: {shown}" == str(ConfigError(text, where="store"))
    assert f"store: {shown}" == str(ConfigError.several([("store", text)]))


def test_every_error_hides_credentials() -> None:
    """Each kind of error of ours hides them, in its message and in what is kept of it."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MonitorError)]
    address = "postgresql://me:hunter2@db/d"
    for kind in kinds:
        more = {"reason": "other"} if issubclass(kind, errors.Permanent) else {}
        error = kind("channel", "x", address) if kind is errors.PluginFailed else kind(address, **more)
        assert "hunter2" not in f"{error} {error!r} {error.args}"
        assert "***@db" in str(error)


def _messages(tree: ast.AST) -> Iterator[str]:
    """Yield what each `ConfigError` is made with, an X for each value that is filled in."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="ConfigError"), args=[ast.Constant(value=str(text))]):
                yield text
            case ast.Call(func=ast.Name(id="ConfigError"), args=[ast.JoinedStr(values=parts)]):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)


_PLACE_IN_FRONT = re.compile(r"(X|[a-z_]+\.)[\w.\[\]-]*: ")


def test_no_message_begins_with_its_place() -> None:
    """Places are given as such, so that nobody has to take a message apart."""
    modules = [path for root in ("monitor", "collectors") for path in sorted((_ROOT / root).rglob("*.py"))]
    begun = {
        path.name: [m for m in _messages(ast.parse(path.read_text())) if _PLACE_IN_FRONT.match(m)] for path in modules
    }
    assert {} == {name: messages for name, messages in begun.items() if messages}


@pytest.mark.parametrize(
    "call",
    ['ConfigError(f"{where}: missing")', 'ConfigError("store.url: missing")', 'ConfigError(f"{where}.kind: no")'],
)
def test_what_a_place_in_front_looks_like(call: str) -> None:
    """The forms in which modules wrote the place into the message are recognized."""
    assert [True] == [bool(_PLACE_IN_FRONT.match(message)) for message in _messages(ast.parse(call))]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the key abcd1234 is wrong", "the key *** is wrong"),
        ("the key ***1234 is wrong", "the key ****** is wrong"),
        ("abc and 123 alone are no part", "abc and 123 alone are no part"),
        ("abcd, cd12 and 1234", "***, *** and ***"),
        ("", ""),
    ],
)
def test_parts_of_a_secret(text: str, shown: str) -> None:
    """Four characters in a row of a secret are hidden wherever they stand, alone or in a run."""
    assert shown == without_parts_of(text, ["abcd1234", "abc"])
