"""The guard: nothing that the session started is left, however the session ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deadline import wait_until
from guard import Guard

# The session that is killed: it starts a process that ignores SIGTERM and makes a folder, says so, and waits.
_SESSION = """
import sys
from pathlib import Path
from guard import Guard

guard = Guard()
folder = guard.folder("rag-monitor-guard-")
command = ["sh", "-c", "trap '' TERM; sleep 600 & wait"]
process = guard.start(command, folder=folder, log=folder / "log", environment={})
print(process.pid, folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def session() -> Iterator[subprocess.Popen[str]]:
    """A Python process with a guard of its own, a child process and a folder."""
    with subprocess.Popen(
        [sys.executable, "-c", _SESSION],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def group_is_gone(leader: int) -> bool:
    """Whether no process of the group that `leader` leads is left."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return True
    return False


def test_killed_session(session: subprocess.Popen[str]) -> None:
    """A session killed by SIGKILL leaves neither its children, nor theirs, nor its folders."""
    assert session.stdout is not None
    pid, folder = session.stdout.readline().split()
    assert not group_is_gone(int(pid))
    assert Path(folder).is_dir()
    session.kill()
    wait_until(lambda: group_is_gone(int(pid)), "the end of the child's process group", seconds=20)
    wait_until(lambda: not Path(folder).exists(), "the removal of the folder", seconds=20)


def test_closed_guard() -> None:
    """A closed guard has ended what was left and removed its folders, and left alone what it was told to forget."""
    guard = Guard()
    folder = guard.folder("rag-monitor-guard-")
    left, stopped = (
        guard.start(["sleep", "600"], folder=folder, log=folder / "log", environment=os.environ) for _ in range(2)
    )
    guard.stop(stopped, signal.SIGTERM)
    assert left.poll() is None
    guard.close()
    assert (-signal.SIGKILL, -signal.SIGTERM) == (left.returncode, stopped.returncode)
    assert not folder.exists()


def test_stop_of_a_frozen_process() -> None:
    """A frozen process ends by the signal it is stopped with, not by the SIGKILL that follows 10 s later."""
    guard = Guard()
    folder = guard.folder("rag-monitor-guard-")
    process = guard.start(["sleep", "600"], folder=folder, log=folder / "log", environment=os.environ)
    process.send_signal(signal.SIGSTOP)
    guard.stop(process, signal.SIGTERM)
    guard.close()
    assert -signal.SIGTERM == process.returncode
