"""The wheel, built as packagers do, and installed into a virtual environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import extending_page
import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Installed:
    """The wheel in a virtual environment; nothing of the checkout is on its path."""

    environment: Path
    home: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.environment / "bin" / "python"

    def environ(self, more: Mapping[str, str] = MappingProxyType({})) -> Mapping[str, str]:
        """The variables of its processes, and some more."""
        return {"PATH": f"{self.environment / 'bin'}:{os.defpath}", "HOME": str(self.home), "LC_ALL": "C.UTF-8", **more}

    def run(
        self, *command: str | Path, folder: Path, environ: Mapping[str, str] = MappingProxyType({})
    ) -> subprocess.CompletedProcess[str]:
        """What came of a command of the environment, run in a folder with these variables more."""
        return subprocess.run(
            command,
            cwd=folder,
            env=self.environ(environ),
            capture_output=True,
            encoding="utf-8",
            timeout=240,
            check=False,
        )


def build(source: Path, target: str, folder: Path) -> Path:
    """Build with the backend that pyproject.toml names, without a build environment: it is installed already."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder], cwd=source, check=True, timeout=120
    )
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution."""
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel."""
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def wheel_of_sdist(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is made where only the source distribution is at hand."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return build(source, "wheel", tmp_path_factory.mktemp("wheel-of-sdist"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in a fresh environment.

    Its dependencies are those of the environment that runs the tests, through a path file: installing them again would
    need a network and a minute. The editable project in there stays out: path files are not followed from path files.
    """
    folder = tmp_path_factory.mktemp("environment")
    environment, home = folder / "venv", folder / "home"
    home.mkdir()
    venv.create(environment, with_pip=True)
    made = Installed(environment, home)
    site = Path(
        made.run(made.python, "-c", "import site; print(site.getsitepackages()[0])", folder=home).stdout.strip()
    )
    done = made.run(made.python, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", wheel, folder=home)
    assert done.returncode == 0, done.stderr
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    shutil.rmtree(home)
    home.mkdir()
    return made


@pytest.fixture(scope="session")
def acme_site(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package that docs/extending.md shows, built and installed by pip into a folder of its own."""
    source, target = tmp_path_factory.mktemp("acme-rag"), tmp_path_factory.mktemp("acme-site")
    extending_page.write(source, extending_page.files())
    wheel = build(source, "wheel", tmp_path_factory.mktemp("acme-wheel"))
    pip = (installed.python, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--target", target, wheel)
    done = installed.run(*pip, folder=source)
    assert done.returncode == 0, done.stderr
    return target
