"""What the documentation tells people to type works, and the settings it shows load.

A block of commands runs unless `<!-- not run: reason -->` stands above it, a block of YAML is loaded as settings unless
`<!-- not settings: what it is -->` does. Blocks of one file run one after the other in one folder, as a reader would.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from code_under_test import clean_environment

from monitor import plugins
from monitor.settings import tree as settings

ROOT = Path(__file__).parents[2]
PAGES = (*sorted(ROOT.glob("[A-Z]*.md")), *sorted(ROOT.glob("docs/**/*.md")))
FOREIGN = {
    "groups": "Prometheus rules",
    "receivers": "OpenTelemetry Collector",
    "exporters": "OpenTelemetry Collector",
    "services": "Compose",
    "apiVersion": "Kubernetes or Grafana",
}
"""Top-level keys by which YAML of other programs is known without a mark."""
SHELLS = frozenset({"console", "bash", "sh"})
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (not run|not settings): (.+?) -->\s*\Z")
_LINK = re.compile(r"(?<!\!)\]\(([^)#\s]+)(?:#[^)]*)?\)")
_TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    mark: str
    """Why it is not run or loaded; "" when it is."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def commands(self) -> Iterator[str]:
        """The commands, each with the lines that continue it; a block without `$ ` that is no console is one script."""
        lines = self.text.splitlines()
        if self.language != "console" and not any(line.startswith("$ ") for line in lines):
            yield self.text
            return
        command = ""
        for line in lines:
            if line.startswith("$ "):
                if command:
                    yield command
                command = line[2:]
            elif command and (command.endswith("\\") or line.startswith("> ")):
                command += "\n" + line.removeprefix("> ")
            elif command:
                yield command
                command = ""
        if command:
            yield command


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        mark = _MARK.search(text[: found.start()])
        line = text.count("\n", 0, found.start()) + 1
        yield Block(page, line, found[1], found[2], mark[2] if mark else "")


PAGES_WITH_COMMANDS = tuple(page for page in PAGES if any(block.language in SHELLS for block in blocks(page)))
YAML = tuple(block for page in PAGES for block in blocks(page) if block.language in {"yaml", "yml"})


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_work(page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command of the page ends with status 0, in order, in a folder that begins empty."""
    notes: list[str] = []
    for block in blocks(page):
        if block.language not in SHELLS:
            continue
        if block.mark:
            notes.append(f"{block}: not run: {block.mark}")
            continue
        for command in block.commands():
            run(block, command, tmp_path)
    with capsys.disabled():
        sys.stdout.write("".join(f"\n  {line}" for line in notes))


def run(block: Block, command: str, folder: Path) -> None:
    """Run a command of a page; of `make` only look whether there is such a target."""
    if command.startswith("make "):
        targets = set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
        assert {word for word in command.split()[1:] if "=" not in word} <= targets, f"{block}: {command}"
        return
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=clean_environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{block}: {command}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("block", YAML, ids=str)
def test_settings_load(block: Block, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A block of YAML is a settings file that loads, sections of collectors and channels included."""
    known = (FOREIGN[key] for key in yaml.safe_load(block.text) if key in FOREIGN)
    if mark := block.mark or next(known, ""):
        with capsys.disabled():
            sys.stdout.write(f"\n  {block}: not settings: {mark}")
        return
    path = tmp_path / "rag-monitor.yaml"
    path.write_text(block.text, encoding="utf-8")
    environ = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block.text), "1")
    loaded = settings.load(path, environ)
    # Not built: that would read the certificates and secrets which the page names.
    for group, sections in (("collectors", loaded.collectors), ("channels", loaded.channels)):
        for number, section in enumerate(sections):
            where = f"{group}[{number}]"
            module = plugins.load(group, str(section["kind"]), f"{where}.kind")
            settings.plugin_config(module.Config, section, where)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """What a page links to in this repository exists."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    local = [link for link in _LINK.findall(text) if "://" not in link and not link.startswith("mailto:")]
    assert [] == [link for link in local if not (page.parent / link).exists()]
