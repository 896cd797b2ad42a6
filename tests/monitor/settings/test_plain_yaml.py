"""YAML that is small as a file and endless as values is refused before anything is built of it."""

import time
from pathlib import Path

import pytest

from monitor.errors import ConfigError
from monitor.settings import plain_yaml
from monitor.settings.tree import load

LAUGHS = "l0: &l0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n" + "".join(
    f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]\n" for level in range(1, 30)
)
MERGED = "m0: &m0 {a: 1}\n" + "".join(
    f"m{level}: &m{level} {{<<: [{', '.join([f'*m{level - 1}'] * 10)}]}}\n" for level in range(1, 30)
)


@pytest.mark.parametrize("text", [LAUGHS, MERGED, "a: &a [*a]"])
def test_aliases_without_end(tmp_path: Path, text: str) -> None:
    """Aliases that would be written out without end are refused at once, with the place of the file."""
    path = tmp_path / "rag-monitor.yaml"
    path.write_text(text, encoding="utf-8")
    began = time.process_time()
    with pytest.raises(ConfigError, match=r"rag-monitor\.yaml:1:1: not YAML: more than 100000 values") as refusal:
        load(path, {})
    assert time.process_time() - began < 1
    assert len(str(refusal.value)) < 300


def test_aliases_in_a_variable() -> None:
    """A variable that holds a mapping is read as strictly."""
    with pytest.raises(ConfigError, match="RAG_MONITOR__SAMPLE"):
        load(None, {"RAG_MONITOR__SAMPLE": "{a: &a [*a], b: *a}"})


def test_nested_too_deeply(tmp_path: Path) -> None:
    """Brackets without end are refused."""
    path = tmp_path / "rag-monitor.yaml"
    path.write_text("[" * 5000, encoding="utf-8")
    with pytest.raises(ConfigError, match="not YAML"):
        load(path, {})


def test_aliases_are_read() -> None:
    """A block that is used twice is there twice."""
    assert plain_yaml.load("a: &a {x: 1}\nb: {<<: *a, y: 2}") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "channels: []\nsample: {rate: 0.1}\nchannels: []\n",
            r":3:1: not YAML: channels is there twice, first on line 1",
        ),
        ("sample: {rate: 0.1, rate: 0.9}\n", r":1:21: not YAML: rate is there twice, first on line 1"),
        (f"sample: {{batch: {'9' * 5000}}}\n", r": not YAML: a value that cannot be read"),
    ],
)
def test_values_that_would_be_lost(tmp_path: Path, text: str, problem: str) -> None:
    """A key that is there twice is refused where it stands, and so is a number that Python does not read."""
    path = tmp_path / "rag-monitor.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        load(path, {})
