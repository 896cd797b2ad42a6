"""What CI tests is what constraints.txt pins, which is what the lock of a release is made of."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PINS = {
    pin.name.lower().replace("_", "-"): pin.specifier
    for pin in map(Requirement, (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines())
}


def wanted() -> Iterator[str]:
    """What the project needs here, alone, with each extra and to be developed."""
    project = PROJECT["project"]
    for group in (
        project["dependencies"],
        *project["optional-dependencies"].values(),
        PROJECT["dependency-groups"]["dev"],
    ):
        for line in group:
            marker = Requirement(line).marker
            if marker is None or marker.evaluate():
                yield line


@pytest.mark.parametrize("line", sorted(set(wanted())))
def test_a_pin_that_the_project_allows(line: str) -> None:
    """Every package that is asked for is pinned to one version, which the bounds in pyproject.toml allow."""
    requirement = Requirement(line)
    (pin,) = PINS[requirement.name.lower()]
    assert "==" == pin.operator
    assert requirement.specifier.contains(pin.version, prereleases=True)


def test_nothing_names_an_address() -> None:
    """Constraints and the lock's recipe say versions alone; where packages come from is the installer's business."""
    assert "://" not in (ROOT / "constraints.txt").read_text(encoding="utf-8")
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--generate-hashes" in recipe
    assert "--no-emit-index-url" in recipe
