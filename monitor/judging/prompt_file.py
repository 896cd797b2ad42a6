"""A prompt file read and checked: YAML front matter, `[system]` and `[user]` parts, and the schema of the reply.

Everything a file can get wrong is said at start, with the file's name, not when the first turn is judged.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from monitor.assets import asset_dir
from monitor.errors import ConfigError
from monitor.judging.front_matter import FrontMatter, MetricSettings
from monitor.judging.schema import Schema
from monitor.judging.template import Template, parse
from monitor.settings import validate

_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)---[ \t]*\n", re.DOTALL)
_PART = re.compile(r"(?m)^\[(system|user)\][ \t]*\n")
_NEEDED_IN_USER = {
    "sentences": ("{{#sentences}}",),
    "intents": ("{{#documents}}",),
    "ranking": ("{{#documents}}",),
    "claims": ("{{claim}}", "{{document}}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFile:
    """A checked prompt."""

    front: FrontMatter
    system: Template
    user: Template
    schema: Schema | None
    """None when the reply is plain text."""
    text: str
    """Both parts as written, for the rubric's hash."""


def shipped() -> tuple[str, ...]:
    """Return the names of the prompt files that are shipped, sorted."""
    return tuple(sorted(path.stem for path in asset_dir("prompts").glob("*.md")))


def locate(name: str) -> Path:
    """Return the file of a shipped prompt's name, or of a path (anything with a slash or ending in `.md`).

    Raises:
        ConfigError: there is no such prompt; the message lists the shipped ones.
    """
    if "/" in name or name.endswith(".md"):
        return Path(name)
    if name not in shipped():
        known = ", ".join(shipped())
        raise ConfigError(f"metrics: no prompt {name!r}; known: {known}, or the path of a prompt file")
    return asset_dir("prompts") / f"{name}.md"


def read(path: Path) -> PromptFile:
    """Return the prompt in `path`.

    Raises:
        ConfigError: the file or its schema cannot be read, or says something it must not; each names file and key.
    """
    text = _text(path)
    head = _FRONT.match(text)
    if head is None:
        raise ConfigError(f"{path}: expected YAML front matter between two lines of ---")
    front = validate(FrontMatter, _yaml(head[1], path), where=str(path))
    system, user = _parts(text, head.end(), path)
    templates = [parse(body, where=str(path), line=line) for body, line in (system, user)]
    used = templates[0].names | templates[1].names
    if missing := sorted(front.placeholders_required - used):
        raise ConfigError(f"{path}: placeholders_required: {{{{{missing[0]}}}}} is not in the prompt")
    _check_data(path, front, templates[0], templates[1])
    return PromptFile(
        front=front,
        system=templates[0],
        user=templates[1],
        schema=_schema(path, front),
        text=f"[system]\n{system[0]}[user]\n{user[0]}",
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the prompt: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: cannot read the prompt: not UTF-8") from None


def _yaml(text: str, path: Path) -> dict[str, object]:
    try:
        tree = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise ConfigError(f"{path}:{line}: front matter is not YAML: {error.problem}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: front matter: expected a mapping")
    return {str(key): value for key, value in tree.items()}


def _parts(text: str, start: int, path: Path) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return the two parts, each with the number of its first line; a prompt may do without a system part."""
    marks = list(_PART.finditer(text, start))
    order = [mark[1] for mark in marks]
    if order not in (["system", "user"], ["user"]) or text[start : marks[0].start()].strip():
        raise ConfigError(
            f"{path}: expected a line [system] and then a line [user] below the front matter, once each; "
            "a prompt without a system message has [user] only"
        )
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    found = [
        (text[mark.end() : end], text.count("\n", 0, mark.end()) + 1) for mark, end in zip(marks, ends, strict=True)
    ]
    return (found[0], found[1]) if len(found) > 1 else (("", 1), found[0])


def _check_data(path: Path, front: FrontMatter, system: Template, user: Template) -> None:
    """Judged text belongs into the user's message and between fences."""
    if loose := sorted(system.names - {"fence"}):
        raise ConfigError(f"{path}: [system]: {{{{{loose[0]}}}}} is judged text and belongs in [user]")
    if not front.unfenced and "fence" not in user.names:
        raise ConfigError(f"{path}: [user]: put judged text between two {{{{fence}}}} marks, or say unfenced: true")
    for metric in front.metrics.values():
        needed = _NEEDED_IN_USER.get(metric.reply, ())
        if missing := [tag for tag in needed if tag.strip("{}#") not in user.names]:
            raise ConfigError(f"{path}: [user]: reply: {metric.reply} needs {missing[0]}")


def _schema(path: Path, front: FrontMatter) -> Schema | None:
    if front.schema_file is None:
        return None
    file = path.with_name(front.schema_file)
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: schema: cannot read {str(file)!r}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{file}: not JSON") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{file}: expected a mapping")
    schema = Schema(tree, where=str(file))
    for name, metric in front.metrics.items():
        for place in _fields(metric):
            if not schema.has(place):
                raise ConfigError(
                    f"{path}: {file.name}: {name}: reply: {metric.reply} needs a property {'.'.join(place)!r}"
                )
    return schema


def _fields(metric: MetricSettings) -> list[tuple[str, ...]]:
    """Return the properties that the metric is read from, each as a path."""
    inside = (metric.field,) if metric.field else ()
    match metric.reply:
        case "sentences" | "intents":
            fields: list[tuple[str, ...]] = [(metric.reply,)]
        case "ranking":
            fields = [("documents",)]
        case _:
            fields = [(*inside, metric.reply)]
    fields += [(place,) for place in (metric.applies_if, metric.cap.field if metric.cap else "") if place]
    return fields
