"""What is shipped, and that it works where there is nothing but what is shipped."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.packaging.conftest import Installed

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "replay"
ASSETS = {"prompts": ROOT / "prompts", "dashboards": ROOT / "dashboards", "chat_app": ROOT / "examples" / "chat_app"}


def names(wheel: Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def tracked(folder: Path) -> set[str]:
    """The files of a folder that are no tool's leavings."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in path.relative_to(folder).parts)
    }


def test_two_packages_and_nothing_else(wheel: Path) -> None:
    """The wheel claims `monitor` and `collectors` in site-packages, and no other name."""
    tops = {name.partition("/")[0] for name in names(wheel)}
    assert {"monitor", "collectors"} == {top for top in tops if not top.endswith(".dist-info")}
    assert 3 == len(tops)


@pytest.mark.parametrize("asset", ASSETS)
def test_assets_are_shipped(wheel: Path, asset: str) -> None:
    """Every prompt, dashboard and file of the example app is in the wheel, below `monitor/_assets`."""
    inside = f"monitor/_assets/{asset}/"
    shipped = {name.removeprefix(inside) for name in names(wheel) if name.startswith(inside)}
    assert tracked(ASSETS[asset]) == shipped


def test_code_is_shipped_with_its_types_and_migrations(wheel: Path) -> None:
    """All modules, both `py.typed` and the migrations are there."""
    expected = {f"{package}/{name}" for package in ("monitor", "collectors") for name in tracked(ROOT / package)}
    found = {name for name in names(wheel) if not name.startswith("monitor/_assets/") and ".dist-info/" not in name}
    assert expected == found
    assert {"monitor/py.typed", "collectors/py.typed"} <= found
    assert any(re.fullmatch(r"monitor/store/migrations/versions/\w+\.py", name) for name in found)


def test_no_leavings_are_shipped(wheel: Path) -> None:
    """No cache, database, test or settings file slips in."""
    allowed = re.compile(r".*\.(py|md|jsonl?|typed)|[^/]+\.dist-info/.*")
    assert [] == sorted(name for name in names(wheel) if not allowed.fullmatch(name))


def test_wheel_of_the_source_distribution_is_the_same(wheel: Path, wheel_of_sdist: Path) -> None:
    """Packagers who build from the source distribution ship the same files."""
    assert names(wheel) == names(wheel_of_sdist)


def test_metadata_names_the_command(wheel: Path) -> None:
    """The wheel installs `rag-monitor`, under its license."""
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        scripts = archive.read(f"{info}/entry_points.txt").decode()
        metadata = archive.read(f"{info}/METADATA").decode()
    assert "rag-monitor = monitor.cli.main:main" in scripts
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert f"{info}/licenses/LICENSE" in names(wheel)


def test_installed_code_is_the_wheels(installed: Installed, tmp_path: Path) -> None:
    """In the environment both packages come from the wheel and not from the checkout."""
    code = "import monitor, collectors; print(monitor.__file__, collectors.__file__)"
    done = installed.run(installed.python, "-c", code, folder=tmp_path)
    places = [Path(place) for place in done.stdout.split()]
    assert [True, True] == [place.is_relative_to(installed.environment) for place in places], done.stderr


def test_help_and_version(installed: Installed, tmp_path: Path) -> None:
    """The command is there and knows what it is."""
    done = installed.run("rag-monitor", "--help", folder=tmp_path)
    assert (0, "") == (done.returncode, done.stderr)
    assert "Watch deployed RAG chat apps" in done.stdout
    assert re.fullmatch(
        r"rag-monitor, version \d+\.\d+\.\d+\n", installed.run("rag-monitor", "--version", folder=tmp_path).stdout
    )


def test_check_finds_everything_in_order(installed: Installed, tmp_path: Path) -> None:
    """In an empty folder all is well, prompts and dialects are found, and nothing is made."""
    done = installed.run("rag-monitor", "check", folder=tmp_path)
    assert 0 == done.returncode, done.stderr
    assert {"ok"} == {line.split()[0] for line in done.stdout.splitlines()}
    assert "openinference" in done.stdout
    assert [] == list(tmp_path.iterdir())


def test_check_refuses_a_shadowing_distribution(installed: Installed, tmp_path: Path) -> None:
    """Another distribution that claims one of our names is told by name, with status 1."""
    other = installed.environment / "lib" / "other"
    info = other / "server_monitor-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: server-monitor\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("monitor\n")
    calls = "sys.argv = ['rag-monitor', 'check']; from monitor.cli.main import main; main()"
    code = f"import sys; sys.path.append({str(other)!r}); {calls}"
    done = installed.run(installed.python, "-c", code, folder=tmp_path)
    assert 1 == done.returncode
    (told,) = [line for line in done.stdout.splitlines() if line.split()[0] == "FAILED"]
    assert "server-monitor also ships a package named monitor or collectors" in told


def test_demo(installed: Installed, tmp_path: Path) -> None:
    """The demo runs to its end from the wheel alone: estimates beside the truth, and a picture."""
    arguments = ("--days", "6", "--turns-per-hour", "5", "--out", "out folder")
    done = installed.run("rag-monitor", "demo", *arguments, folder=tmp_path)
    assert 0 == done.returncode, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Judged ")
    assert any(line.startswith("After it: ") and "the truth is " in line for line in lines)
    assert "<svg" in (tmp_path / "out folder" / "trend.html").read_text(encoding="utf-8")
    look = lines[-1].removeprefix("Look around: ")
    trends = installed.run("sh", "-c", f"{look} --format jsonl", folder=tmp_path)
    rows = [json.loads(line) for line in trends.stdout.splitlines()]
    assert sum(row["turns"] for row in rows) > 500, trends.stderr
    assert all(row["pending"] == 0 for row in rows)


def test_replay(installed: Installed, tmp_path: Path) -> None:
    """Recorded telemetry becomes judged turns with nothing but the wheel."""
    done = installed.run("rag-monitor", "replay", GOLDEN, folder=tmp_path)
    assert 0 == done.returncode, done.stderr
    assert done.stderr.endswith("50 records read, 0 left out; 14 turns are new, 11 judged\n")
    turns = installed.run("rag-monitor", "turns", "--format", "jsonl", folder=tmp_path)
    assert {"1.4.0", "2.0.0"} == {json.loads(line)["release"] for line in turns.stdout.splitlines()}
