"""Child processes and folders that do not outlive the test session, not even one that is killed by SIGKILL.

One guard process reads a pipe that only the session holds open. At end of file it ends the processes and removes the
folders that were named to it and not forgotten. PR_SET_PDEATHSIG was rejected: it acts when the *thread* that started
the child ends, so a server restarted from a worker thread would die with that thread.
"""

import io
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

_GRACE_SECONDS = 10.0


class ServerEndedError(RuntimeError):
    """A server process ended before it was ready; the message holds its log."""


class Guard:
    """Starts processes and makes folders, and answers for their end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", Path(__file__).with_name("guard_process.py")],
            stdin=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._pipe = cast("io.FileIO", self._process.stdin)
        self._children: dict[int, tuple[subprocess.Popen[bytes], signal.Signals]] = {}

    def start(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        log: Path,
        environment: Mapping[str, str],
        user: str | None = None,
        end: signal.Signals = signal.SIGKILL,
    ) -> subprocess.Popen[bytes]:
        """The process of `command`, in a session of its own.

        Args:
            command: the program and its arguments.
            folder: the working directory.
            log: the file that standard output and error are appended to.
            environment: the whole environment of the process.
            user: the account to run as, or `None` for the present one.
            end: the signal that ends the process where the session dies before it stopped it.
        """
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=user,
                group=group_of(user),
                extra_groups=None if user is None else [],
            )
        self._children[process.pid] = (process, end)
        self._tell(f"process {process.pid} {end.value}")
        return process

    def stop(self, process: subprocess.Popen[bytes], how: signal.Signals) -> None:
        """End `process`, frozen or not, by the signal `how`, and by SIGKILL if it is still there after 10 s."""
        if process.poll() is None:
            process.send_signal(how)
            process.send_signal(signal.SIGCONT)
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._tell(f"forget {process.pid}")
        self._children.pop(process.pid, None)

    def folder(self, prefix: str, *, user: str | None = None) -> Path:
        """A new folder that only `user` (`None`: the present one) may enter, removed when the session ends."""
        path = Path(tempfile.mkdtemp(prefix=prefix))
        self._tell(f"folder {path}")
        if user is not None:
            shutil.chown(path, user)
        return path

    def close(self) -> None:
        """End what is left and remove the folders; returns when both are done."""
        for child, end in tuple(self._children.values()):
            self.stop(child, end)
        self._pipe.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        # One write of less than PIPE_BUF bytes: lines of two threads never mix.
        self._pipe.write(f"{line}\n".encode())


def group_of(user: str | None) -> int | None:
    """The primary group of the account `user`; `None` for `None`."""
    return None if user is None else pwd.getpwnam(user).pw_gid


@pytest.fixture(scope="session")
def guard() -> Iterator[Guard]:
    """The one guard of this session."""
    guard = Guard()
    yield guard
    guard.close()
