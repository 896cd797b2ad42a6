"""A Dockerfile's instructions, and what it takes to do them without Docker."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Stage:
    """The instructions from one FROM to the next, each as its name and the rest of its line."""

    instructions: tuple[tuple[str, str], ...]

    def all(self, name: str) -> tuple[str, ...]:
        """What follows each instruction of this name."""
        return tuple(rest for found, rest in self.instructions if found == name)

    def the(self, name: str) -> str:
        """What follows the one instruction of this name."""
        (rest,) = self.all(name)
        return rest

    def words(self, name: str) -> tuple[str, ...]:
        """The words of an instruction in exec form, such as `CMD ["run"]`."""
        return tuple(json.loads(self.the(name)))

    def environment(self) -> dict[str, str]:
        """What ENV sets."""
        return dict(pair.split("=", 1) for rest in self.all("ENV") for pair in rest.split())


def stages(dockerfile: Path) -> tuple[Stage, ...]:
    """The stages in their order."""
    lines = [line for line in dockerfile.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found: list[list[tuple[str, str]]] = []
    for line in filter(None, joined.splitlines()):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            found.append([])
        found[-1].append((name, rest.strip()))
    return tuple(Stage(tuple(stage)) for stage in found)


def copy_context(source: Path, dockerignore: Path, target: Path) -> None:
    """Copy what a build is sent of a folder, where the first pattern is `*` and others bring paths back."""
    first, *others = [
        line for line in dockerignore.read_text(encoding="utf-8").splitlines() if line[:1] not in ("", "#")
    ]
    assert first == "*"
    kept = [line.removeprefix("!") for line in others if line.startswith("!")]
    left_out = shutil.ignore_patterns(*(line.removeprefix("**/") for line in others if line.startswith("**/")))
    for name in kept:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, ignore=left_out)
        else:
            shutil.copy(source / name, target / name)
