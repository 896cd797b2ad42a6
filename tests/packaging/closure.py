"""What an installation consists of, in the versions of the environment that runs the tests."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement


def closure(root: Distribution, *extras: str) -> tuple[Distribution, ...]:
    """The distributions that installing one with these extras brings along, itself not included."""
    found: dict[str, Distribution] = {}
    waiting = [(root, extras)]
    seen = set()
    while waiting:
        one, of = waiting.pop()
        if (one.name, of) in seen:
            continue
        seen.add((one.name, of))
        for requirement in map(Requirement, one.requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*of, "")):
                needed = found.setdefault(requirement.name.lower(), distribution(requirement.name))
                waiting.append((needed, tuple(sorted(requirement.extras))))
    return tuple(found.values())


def copy(distributions: Iterable[Distribution], site: Path) -> None:
    """Copy the files that installers recorded below site-packages, as an installation into `site` would."""
    for one in distributions:
        for file in one.files or ():
            source = Path(str(one.locate_file(file)))
            if ".." in file.parts or "__pycache__" in file.parts or not source.is_file():
                continue
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def digests(site: Path) -> dict[str, str]:
    """The digest of each file below a folder but compiled ones, by its path there."""
    return {
        str(file.relative_to(site)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in site.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
