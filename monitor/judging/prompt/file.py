"""A prompt file read and checked: YAML front matter, `[system]` and `[user]` parts, and the schema of the reply.

Everything a file can get wrong is said at start, with the file's name, not when the first turn is judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from monitor.assets import asset_dir
from monitor.errors import ConfigError
from monitor.judging.prompt.front_matter import FrontMatter, MetricSettings, keys_at
from monitor.judging.prompt.marked_yaml import MarkedYaml, load
from monitor.judging.prompt.schema import Schema
from monitor.judging.prompt.template import Fields, Template, parse
from monitor.model.judgements import ChatMessage
from monitor.settings.nearest import suggestion
from monitor.settings.text_file import read_text

_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)---[ \t]*\n", re.DOTALL)
_PART = re.compile(r"(?m)^\[(system|user)\][ \t]*\n")
_FIRST_LINE = 2
"""Of the front matter: below its ---."""

_SHOWN_BY = {
    "query": ("query",),
    "response": ("response", "sentences", "claim"),
    "citations": ("documents", "context", "document"),
    "ground_truth": ("ground_truth",),
}
"""The placeholders by which a prompt shows what its metrics need."""

_NEEDED_IN_USER = {
    "sentences": ("{{#sentences}}",),
    "intents": ("{{#documents}}",),
    "ranking": ("{{#documents}}",),
    "claims": ("{{claim}}", "{{document}}"),
}
_OF_A_CLAIM = frozenset({"fence", "claim", "document", "query", "response"})
"""What a prompt can be told that is asked claim by claim."""


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

    def messages(self, values: Fields, lists: Mapping[str, Sequence[Fields]]) -> tuple[ChatMessage, ...]:
        """Return both parts with everything inserted; the user's alone when the system's is empty."""
        user = ChatMessage(role="user", content=self.user.render(values, lists).strip())
        system = self.system.render(values, lists).strip()
        return (ChatMessage(role="system", content=system), user) if system else (user,)


def shipped() -> tuple[str, ...]:
    """Return the names of the prompt files that are shipped, sorted."""
    return tuple(sorted(path.stem for path in asset_dir("prompts").glob("*.md")))


def meant_by(name: str, known: Sequence[str]) -> str:
    """Return the end of a message about a name that nothing has: what it is called now, or which of `known` is near.

    >>> meant_by("seed_fluency", ())
    "; it is called 'published_fluency' now"
    """
    former = name.removeprefix("seed_") if name.startswith("seed_") else ""
    present = former if former.startswith("spring_") else f"published_{former}"
    return f"; it is called {present!r} now" if present in shipped() else suggestion(name, known)


def locate(name: str) -> Path:
    """Return the file of a shipped prompt's name, or of a path (anything with a slash or ending in `.md`).

    Raises:
        ConfigError: there is no such prompt; the message names the nearest that is shipped, or all.
    """
    if "/" in name or name.endswith(".md"):
        return Path(name)
    if name not in shipped():
        raise ConfigError(f"no prompt file {name!r}{meant_by(name, shipped())}")
    return asset_dir("prompts") / f"{name}.md"


def read(path: Path) -> PromptFile:
    """Return the prompt in `path`.

    Raises:
        ConfigError: the file or its schema cannot be read, or says something it must not; each names file and key.
    """
    text = _text(path)
    head = _FRONT.match(text)
    if head is None:
        raise ConfigError("expected YAML front matter between two lines of ---", where=f"{path}:1")
    marked = load(head[1], where=str(path), line=_FIRST_LINE)
    front = _front(marked, path)
    system, user = _parts(text, head.end(), path)
    templates = [parse(body, where=str(path), line=line) for body, line in (system, user)]
    used = templates[0].names | templates[1].names
    if missing := sorted(front.placeholders_required - used):
        at = marked.line(("placeholders_required",))
        raise ConfigError(f"{{{{{missing[0]}}}}} is not in the prompt", where=f"{path}:{at}: placeholders_required")
    if loose := sorted(templates[0].names - {"fence"}):
        at = system[1] + system[0].count("\n", 0, system[0].index(loose[0]))
        raise ConfigError(f"{{{{{loose[0]}}}}} is judged text and belongs in [user]", where=f"{path}:{at}: [system]")
    _check_data(path, front, templates[1], user[1] - 1)
    _check_needs(path, front, templates[1], marked)
    return PromptFile(
        front=front,
        system=templates[0],
        user=templates[1],
        schema=_schema(path, front, marked),
        text=f"[system]\n{system[0]}[user]\n{user[0]}",
    )


def _text(path: Path) -> str:
    # Some editors begin a file with a byte order mark.
    return read_text(path, "the prompt", encoding="utf-8-sig").replace("\r\n", "\n")


def _front(marked: MarkedYaml, path: Path) -> FrontMatter:
    """Return the head; every mistake is told with its line, its key and what is allowed there."""
    try:
        return FrontMatter.model_validate(marked.tree)
    except ValidationError as error:
        problems: list[tuple[str, str]] = []
        for problem in error.errors():
            place = _written(problem["loc"], marked)
            message = problem["msg"].removeprefix("Value error, ")
            if problem["type"] == "extra_forbidden":
                message = f"no such key; known: {', '.join(keys_at(place))}"
            key = ".".join(map(str, place)) or "front matter"
            problems.append((f"{path}:{marked.line(place)}: {key}", message))
        raise ConfigError.several(problems) from None


def _written(place: tuple[str | int, ...], marked: MarkedYaml) -> tuple[str | int, ...]:
    """Return where a key stands in the file: a file of one metric leaves out `metrics` and its name."""
    return place[2:] if place[:1] == ("metrics",) and "metrics" not in marked.tree else place


def _parts(text: str, start: int, path: Path) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return the two parts, each with the number of its first line; a prompt may do without a system part."""
    marks = list(_PART.finditer(text, start))
    order = [mark[1] for mark in marks]
    if order not in (["system", "user"], ["user"]) or text[start : marks[0].start()].strip():
        at = text.count("\n", 0, start) + 1
        raise ConfigError(
            "expected a line [system] and then a line [user] below the front matter, once each; "
            "a prompt without a system message has [user] only",
            where=f"{path}:{at}",
        )
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    parts = [
        (text[mark.end() : end], text.count("\n", 0, mark.end()) + 1) for mark, end in zip(marks, ends, strict=True)
    ]
    return (parts[0], parts[1]) if len(parts) > 1 else (("", 1), parts[0])


def _check_data(path: Path, front: FrontMatter, user: Template, line: int) -> None:
    """Judged text belongs into the user's message, whose mark is on `line`, and there between fences."""
    outside = None if front.unfenced else user.outside("fence")
    if outside:
        problem = "a mark is left open" if outside == "fence" else f"{{{{{outside}}}}} stands outside"
        raise ConfigError(
            f"put judged text between two {{{{fence}}}} marks, or say unfenced: true: {problem}",
            where=f"{path}:{line}: [user]",
        )
    for metric in front.metrics.values():
        needed = _NEEDED_IN_USER.get(metric.reply, ())
        if missing := [tag for tag in needed if tag.strip("{}#") not in user.names]:
            raise ConfigError(f"reply: {metric.reply} needs {missing[0]}", where=f"{path}:{line}: [user]")
        if metric.reply == "claims" and (strange := sorted(user.names - _OF_A_CLAIM)):
            known = ", ".join(sorted(_OF_A_CLAIM))
            raise ConfigError(
                f"no {{{{{strange[0]}}}}} with reply: claims; known: {known}", where=f"{path}:{line}: [user]"
            )


def _check_needs(path: Path, front: FrontMatter, user: Template, marked: MarkedYaml) -> None:
    """A judge that is not shown what a metric is about would score it all the same, and so would an empty text."""
    needed = {need for m in front.metrics.values() for need in (front.needs if m.needs is None else m.needs)}
    at = f"{path}:{marked.line(('needs',))}: needs"
    for need in sorted(needed & _SHOWN_BY.keys()):
        if not user.names & set(_SHOWN_BY[need]):
            shown = " or ".join(f"{{{{{name}}}}}" for name in _SHOWN_BY[need])
            raise ConfigError(f"{need} is not shown to the judge: put {shown} in [user]", where=at)
    for need in ("response", "ground_truth"):
        if need not in needed and (used := sorted(user.names & set(_SHOWN_BY[need]))):
            raise ConfigError(f"{{{{{used[0]}}}}} is in [user], so needs must name {need}", where=at)


def schema_path(path: Path, name: str) -> Path:
    """Return the schema's file: beside the prompt in `path`, or else the shipped one of that name, if there is one."""
    beside, ours = path.with_name(name), asset_dir("prompts") / name
    return ours if ours.is_file() and not beside.exists() else beside


def _schema(path: Path, front: FrontMatter, marked: MarkedYaml) -> Schema | None:
    if front.schema_file is None:
        return None
    at = f"{path}:{marked.line(('schema',))}"
    if not front.schema_file or Path(front.schema_file).name != front.schema_file:
        raise ConfigError(
            "expected the name of a file beside the prompt, such as tone.schema.json", where=f"{at}: schema"
        )
    file = schema_path(path, front.schema_file)
    try:
        tree = json.loads(read_text(file, "the schema", encoding="utf-8-sig"))
    except ConfigError as error:
        (_, problem), *_ = error.problems
        raise ConfigError(f"{problem} ({str(file)!r})", where=f"{at}: schema") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"not JSON: {error.msg}", where=f"{file}:{error.lineno}") from None
    except (ValueError, RecursionError):
        raise ConfigError("not JSON", where=str(file)) from None
    if not isinstance(tree, dict):
        raise ConfigError("expected a mapping", where=str(file))
    schema = Schema(tree, where=str(file))
    for name, metric in front.metrics.items():
        for place in _fields(metric):
            if not schema.has(place):
                raise ConfigError(
                    f"reply: {metric.reply} needs a property {'.'.join(place)!r}", where=f"{at}: {file.name}: {name}"
                )
        _check_values(f"{at}: {file.name}: {name}", metric, schema)
    return schema


def _check_values(where: str, metric: MetricSettings, schema: Schema) -> None:
    """What the schema lets a judge say must be what the metric can be read from."""
    inside = (metric.field,) if metric.field else ()
    allowed = schema.allowed((*inside, metric.reply))
    if metric.defect.label_in is not None:
        if not allowed:
            raise ConfigError("expected an enum, so that no label is unknown", where=f"{where}: label")
        if unknown := sorted(metric.defect.label_in - set(map(str, allowed))):
            raise ConfigError(
                f"no label {unknown[0]!r}; known: {', '.join(map(str, allowed))}", where=f"{where}: defect"
            )
    for value in allowed:
        if isinstance(value, int | float) and not metric.scale.min <= value <= metric.scale.max:
            raise ConfigError(
                f"the schema allows {value:g}, the scale runs from {metric.scale.min:g} to {metric.scale.max:g}",
                where=where,
            )


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
