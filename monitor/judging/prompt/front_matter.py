"""The head of a prompt file: which metrics are read out of its replies, on which scales, and what a defect is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, ValidationInfo, field_validator, model_validator

from monitor.judging.prompt.template import LISTS, VALUES
from monitor.settings.section import Section

Need: TypeAlias = Literal["query", "response", "citations", "ground_truth", "relevant_ids"]
Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
ReplyForm: TypeAlias = Literal[
    "score", "sentences", "intents", "ranking", "severity", "label", "number", "result", "yes_no", "claims"
]

PLAIN_FORMS: frozenset[ReplyForm] = frozenset({"number", "result", "yes_no", "claims"})
"""Forms of replies in plain text, which need no schema."""


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
    """Which scores or labels are defects: exactly one rule."""

    score_lt: float | None = None
    score_lte: float | None = None
    score_gt: float | None = None
    score_gte: float | None = None
    label_in: frozenset[str] | None = None

    @model_validator(mode="after")
    def _single_rule(self) -> DefectSettings:
        rules = (self.score_lt, self.score_lte, self.score_gt, self.score_gte, self.label_in)
        if len([rule for rule in rules if rule is not None]) != 1:
            raise ValueError("expected exactly one of score_lt, score_lte, score_gt, score_gte, label_in")
        return self

    def __call__(self, score: float) -> bool:
        """Return whether `score` is a defect."""
        return (
            (self.score_lt is not None and score < self.score_lt)
            or (self.score_lte is not None and score <= self.score_lte)
            or (self.score_gt is not None and score > self.score_gt)
            or (self.score_gte is not None and score >= self.score_gte)
        )

    def labelled(self, label: str) -> bool:
        """Return whether `label` is a defect."""
        return self.label_in is not None and label in self.label_in

    @property
    def words(self) -> str:
        """The rule as people read it, such as `<= 3`."""
        signs = {"<": self.score_lt, "<=": self.score_lte, ">": self.score_gt, ">=": self.score_gte}
        for sign, bound in signs.items():
            if bound is not None:
                return f"{sign} {bound:g}"
        return " or ".join(sorted(self.label_in or ()))


class PromptSettings(Section):
    """Budgets, in tokens and messages."""

    max_output_tokens: int = Field(default=800, ge=1)
    max_document_tokens: int = Field(default=12_000, ge=100)
    """All documents together; over it only what is nearest to the answer or the question is shown."""
    max_sentences: int = Field(default=40, ge=1)
    """Neighbouring sentences of a longer answer are joined."""
    history_messages: int = Field(default=6, ge=0)
    windows: int = Field(default=2, ge=1)
    """Of `reply: claims`: pieces of documents that each claim is held against, the nearest ones."""
    window_tokens: int = Field(default=400, ge=50)
    """Of `reply: claims`: the length of such a piece."""


class CapSettings(Section):
    """A score that cannot be when the judge says something else as well."""

    field: str
    """A yes-or-no field of the reply."""
    score: float
    """When it is yes, the score is at most this; a reply that says otherwise contradicts itself and is asked again."""


class RankingSettings(Section):
    """Of `reply: ranking`: what is computed from the judge's relevance of each document."""

    measure: Literal["precision", "reciprocal_rank", "ndcg"]
    k: int = Field(default=5, ge=1)
    relevant_from: int = Field(default=7, ge=1, le=10)
    """A document counts as relevant from this grade on."""


class MetricSettings(Section):
    """One metric of a prompt file."""

    title: str
    needs: frozenset[Need] | None = None
    """What a turn must have; null for the file's."""
    reply: ReplyForm = "score"
    """How the reply is read; docs/metrics.md lists the ways."""
    field: str = ""
    """The part of the reply that is about this metric; "" for the whole."""
    scale: ScaleSettings = ScaleSettings(type="number", min=0, max=1)
    defect: DefectSettings
    ranking: RankingSettings | None = None
    cap: CapSettings | None = None
    evidence: Literal["optional", "required"] = "optional"
    """Of `reply: sentences`: whether a reply that calls a sentence supported and quotes nothing is unreadable; else its
    verdict is flagged."""
    applies_if: str = ""
    """A yes-or-no field of the reply; when it is no, the turn has no score."""
    estimate: bool = False
    """Whether the number stands in for one that needs labels, and must be called an estimate."""

    @model_validator(mode="after")
    def _fits(self) -> MetricSettings:
        if (self.reply == "ranking") != (self.ranking is not None):
            raise ValueError("ranking: belongs to reply: ranking, and that needs it")
        if (self.reply == "label") != (self.defect.label_in is not None):
            raise ValueError("defect: label_in belongs to reply: label, and that needs it")
        if self.evidence == "required" and self.reply != "sentences":
            raise ValueError("evidence: belongs to reply: sentences")
        if self.reply == "sentences" and (self.scale.min, self.scale.max) != (1, 5):
            raise ValueError("scale: reply: sentences is computed on 1 to 5")
        if self.reply == "severity" and (self.scale.min, self.scale.max) != (0, 7):
            raise ValueError("scale: reply: severity runs from 0 to 7")
        return self

    @model_validator(mode="after")
    def _tells_apart(self) -> MetricSettings:
        low, high = self.scale.min, self.scale.max
        if self.reply != "label" and self.defect(low) == self.defect(high):
            every = "every" if self.defect(low) else "no"
            raise ValueError(f"defect: {self.defect.words} makes {every} score from {low:g} to {high:g} a defect")
        if self.cap and not low <= self.cap.score <= high:
            raise ValueError(f"cap: score: expected a number from {low:g} to {high:g}")
        return self


class FrontMatter(Section):
    """The head of a prompt file."""

    id: Name
    version: int = Field(ge=1)
    title: str
    source: str = ""
    needs: frozenset[Need]
    metrics: Mapping[Name, MetricSettings]
    """By name. A file for a single metric may leave it out and say `scale`, `defect`, `reply` and so on itself; the
    metric then has the file's name."""
    params: PromptSettings = PromptSettings()
    schema_file: str | None = Field(alias="schema")
    """File of the reply's schema, beside this one or else a shipped one; null when the reply is plain text."""
    placeholders_required: frozenset[str] = frozenset()
    unfenced: bool = False
    """Whether judged text stands bare in the prompt: for models that know one exact form. Nothing then tells injected
    text from the prompt's own."""

    @model_validator(mode="before")
    @classmethod
    def _single(cls, tree: object) -> object:
        if not isinstance(tree, dict) or "metrics" in tree:
            return tree
        own = MetricSettings.model_fields.keys() - {"title", "needs"}
        single = {"title": tree.get("title"), **{key: value for key, value in tree.items() if key in own}}
        rest = {key: value for key, value in tree.items() if key not in own}
        return {**rest, "metrics": {tree.get("id"): single}} if "title" in tree and "id" in tree else rest

    @field_validator("placeholders_required")
    @classmethod
    def _known_placeholders(cls, value: frozenset[str], info: ValidationInfo) -> frozenset[str]:  # noqa: ARG003 -- pydantic's form
        known = VALUES | LISTS.keys()
        if unknown := sorted(value - known):
            raise ValueError(f"no placeholder {unknown[0]!r}; known: {', '.join(sorted(known))}")
        return value

    @model_validator(mode="after")
    def _schema_fits(self) -> FrontMatter:
        forms = {metric.reply for metric in self.metrics.values()}
        if not forms:
            raise ValueError("metrics: expected at least one")
        if forms & PLAIN_FORMS and len(self.metrics) > 1:
            raise ValueError(f"metrics: reply: {min(forms & PLAIN_FORMS)} leaves room for one metric only")
        if (self.schema_file is None) != bool(forms & PLAIN_FORMS):
            raise ValueError(f"schema: expected null for {', '.join(sorted(PLAIN_FORMS))} and a file for all others")
        return self


_SECTIONS: Mapping[str, type[Section]] = {
    "scale": ScaleSettings,
    "defect": DefectSettings,
    "params": PromptSettings,
    "cap": CapSettings,
    "ranking": RankingSettings,
}


def keys_at(place: Sequence[str | int]) -> tuple[str, ...]:
    """Return the keys that may stand beside the last one of `place`, a path in a prompt file's head.

    >>> keys_at(("scale", "mini"))
    ('type', 'min', 'max')
    """
    above = [str(name) for name in place[:-1]]
    if above and above[-1] in _SECTIONS:
        return tuple(_SECTIONS[above[-1]].model_fields)
    if above[:1] == ["metrics"]:
        return tuple(MetricSettings.model_fields)
    own = [field.alias or name for name, field in FrontMatter.model_fields.items()]
    return tuple(dict.fromkeys((*own, *MetricSettings.model_fields)))
