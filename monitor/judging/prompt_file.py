"""A prompt file read and checked: YAML front matter, `[system]` and `[user]` parts, and the schema of the reply.

Everything a file can get wrong is said at start, with the file's name, not when the first turn is judged.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, ValidationInfo, field_validator, model_validator

from monitor.assets import asset_dir
from monitor.errors import ConfigError
from monitor.judging.schema import Schema
from monitor.judging.template import LISTS, VALUES, Template, parse
from monitor.settings import Section, validate

_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)---[ \t]*\n", re.DOTALL)
_PART = re.compile(r"(?m)^\[(system|user)\][ \t]*\n")

Need = Literal["query", "response", "citations", "ground_truth"]


class ScaleSettings(Section):
    """The scores the metric can have."""

    type: Literal["integer", "number"] = "integer"
    min: float
    max: float

    @model_validator(mode="after")
    def _ordered(self) -> ScaleSettings:
        if self.min >= self.max:
            raise ValueError(f"min ({self.min:g}) must be below max ({self.max:g})")
        return self


class DefectSettings(Section):
    """Which scores are defects: exactly one bound."""

    score_lt: float | None = None
    score_lte: float | None = None
    score_gt: float | None = None
    score_gte: float | None = None

    @model_validator(mode="after")
    def _one(self) -> DefectSettings:
        if (
            len(
                [bound for bound in (self.score_lt, self.score_lte, self.score_gt, self.score_gte) if bound is not None]
            )
            != 1
        ):
            raise ValueError("expected exactly one of score_lt, score_lte, score_gt, score_gte")
        return self

    def __call__(self, score: float) -> bool:
        """Return whether `score` is a defect."""
        return (
            (self.score_lt is not None and score < self.score_lt)
            or (self.score_lte is not None and score <= self.score_lte)
            or (self.score_gt is not None and score > self.score_gt)
            or (self.score_gte is not None and score >= self.score_gte)
        )


class PromptSettings(Section):
    """Budgets, in tokens and messages."""

    max_output_tokens: int = Field(default=800, ge=16)
    max_document_tokens: int = Field(default=12_000, ge=100)
    """All documents together; over it the longest are cut."""
    max_sentences: int = Field(default=40, ge=1)
    """Neighbouring sentences of a longer answer are joined."""
    history_messages: int = Field(default=6, ge=0)


class FrontMatter(Section):
    """The head of a prompt file."""

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
    """The metric's name."""
    version: int = Field(ge=1)
    title: str
    source: str = ""
    needs: frozenset[Need]
    scale: ScaleSettings
    defect: DefectSettings
    reply: Literal["score", "sentences"] = "score"
    """`score`: the reply's own number; `sentences`: computed from a verdict on every sentence."""
    params: PromptSettings = PromptSettings()
    schema_file: str = Field(alias="schema")
    """File of the reply's schema, beside this one."""
    placeholders_required: frozenset[str] = frozenset()

    @field_validator("placeholders_required")
    @classmethod
    def _known(cls, value: frozenset[str], info: ValidationInfo) -> frozenset[str]:  # noqa: ARG003 -- pydantic's form
        known = VALUES | LISTS.keys()
        if unknown := sorted(value - known):
            raise ValueError(f"no placeholder {unknown[0]!r}; known: {', '.join(sorted(known))}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFile:
    """A checked prompt."""

    front: FrontMatter
    system: Template
    user: Template
    schema: Schema
    text: str
    """Both parts as written, for the rubric's hash."""


def locate(name: str) -> Path:
    """Return the file of a shipped prompt's name, or of a path (anything with a slash or ending in `.md`).

    Raises:
        ConfigError: there is no such prompt; the message lists the shipped ones.
    """
    if "/" in name or name.endswith(".md"):
        return Path(name)
    folder = asset_dir("prompts")
    known = sorted(path.stem for path in folder.glob("*.md"))
    if name not in known:
        raise ConfigError(f"metrics: no prompt {name!r}; known: {', '.join(known)}, or the path of a prompt file")
    return folder / f"{name}.md"


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
    """Return the two parts, each with the number of its first line."""
    marks = list(_PART.finditer(text, start))
    if [mark[1] for mark in marks] != ["system", "user"] or text[start : marks[0].start()].strip():
        raise ConfigError(f"{path}: expected a line [system] and then a line [user] below the front matter, once each")
    found = []
    for mark, end in zip(marks, (marks[1].start(), len(text)), strict=True):
        found.append((text[mark.end() : end], text.count("\n", 0, mark.end()) + 1))
    return found[0], found[1]


def _check_data(path: Path, front: FrontMatter, system: Template, user: Template) -> None:
    """Judged text belongs into the user's message and between fences."""
    if loose := sorted(system.names - {"fence"}):
        raise ConfigError(f"{path}: [system]: {{{{{loose[0]}}}}} is judged text and belongs in [user]")
    if "fence" not in user.names:
        raise ConfigError(f"{path}: [user]: put judged text between two {{{{fence}}}} marks")
    if front.reply == "sentences" and "sentences" not in user.names:
        raise ConfigError(f"{path}: [user]: reply: sentences needs {{{{#sentences}}}}")


def _schema(path: Path, front: FrontMatter) -> Schema:
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
    wanted = "sentences" if front.reply == "sentences" else "score"
    if wanted not in schema.properties:
        raise ConfigError(f"{file}: reply: {front.reply} needs a property {wanted!r}")
    if front.reply == "sentences" and (front.scale.min, front.scale.max) != (1, 5):
        raise ConfigError(f"{path}: scale: reply: sentences is computed on 1 to 5")
    return schema
