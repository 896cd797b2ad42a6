"""What becomes of a turn when it is judged: jobs, verdicts or why there is none, what was asked, said and paid.

Instants are aware UTC `datetime`s. Query, history, citations, response, prompts and replies are user text: they may
appear in the tables of spans, turns and verdicts' exchanges, in prompts and on a person's screen, never in logs, errors
or metric labels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, TypeAlias


class Reason(StrEnum):
    """Why a (turn, metric) has no verdict. Part of the stored data and of metric labels: names never change."""

    NO_QUERY = "no_query"
    NO_RESPONSE = "no_response"
    NO_CONTEXT = "no_context"
    """The turn's telemetry carries no citations, or retrieval found none."""
    NO_GROUND_TRUTH = "no_ground_truth"
    """No reference answer, or it is not known which documents are relevant."""
    NO_CLAIMS = "no_claims"
    """The answer states nothing that documents could support, such as a refusal or a greeting."""
    NOT_SUPPORTED = "not_supported"
    """The scorer abstains on this turn, such as an answer in another language than its documents."""
    CONTENT_FILTER = "content_filter"
    REFUSED = "refused"
    UNREADABLE = "unreadable"
    TRUNCATED = "truncated"
    TIMEOUT = "timeout"
    REJECTED = "rejected"
    """The judge's endpoint refuses this request and takes others."""
    UNAVAILABLE = "unavailable"
    """The judge could not be reached within the attempts allowed."""
    EXPIRED = "expired"
    BUDGET = "budget"
    INTERNAL = "internal"
    """A fault of ours; the log names it."""


MEANINGS: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.NO_QUERY: "no question was captured",
        Reason.NO_RESPONSE: "no answer was captured, or it is blank",
        Reason.NO_CONTEXT: "no text of documents was captured, or the model saw none of those that were retrieved",
        Reason.NO_GROUND_TRUTH: "there is no reference answer, or nobody said which documents are relevant",
        Reason.NO_CLAIMS: "the answer states nothing that documents could support",
        Reason.NOT_SUPPORTED: "no reason given; the metric abstains, such as where answer and documents are in "
        "different languages, the question is an image, or what it needs does not apply",
        Reason.CONTENT_FILTER: "the content filter of the judge's endpoint stopped it",
        Reason.REFUSED: "the judge declined to judge",
        Reason.UNREADABLE: "the judge's reply is not what was asked for",
        Reason.TRUNCATED: "the judge's reply was cut off",
        Reason.TIMEOUT: "the judge did not answer in time",
        Reason.REJECTED: "the judge's endpoint, or the metric, refused this turn",
        Reason.UNAVAILABLE: "the judge could not be reached within the attempts allowed",
        Reason.EXPIRED: "it waited too long to be judged",
        Reason.BUDGET: "the budget was spent",
        Reason.INTERNAL: "a fault of ours; the log names it",
    }
)
"""Each reason in words."""

FAILURES = frozenset(
    {
        Reason.CONTENT_FILTER,
        Reason.REFUSED,
        Reason.UNREADABLE,
        Reason.TRUNCATED,
        Reason.TIMEOUT,
        Reason.REJECTED,
        Reason.UNAVAILABLE,
        Reason.INTERNAL,
    }
)
"""Reasons why a turn that was to be judged was not, though it carries all that is needed: it may well be a defect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One (turn, metric) that was sampled and waits for its verdict."""

    turn_id: str
    content_hash: str
    metric: str
    rubric_id: str
    probability: float
    """Inclusion probability, in (0, 1]; the verdict's weight is its inverse."""
    stratum: str = ""
    attempt: int = 0
    """How often it has been claimed."""
    failures: int = 0
    """How often judging it failed while its endpoint answered others."""
    not_before: datetime | None = None
    leased_until: datetime | None = None
    requested_at: datetime | None = None
    """When somebody asked for it after its turn was decided about; None for those of the decision."""

    @property
    def subject(self) -> str:
        """What names it while it is computed, the turn's id first; a turn whose content changes is another subject."""
        return f"{self.turn_id} {self.rubric_id} {self.content_hash}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One sentence or one citation of a verdict; `reason` and `evidence` are the judge's words, so user text."""

    index: int
    """1 for the first sentence, or the citation's rank."""
    verdict: str
    reason: str = ""
    evidence: str = ""
    citation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a metric read out of a reply, or computed."""

    score: float | None
    """On the metric's scale; None for metrics that only label."""
    defect: bool
    label: str | None = None
    severity: int | None = None
    """0-7, safety metrics only."""
    reason: str = ""
    details: tuple[Detail, ...] = ()
    flags: frozenset[str] = frozenset()
    """Such as `judge_injection` or `context_truncated`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What was asked of a judge and what it cost, over all calls for one job."""

    judge_model: str = ""
    """As the endpoint returned it, or the proxy's versioned name."""
    prompt: str = ""
    """What was asked, for `explain`; user text, kept as long as the turn's."""
    reply: str = ""
    """What came back, verbatim; user text too."""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    latency: timedelta = timedelta(0)
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A job's finding."""

    job: Job
    finding: Finding
    exchange: Exchange
    judged_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Unscored:
    """A job without a finding, and why. Never a pass and never a zero: it enters no rate."""

    job: Job
    reason: Reason
    detail: str = ""
    """Free of user text."""
    severity: int | None = None
    """0-7, safety metrics only: what the judge's own content filter found. It is no verdict and is shown apart."""
    exchange: Exchange = Exchange()
    judged_at: datetime


Outcome: TypeAlias = Verdict | Unscored


def judge_id(outcome: Outcome) -> str:
    """Return twelve digits that name who gave an outcome, "" for metrics computed in code.

    That is the rubric (prompt, schema, scale, parameters, parser and judge as configured), the model as it called
    itself and its fingerprint.
    """
    exchange = outcome.exchange
    if not exchange.judge_model:
        return ""
    parts = (outcome.job.rubric_id, exchange.judge_model, exchange.fingerprint or "")
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """What calls of judges cost, whatever came of them."""

    usd: float = 0.0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Spend) -> Spend:
        """Return both together."""
        return Spend(
            usd=self.usd + other.usd,
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )

    def __sub__(self, other: Spend) -> Spend:
        """Return what is left without `other`."""
        return Spend(
            usd=self.usd - other.usd,
            calls=self.calls - other.calls,
            input_tokens=self.input_tokens - other.input_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeVersion:
    """Which model really answers behind a judge's name: an alias may move to another one overnight."""

    judge: str
    """The judge's name, as configured."""
    model: str
    """As the endpoint returned it."""
    fingerprint: str = ""
    """The endpoint's `system_fingerprint`; "" when it tells none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeChange:
    """Another model, or another build of one, began to answer behind a judge's name."""

    version: JudgeVersion
    before: JudgeVersion
    """The one met last before it."""
    at: datetime
    """When it was first met."""


class SecondOpinionKind(StrEnum):
    """Why a turn that has a verdict was judged again."""

    REPEAT = "repeat"
    """At once, by the same version: does the judge agree with itself?"""
    ANCHOR = "anchor"
    """After the version changed: does the new one agree with the old?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondOpinion:
    """A second verdict on a turn. It enters no rate: the first one stands."""

    job: Job
    """The first verdict's."""
    kind: SecondOpinionKind
    version: JudgeVersion
    """Who gave it."""
    score: float | None
    defect: bool
    first_score: float | None
    first_defect: bool
    judged_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message to a judge model."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What a judge model is asked in one call."""

    messages: tuple[ChatMessage, ...]
    max_output_tokens: int
    """The budget for the reply."""
    schema: Mapping[str, object] | None = None
    """Of the reply, in OpenAI's `json_schema` form (`name`, `strict`, `schema`); None for plain text."""
    alternatives: bool = False
    """Whether the reply is to say what it could have begun with, where the endpoint tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of a judge model, unread."""

    text: str
    model: str
    """As the endpoint returned it."""
    finish_reason: str = "stop"
    refusal: str | None = None
    reasoned: bool = False
    """Whether reasoning came with it, which is never read as the reply."""
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_estimated: bool = False
    """Whether the endpoint did not report its usage, so that tokens and cost are estimated from the texts."""
    cost_usd: float = 0.0
    latency: timedelta = timedelta(0)
    fingerprint: str | None = None
    severities: Mapping[str, int] = field(default_factory=dict)
    """What the endpoint's own content filter found, by risk, 0-7; empty when it says nothing."""
    alternatives: tuple[tuple[str, float], ...] = ()
    """Tokens that the reply could have begun with, and the logarithms of their probabilities; () when not told."""
    prompt_cut: bool = False
    """Whether the model saw only a part of the prompt, by the tokens it counted, so that the reply is worth nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """What a stage must know of a metric to sample, store and chart it, without being able to judge."""

    metric: str
    rubric_id: str
    needs: frozenset[str]
    """Of `query`, `response`, `citations`, `ground_truth`, `relevant_ids`."""
    scale_min: float
    scale_max: float
    title: str = ""
    proxy: bool = False
    """Whether its scores are a cheap stand-in and must be called so wherever a person sees them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The decision about one turn, recorded at once with the jobs it made."""

    turn_id: str
    content_hash: str
    jobs: tuple[Job, ...] = ()
    unscored: tuple[Unscored, ...] = ()
    """Metrics whose needs the turn does not meet."""
    asked: tuple[tuple[str, str], ...] = ()
    """All metrics that were decided about, drawn or not, each with its rubric id; () when nobody says."""
    proxy: float | None = None
    """The cheap score in [0, 1] of every turn, 1 for fully covered by its documents; None when it does not apply."""
    proxy_version: str = ""
    decided_at: datetime
