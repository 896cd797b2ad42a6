"""A container without Docker: an image built by its Dockerfile's own commands, a process as Kubernetes confines it.

Bubblewrap gives the process a file system and a process table of its own, setpriv the user and no capability,
libseccomp the filter that RuntimeDefault stands for. What differs: the base image is this machine's Python and `/usr`,
the network is the machine's, and pip takes the dependencies from the environment that runs the tests.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deadline import wait_until
from dockerfile import Stage, copy_context, stages
from requirement import require_or_skip
from seccomp_filter import library, write_filter

if TYPE_CHECKING:
    from guard import Guard

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "examples" / "container" / "Dockerfile"
_IDS = 65532
_DEPENDENCIES = "/dependencies"
"""Where the environment that runs the tests is in a container: at its own place other folders may be mounted."""
_MERGED = ("bin", "lib", "lib64", "sbin")
_RUN = 'exec bwrap --seccomp 9 "$@" 9<"$0"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of this machine in the container; None for one in memory."""

    source: Path | None
    writable: bool = False
    size: int = 0
    """Bytes, of one in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """What the Dockerfile makes."""

    opt: Path
    """What is at /opt."""
    seccomp: Path
    """The compiled filter."""
    stage: Stage
    """The last one, which says how it starts."""

    def command(
        self, mounts: Mapping[str, Mount], arguments: Sequence[str], environment: Mapping[str, str]
    ) -> Sequence[str]:
        """What starts a process of the image with these arguments instead of its own, as process 1."""
        files = ["--ro-bind", "/usr", "/usr", "--ro-bind", str(self.opt), "/opt", "--proc", "/proc", "--dev", "/dev"]
        for name in _MERGED:
            if Path("/", name).is_symlink():
                files += ["--symlink", f"usr/{name}", f"/{name}"]
        # No /etc/passwd, no /home: the user has no entry, as in an image where nobody made one.
        files += ["--ro-bind", sysconfig.get_path("purelib"), _DEPENDENCIES]
        for path in ("/etc/ssl", sys.base_prefix):
            if Path(path).is_dir() and not path.startswith("/usr/"):
                files += [*_passable(Path(path).parent), "--ro-bind", path, path]
        for at, mount in sorted(mounts.items()):
            files += _passable(Path(at).parent)
            if mount.source is None:
                files += ["--perms", "1777", "--size", str(mount.size), "--tmpfs", at]
            else:
                files += ["--bind" if mount.writable else "--ro-bind", str(mount.source), at]
        variables = {**self.stage.environment(), **environment}
        settings = [word for name, value in variables.items() for word in ("--setenv", name, value)]
        drop = [
            *("setpriv", "--pdeathsig", "KILL", f"--reuid={_IDS}", f"--regid={_IDS}", "--clear-groups"),
            *("--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--"),
        ]
        return (
            *("bash", "-c", _RUN, str(self.seccomp), *files, "--remount-ro", "/"),
            *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1", "--die-with-parent", "--clearenv"),
            *(*settings, "--chdir", self.stage.the("WORKDIR"), "--", *drop),
            *(*self.stage.words("ENTRYPOINT"), *(arguments or self.stage.words("CMD"))),
        )


class Container:
    """A process of an image."""

    def __init__(self, guard: Guard, command: Sequence[str], folder: Path) -> None:
        self._guard, self.log = guard, folder / "container.log"
        self._outside = guard.start(command, folder=folder, log=self.log, environment=dict(os.environ))

    @property
    def pid(self) -> int:
        """The process that is process 1 inside; it is there a moment after the start."""
        children = Path(f"/proc/{self._outside.pid}/task/{self._outside.pid}/children")
        return int(wait_until(lambda: children.read_text().split(), "the container to start", seconds=20)[0])

    def status(self, name: str) -> str:
        """A line of the process's `/proc/<pid>/status`."""
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))

    def running(self) -> bool:
        """Whether it has not ended."""
        return self._outside.poll() is None

    def wait(self, seconds: float) -> int:
        """Its exit status, once it ends by itself."""
        return self._outside.wait(seconds)

    def stop(self, seconds: float) -> int:
        """Its exit status after SIGTERM, which must come within the time that Kubernetes gives it."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """End it, if it is there still."""
        self._guard.stop(self._outside, signal.SIGKILL)


def _passable(folder: Path) -> list[str]:
    """Have Bubblewrap make a folder and those above it for all to pass; by itself it makes them for root alone."""
    made = [one for one in reversed((folder, *folder.parents)) if one != Path("/")]
    return [word for one in made for word in ("--perms", "0755", "--dir", str(one))]


def _build(folder: Path, seccomp: str) -> Image:
    """Build the image: every RUN of the first stage by a shell, with the machine as base image and its `/opt` apart."""
    build, last = stages(DOCKERFILE)
    source, opt = folder / "context", folder / "opt"
    source.mkdir()
    opt.mkdir(mode=0o755)
    copy_context(ROOT, DOCKERFILE.with_name("Dockerfile.dockerignore"), source)
    purelib = sysconfig.get_path("purelib")
    for line in build.all("RUN"):
        subprocess.run(
            ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--bind", opt, "/opt", "--chdir", source, "sh", "-ec", line],
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
                "HOME": str(folder),
                # The dependencies count as installed; to fetch them again would need a network and a minute.
                "PYTHONPATH": purelib,
                "PIP_NO_INDEX": "1",
                "PIP_QUIET": "1",
                "PIP_NO_BUILD_ISOLATION": "0",
                "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            },
            check=True,
            timeout=240,
        )
    (site,) = opt.glob("rag-monitor/lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{_DEPENDENCIES}\n")
    write_filter(folder / "seccomp.bpf", seccomp)
    return Image(opt=opt, seccomp=folder / "seccomp.bpf", stage=last)


@pytest.fixture(scope="session")
def image(guard: Guard) -> Image:
    """The image of examples/container/Dockerfile."""
    seccomp = library()
    missing = [name for name in ("bwrap", "setpriv") if shutil.which(name) is None]
    missing += [] if seccomp else ["libseccomp"]
    if os.geteuid() or missing:
        require_or_skip("sandbox", f"containers need root and {', '.join(missing) or 'nothing else'}")
    folder = guard.folder("rag-monitor-image-")
    # Users of containers must get through.
    folder.chmod(0o755)
    return _build(folder, seccomp or "")
