"""The folder of the socket that only this process reaches."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.otlp_grpc.private_folder import private_folder

OTHER = """
from collectors.otlp_grpc.private_folder import private_folder
with private_folder("otlp_grpc") as path:
    (path / "server").touch()
    print(path, flush=True)
    input()
"""


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short folder of temporary files."""
    tmp_path_factory.getbasetemp()  # which pytest makes in the usual one when it is first asked for
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture
def other(parent: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that has a folder in the same place, and its folder."""
    with subprocess.Popen(
        [sys.executable, "-c", OTHER],
        env={"TMPDIR": str(parent), "PYTHONPATH": str(Path(__file__).parents[3])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_removed_in_the_end(parent: Path) -> None:
    """It is for its user alone, and gone when it is left."""
    with private_folder("otlp_grpc") as path:
        assert 0o700 == path.stat().st_mode & 0o777
        (path / "server").touch()
    assert [] == list(parent.iterdir())


def test_folder_of_a_killed_process(parent: Path, other: tuple[subprocess.Popen[str], Path]) -> None:
    """What a process leaves that was killed is removed by the next one that starts."""
    process, left = other
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [left] == list(parent.iterdir())
    with private_folder("otlp_grpc") as path:
        assert [path] == list(parent.iterdir())


def test_folder_of_a_living_process(parent: Path, other: tuple[subprocess.Popen[str], Path]) -> None:
    """What is in use stays."""
    _, theirs = other
    with private_folder("otlp_grpc") as path:
        assert {path, theirs} == set(parent.iterdir())
    assert ["server"] == [file.name for file in theirs.iterdir()]


def test_link_of_that_name(parent: Path, tmp_path: Path) -> None:
    """A link is not followed, and what it leads to stays."""
    (tmp_path / "precious").touch()
    (parent / "rag-monitor-grpc-link").symlink_to(tmp_path)
    with private_folder("otlp_grpc"):
        assert (tmp_path / "precious").exists()
