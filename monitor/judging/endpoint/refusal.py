"""What an endpoint says when it refuses a request, in any of the forms in which such bodies come.

OpenAI sends `{"error": {"message", "type", "code", "param"}}`, Azure more below `innererror`, Gemini's endpoint a list
of one such object, FastAPI servers `{"detail": ...}`, Ollama and some gateways a text. Its words are only ever
searched, for they may quote the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import cast

import openai

from monitor.errors import MonitorError, RateLimited, Rejected, Retryable, Unusable, without_parts_of
from monitor.judging.endpoint.content_filter import severities
from monitor.judging.prompt.schema import Json
from monitor.retry import retry_after

# A probe every ten minutes harms no endpoint, whatever it asks for.
_LONGEST_PAUSE = timedelta(minutes=10)
_CONTENT_FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"})
_CONTEXT_LENGTH_CODES = frozenset({"context_length_exceeded", "string_above_max_length", "exceed_context_size_error"})
_UNUSABLE_STATUSES = frozenset({401, 402, 403, 404, 405, 410})
# Sent with 400 or 429 by some; neither another turn nor another minute changes them.
_UNUSABLE_CODES = frozenset(
    {
        "invalid_api_key",
        "invalid_authentication",
        "model_not_found",
        "DeploymentNotFound",
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "account_deactivated",
    }
)
_WRONG_KEY = re.compile(r"api key not valid|(?:invalid|incorrect) api key", re.IGNORECASE)
# OpenAI, vLLM; Anthropic; Bedrock; llama.cpp; Gemini; xAI; Groq; Mistral.
_TOO_LONG = re.compile(
    r"context (?:length|window|limit)|maximum context|prompt is too long|too many tokens"
    r"|input is too long|context size|input token count|maximum prompt length"
    r"|reduce the length of the messages|too large for model",
    re.IGNORECASE,
)
# Further on a refusal may quote the prompt.
_START, _HEAD = 150, 600
_MOST_SHOWN, _MOST_READ = 300, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One refusal, read."""

    status: int
    code: str = ""
    kind: str = ""
    """Its `type`."""
    parameter: str = ""
    message: str = ""
    """The endpoint's own words."""
    is_filtered: bool = False
    """Whether a content filter refused the request."""
    severities: Mapping[str, int] = field(default_factory=dict)
    """What the filter found, by risk, 0 to 7."""

    @property
    def is_too_long(self) -> bool:
        """Whether the prompt is too long for the model."""
        if self.code in _CONTEXT_LENGTH_CODES or self.kind in _CONTEXT_LENGTH_CODES or self.status == 413:  # noqa: PLR2004
            return True
        return self.status in {400, 422, 500} and bool(_TOO_LONG.search(self.message[:_HEAD]))

    @property
    def is_everybodys(self) -> bool:
        """Whether another turn would fare no better, until a person acts."""
        wrong_key = self.status == 400 and _WRONG_KEY.search(self.message[:_START])  # noqa: PLR2004
        return self.status in _UNUSABLE_STATUSES or self.code in _UNUSABLE_CODES or bool(wrong_key)

    @property
    def knows_no_address(self) -> bool:
        """Whether the address is wrong, rather than the model's name."""
        about_model = self.code == "model_not_found" or "model" in self.message[:_HEAD].lower()
        return self.status in {404, 405} and not about_model

    def shown(self, *, secrets: Collection[str]) -> str:
        """Return the endpoint's words, which may quote the request, on one line and without a part of `secrets`."""
        if self.message.lstrip().startswith("<"):
            return "a page of HTML"
        words = without_parts_of(self.message[:_MOST_READ], secrets)
        return " ".join("".join(c if c.isprintable() else " " for c in words).split())[:_MOST_SHOWN]


def read(error: openai.APIStatusError) -> Refusal:
    """Return what the body of `error` says.

    Azure names a content filter again inside, in `innererror.code`; OpenRouter answers 403 with the flagged input in
    `metadata`.
    """
    body = _details(cast("Json", error.body))
    inner, metadata = _mapping(body.get("innererror")), _mapping(body.get("metadata"))
    code = _word(body.get("code"))
    flagged = "flagged_input" in metadata or bool({code, _word(inner.get("code"))} & _CONTENT_FILTER_CODES)
    return Refusal(
        status=error.status_code,
        code=code,
        kind=_word(body.get("type")),
        parameter=_word(body.get("param")),
        message=_message(body),
        is_filtered=error.status_code in {400, 403, 422} and flagged,
        severities=severities(inner.get("content_filter_result") or inner.get("content_filter_results")),
    )


def translated(error: openai.APIStatusError, what: str, now: datetime) -> MonitorError:
    """Return what `error`, told of by `what`, means to callers; `now` is only for a date in Retry-After."""
    refusal = read(error)
    if refusal.is_filtered:
        return Rejected(f"{what}, content filter", reason="content_filter", severities=refusal.severities)
    if refusal.is_too_long:
        return Rejected(f"{what}, the prompt is too long for the model", reason="context_length")
    pause = retry_after(error.response.headers, now, longest=_LONGEST_PAUSE)
    if refusal.is_everybodys:
        code = refusal.code if refusal.code in _UNUSABLE_CODES else None
        return Unusable(f"{what}, {code}" if code else what, retry_after=pause)
    if refusal.status == 429:  # noqa: PLR2004
        return RateLimited(what, retry_after=pause)
    if refusal.status >= 500 or refusal.status in {408, 409, 425}:  # noqa: PLR2004
        return Retryable(what, retry_after=pause)
    return Rejected(what, reason="rejected")


def _details(body: Json) -> Mapping[str, Json]:
    """Return the innermost object that describes the error; a text is its message."""
    while True:
        match body:
            case [first, *_]:
                body = first
            case {"error": (dict() | list()) as inner}:
                body = inner
            case str():
                return {"message": body}
            case dict():
                return body
            case _:
                return {}


def _message(body: Mapping[str, Json]) -> str:
    texts = (body.get(name) for name in ("message", "detail", "error", "msg"))
    for text in texts:
        if isinstance(text, list):
            return "; ".join(map(_complaint, text))
        if isinstance(text, str) and text.strip():
            return text
    return ""


def _complaint(entry: Json) -> str:
    """Return FastAPI's `{"loc": ["body", "seed"], "msg": "extra"}` as `body.seed: extra`."""
    place = _mapping(entry).get("loc")
    names = ".".join(map(_word, place)) if isinstance(place, list) else ""
    return f"{names}: {_word(_mapping(entry).get('msg'))}"


def _word(value: Json) -> str:
    return str(value) if isinstance(value, str | int) else ""


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
