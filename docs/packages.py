"""Prints the packages as ARCHITECTURE.md draws them: the layers of the import contract, and who imports whom.

Usage: python docs/packages.py [--write], which puts the drawing into ARCHITECTURE.md.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
_BEGIN, _END = "<!-- packages: python docs/packages.py --write -->\n", "<!-- end of packages -->"
_WORD = re.compile(r'^\s*"(?P<layer>[\w |]+)",(?:\s*#\s*(?P<word>.*))?$')


def layers() -> Sequence[tuple[tuple[str, ...], str]]:
    """Return the packages of each layer of `monitor`, the highest first, and what the contract says of it.

    Packages on one line of the contract never import each other.
    """
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (contract,) = (c for c in contracts if c["type"] == "layers")
    words = {m["layer"]: m["word"] or "" for line in text.splitlines() if (m := _WORD.match(line))}
    return [(tuple(layer.split(" | ")), words[layer]) for layer in contract["layers"]]


def imports() -> Mapping[str, frozenset[str]]:
    """Return the packages that each package imports, itself left out."""
    graph = grimp.build_graph("monitor", "collectors", cache_dir=None)
    direct: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        importer = _package(module)
        direct[importer].update(_package(other) for other in graph.find_modules_directly_imported_by(module))
    return defaultdict(frozenset, {package: frozenset(others - {package}) for package, others in direct.items()})


def _package(module: str) -> str:
    first, _, rest = module.partition(".")
    return first if first == "collectors" or not rest else rest.partition(".")[0]


def drawing() -> str:
    """Return the drawing: a line a package, the highest layer first, with the packages that it imports.

    ″ marks a package on the layer of the one above it.
    """
    stack = layers()
    order = [package for packages, _ in stack for package in packages]
    direct = imports()
    rows = [("collectors", "sources; the monitor never imports them")]
    rows += [(package, "″" if i else word) for packages, word in stack for i, package in enumerate(packages)]
    names, words = (max(len(row[i]) for row in rows) for i in (0, 1))
    rule = f"{'─' * names}─┼─{'─' * words}─┼─{'─' * 40}"
    lines = [f"{name:{names}} │ {word:{words}} │ {_listed(direct[name], order)}".rstrip() for name, word in rows]
    return "\n".join(("```", f"{'package':{names}} │ {'':{words}} │ imports", rule, *lines, "```", ""))


def _listed(packages: frozenset[str], order: Sequence[str]) -> str:
    return " ".join(sorted(packages, key=order.index))


def main() -> None:
    """Print the drawing, or write it into the page."""
    if sys.argv[1:] != ["--write"]:
        print(drawing(), end="")
        return
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(before + _BEGIN + drawing() + _END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
