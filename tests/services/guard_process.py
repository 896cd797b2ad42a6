"""The guard process, started by `guard.py`: reads what to end from standard input, and ends it when that closes."""

import os
import shutil
import signal
import sys
import time
from contextlib import suppress

_GRACE_SECONDS = 5.0


def main() -> None:
    """Read "process PID SIGNAL", "forget PID" and "folder PATH" lines up to end of file, then clean up."""
    processes: dict[int, int] = {}
    folders: list[str] = []
    for line in sys.stdin:
        verb, _, argument = line.rstrip("\n").partition(" ")
        if verb == "process":
            pid, number = argument.split()
            processes[int(pid)] = int(number)
        elif verb == "forget":
            processes.pop(int(argument), None)
        elif verb == "folder":
            folders.append(argument)
    for pid, number in processes.items():
        send(pid, number)
        send(pid, signal.SIGCONT)
    end = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < end and any(send(pid, 0) for pid in processes):
        time.sleep(0.05)
    for pid in processes:
        send(pid, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def send(pid: int, number: int) -> bool:
    """Whether the process group `pid` was there to receive signal `number` (0: only ask)."""
    with suppress(ProcessLookupError):
        os.killpg(pid, number)
        return True
    return False


if __name__ == "__main__":
    # A Ctrl-C or a job's SIGTERM is for the session; this process acts on the end of the pipe alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    main()
