"""The files of docs/extending.md: the distribution that the page shows, as somebody who copies it has it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
_FILE = re.compile(r"<!-- file: (\S+) -->\n(?:<!-- .+? -->\n)?```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = "acme-rag"


def files() -> Mapping[str, str]:
    """The page's files, by name."""
    return {"acme_rag/__init__.py": "", **dict(_FILE.findall(PAGE.read_text(encoding="utf-8")))}


def write(folder: Path, contents: Mapping[str, str]) -> None:
    """Make the files."""
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def install(folder: Path, contents: Mapping[str, str]) -> None:
    """Make the folder look as if the files were installed there: modules, and entry points of pyproject.toml."""
    write(folder, {name: text for name, text in contents.items() if name.endswith(".py")})
    groups = tomllib.loads(contents["pyproject.toml"])["project"]["entry-points"]
    lines = (f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in groups.items())
    info = f"{NAME.replace('-', '_')}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n"
    write(folder, {f"{info}/METADATA": metadata, f"{info}/entry_points.txt": "\n".join(lines)})
