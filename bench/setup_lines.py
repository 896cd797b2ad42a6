"""The set-up lines of docs/dialects.md, run: does what the app of a stack sends become the turn that it answered?

Each file of `bench/setup_apps/` is a small RAG app of one stack, in Python or JavaScript, that names the packages it
needs, what of a turn its stack records, and where the page's lines stand. They are put there as printed, the address
excepted. The app runs in an environment of its own, asks a model on loopback, and sends to a `rag-monitor run` of its
own; then `rag-monitor turns` must show one turn with what the stack records. What `rag-monitor doctor` says is quoted.
`--install` makes the environments of all or some, which takes minutes and gigabytes:

    python bench/setup_lines.py --install openlit pydantic_ai vercel_ai.mjs
    python bench/setup_lines.py

Ends with 1 if an app that is installed failed, or a turn lacks something. Not run are the lines in Java.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _ports import accepts, free_port
from _setup_model import ANSWER, MODEL, QUESTION, TOKENS, model_server

from monitor import plugins
from monitor.extract.convention import Setup

APPS = Path(__file__).parent / "setup_apps"
ENVIRONMENTS = Path(__file__).parents[1] / ".cache" / "setups"
"""Where the environments are, unless `--environments` says otherwise."""
COMMAND = Path(sys.executable).with_name("rag-monitor")
MONITOR = "http://rag-monitor:4318"
SESSION, DOCUMENT = "s-1", "The warranty lasts two years from the day of delivery."
SECONDS = 180.0
"""For one app, from its start to its end."""
ARRIVAL_SECONDS = 12.0
"""From the end of an app to its turn."""
_VARIABLE = re.compile(r"([A-Z][A-Z0-9_]+)=(\S+)")
_LINES = re.compile(r"^( *)(?:#|//) lines$", re.MULTILINE)
_SETTINGS = """
store: {{url: "sqlite:///{folder}/monitor.db"}}
web: {{port: {web}}}
assemble: {{every: 200ms, quiet: 1500ms}}
collectors: [{{kind: otlp_http, port: {http}}}, {{kind: otlp_grpc, port: {grpc}}}]
"""
_CHECKS = {
    "app": lambda turn: turn["app"] == "shop",
    "release": lambda turn: turn["release"] in {"1", "1.4.2"},
    "query": lambda turn: turn["query"] == QUESTION,
    "citations": lambda turn: [citation["content"] for citation in turn["citations"] or ()] == [DOCUMENT],
    "response": lambda turn: turn["response"] == ANSWER,
    "model": lambda turn: turn["model"] == MODEL,
    "asked_model": lambda turn: turn["model"] in {"m", "openai/m"},
    "tokens": lambda turn: _whole_calls(turn["tokens"]),
    "session": lambda turn: turn["session_id"] == SESSION,
}
"""What an app may say that its stack records; `asked_model` where it does not record which model answered."""


@dataclass(frozen=True, slots=True)
class App:
    """A file of `bench/setup_apps/`, named after its dialect: `<dialect>[-<what sets it apart>].py` or `.mjs`."""

    path: Path
    environments: Path = ENVIRONMENTS

    @property
    def name(self) -> str:
        """The file's name; for Python without the ending."""
        return self.path.name.removesuffix(".py")

    @property
    def dialect(self) -> str:
        """Whose lines it runs."""
        return self.path.stem.partition("-")[0]

    @property
    def environment(self) -> Path:
        """Where its packages are."""
        return self.environments / self.name

    @property
    def command(self) -> Path:
        """What runs it."""
        return Path("node") if self.path.suffix == ".mjs" else self.environment / "bin" / "python"

    def said(self, word: str) -> list[str]:
        """Return what the file's head lists behind `pip:`, `npm:` or `gives:`."""
        found = re.search(rf"^(?:#|//) {word}: (.+)$", self.path.read_text(), re.MULTILINE)
        return found[1].split() if found else []


@dataclass
class Outcome:
    """What came of one app."""

    ended: str
    turns: list[Mapping[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    doctor: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether the turn has all that the stack records."""
        return self.ended == "ran" and not self.missing


def _whole_calls(tokens: Mapping[str, int | None]) -> bool:
    """Whether these are the tokens of one call of the model or more."""
    read, written = tokens["input"] or 0, tokens["output"] or 0
    return read > 0 and read * TOKENS[1] == written * TOKENS[0]


def apps(environments: Path = ENVIRONMENTS) -> list[App]:
    """Return all, by name."""
    return [App(path, environments) for path in sorted(APPS.iterdir()) if path.suffix in (".py", ".mjs")]


def page_lines(setup: Setup, *, javascript: bool) -> tuple[list[str], dict[str, str]]:
    """Return the lines of code that the page prints for a language, and the variables that it sets."""
    variables: dict[str, str] = {}
    code: list[str] = []
    marked = any("// JavaScript" in line for line in setup.lines.splitlines())
    for line in (*setup.lines.splitlines(), *(setup.content or "").splitlines()):
        if _VARIABLE.match(line):
            variables |= dict(_VARIABLE.findall(line))
        elif "// JavaScript" in line or (not marked and _is_javascript_only(setup)):
            if javascript:
                code.append(line)
        elif not javascript and line and not line.startswith(("pip ", "  #", "#", "new ")):
            code.append(line)
    return code, variables


def _is_javascript_only(setup: Setup) -> bool:
    return "pip install" not in setup.lines and re.search(r"\{ |new \w", setup.lines) is not None


def program(app: App, setup: Setup, address: str) -> tuple[str, dict[str, str]]:
    """Return the app with the page's lines in it, and the variables that the page sets."""
    around = app.path.read_text()
    code, variables = page_lines(setup, javascript=app.path.suffix == ".mjs")
    place = _LINES.search(around)
    if place is None and code and app.said("lines") != ["none"]:
        raise SystemExit(f"{app.path}: no place for the page's lines; allowed: one line `# lines` or `// lines`")
    if place is not None:
        printed = f"\n{place[1]}".join(code)
        around = around[: place.start()] + place[1] + printed + around[place.end() :]
    return around.replace(MONITOR, address), {key: value.replace(MONITOR, address) for key, value in variables.items()}


@contextlib.contextmanager
def monitor(folder: Path) -> Iterator[tuple[Path, int]]:
    """Run a monitor on free ports; yields its settings file and the port for OTLP over HTTP."""
    http, grpc, web = (free_port() for _ in range(3))
    settings = folder / "rag-monitor.yaml"
    settings.write_text(_SETTINGS.format(folder=folder, http=http, grpc=grpc, web=web))
    log = folder / "monitor.log"
    with log.open("wb") as out, subprocess.Popen([COMMAND, "run", "-c", settings], stdout=out, stderr=out) as process:
        try:
            while not accepts(http):
                if process.poll() is not None:
                    raise SystemExit(f"the monitor ended:\n{log.read_text()[-3000:]}")
                time.sleep(0.05)
            yield settings, http
        finally:
            process.terminate()
            process.wait(60)


def turns(settings: Path) -> list[Mapping[str, Any]]:
    """Return the turns that are stored, oldest first."""
    command: list[str | Path] = [COMMAND, "turns", "-c", settings, "--format", "jsonl"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def run(app: App, setup: Setup) -> Outcome:
    """Return what came of an app."""
    if not app.environment.exists():
        return Outcome("not installed")
    with tempfile.TemporaryDirectory() as name, model_server() as model, monitor(Path(name)) as (settings, port):
        threading.Thread(target=model.serve_forever, daemon=True).start()
        ended = _execute(app, setup, Path(name), f"http://127.0.0.1:{port}", f"http://127.0.0.1:{model.server_port}/v1")
        model.shutdown()
        outcome = Outcome(ended)
        deadline = time.monotonic() + (ARRIVAL_SECONDS if ended == "ran" else 0)
        while True:
            outcome.turns = turns(settings)
            outcome.missing = _missing(outcome.turns, app.said("gives"))
            if not outcome.missing or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        doctor: list[str | Path] = [COMMAND, "doctor", "-c", settings]
        outcome.doctor = subprocess.run(doctor, capture_output=True, text=True, check=True).stdout.splitlines()
    return outcome


def _missing(found: Sequence[Mapping[str, Any]], gives: Sequence[str]) -> list[str]:
    if not gives:
        return []
    if len(found) != 1:
        return [f"one turn (found {len(found)})"]
    return [part for part in gives if not _CHECKS[part](found[0])]


def _execute(app: App, setup: Setup, folder: Path, address: str, model: str) -> str:
    """Run an app to its end: "ran", or why not."""
    code, variables = program(app, setup, address)
    file = (app.environment if app.path.suffix == ".mjs" else folder) / f"app{app.path.suffix}"
    file.write_text(code)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "PYTHON"))}
    environment |= {"OTEL_SERVICE_NAME": "shop", "OTEL_RESOURCE_ATTRIBUTES": "service.version=1"}
    environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": address, **variables}
    environment |= {"OPENAI_BASE_URL": model, "OPENAI_API_KEY": "any", "SESSION": SESSION}
    environment |= {"QUESTION": QUESTION, "DOCUMENT": DOCUMENT, "DO_NOT_TRACK": "1", "HOME": str(folder)}
    environment |= {"LITELLM_LOCAL_MODEL_COST_MAP": "1", "TRACELOOP_TELEMETRY": "false"}
    try:
        ended = subprocess.run(
            [app.command, file],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS:.0f} s"
    said = [line for line in ended.stderr.splitlines() if re.search(r"error|exception", line, re.IGNORECASE)]
    return "ran" if ended.returncode == 0 else f"failed: {(said or ended.stderr.splitlines() or [''])[-1][:300]}"


def releases(app: App) -> str:
    """Return the packages of an app with their releases, as far as they are installed."""
    if app.path.suffix == ".mjs":
        names = [re.sub(r"(?<=.)@.*", "", package) for package in app.said("npm")]
        files = {name: app.environment / "node_modules" / name / "package.json" for name in names}
        return ", ".join(f"{name} {json.loads(file.read_text())['version']}" for name, file in files.items())
    names = [re.split(r"[\[<>=~]", package)[0] for package in app.said("pip")]
    ask = "import importlib.metadata as m, sys; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    asked: list[str | Path] = [app.command, "-c", ask, *names]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def install(app: App) -> None:
    """Make the environment of an app."""
    if app.path.suffix == ".mjs":
        app.environment.mkdir(parents=True, exist_ok=True)
        (app.environment / "package.json").write_text('{"private": true, "type": "module"}')
        npm = ["npm", "install", "--no-audit", "--no-fund", "--silent", *app.said("npm")]
        subprocess.run(npm, cwd=app.environment, check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", app.environment], check=True)
        pip: list[str | Path] = [app.command, "-m", "pip", "install", "--quiet", *app.said("pip")]
        subprocess.run(pip, check=True)


def main() -> None:
    """Print a line an app, and below it what is missing and what the doctor says."""
    names = [app.name for app in apps()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("apps", nargs="*", metavar="APP", help=f"of {', '.join(names)}; all when none is named")
    parser.add_argument("--install", action="store_true", help="make the environments first")
    parser.add_argument("--turns", action="store_true", help="print what arrived, too")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, metavar="FOLDER", help="where they are")
    options = parser.parse_args()
    known = {app.name: app for app in apps(options.environments)}
    if unknown := [name for name in options.apps if name not in known]:
        parser.error(f"no app {', '.join(unknown)}; known: {', '.join(known)}")
    failed = False
    for app in [known[name] for name in options.apps] or known.values():
        if options.install:
            install(app)
        setup = plugins.load("dialects", app.dialect, "setup_lines").DIALECT.setup
        outcome = run(app, setup)
        with_what = releases(app) if app.environment.exists() else ""
        result = f"no {', '.join(outcome.missing)}" if outcome.missing else f"one turn: {' '.join(app.said('gives'))}"
        print(f"{app.name}: {outcome.ended}" + (f"; {result}; {with_what}" if with_what else ""), flush=True)
        below = [*outcome.doctor, *(json.dumps(turn) for turn in outcome.turns if options.turns)]
        print("".join(f"    {line}\n" for line in below), end="", flush=True)
        failed |= not outcome.passed and outcome.ended != "not installed"
    sys.exit(failed)


if __name__ == "__main__":
    main()
