"""A chat completion's body, read with distrust: gateways and small servers leave out or retype what OpenAI promises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from monitor.judging.endpoint.content_filter import severities
from monitor.judging.prompt.schema import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The first choice of a completion, and what it cost."""

    text: str
    finish_reason: str
    refusal: str | None
    model: str
    fingerprint: str | None
    usage: Mapping[str, Json] = field(default_factory=dict)
    """As the endpoint reports it; empty when it does not."""
    reasoning: str = ""
    """What came as reasoning beside the content; it is paid for and never read as the reply."""
    reasoned: bool = False
    """Whether there was reasoning, in any form."""
    severities: Mapping[str, int] = field(default_factory=dict)
    """What the endpoint's content filter found in the reply, by risk, 0 to 7."""
    alternatives: tuple[tuple[str, float], ...] = ()
    """Tokens that the reply could have begun with, and the logarithms of their probabilities."""


def read(body: bytes) -> Completion | None:
    """Return the completion in `body`, or None when it is something else."""
    root = _mapping(_parsed(body))
    choices = root.get("choices")
    choice = _mapping(choices[0]) if isinstance(choices, list) and choices else {}
    message = _mapping(choice.get("message"))
    if not message:
        return None
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    return Completion(
        text=_content(message.get("content")) or _called(message),
        finish_reason=_text(choice.get("finish_reason")) or "stop",
        refusal=_text(message.get("refusal")) or None,
        reasoned=bool(reasoning),
        reasoning=_text(reasoning),
        model=_text(root.get("model")),
        fingerprint=_text(root.get("system_fingerprint")) or None,
        usage=_mapping(root.get("usage")),
        alternatives=_alternatives(choice.get("logprobs")),
        severities=severities(choice.get("content_filter_results")),
    )


def _parsed(body: bytes) -> Json:
    try:
        tree: Json = orjson.loads(body)
    except ValueError:
        try:
            # Half a surrogate pair, as models cut characters: the rest of the reply is as good as any.
            tree = json.loads(body)
        except (ValueError, RecursionError):
            return None
    return tree


def _content(content: Json) -> str:
    """Return the text; some servers send it in parts, reasoning among them."""
    if isinstance(content, list):
        parts = [_mapping(part) for part in content]
        return "".join(_text(part.get("text")) for part in parts if part.get("type", "text") in ("text", "output_text"))
    return _text(content)


def _called(message: dict[str, Json]) -> str:
    """Return the arguments of what the model calls instead of answering: some put a schema to it as a tool."""
    listed = message.get("tool_calls")
    calls = [_mapping(_mapping(call).get("function")) for call in (listed if isinstance(listed, list) else [])]
    arguments = [call.get("arguments") for call in [*calls, _mapping(message.get("function_call"))]]
    return "\n".join(
        json.dumps(each, ensure_ascii=False) if isinstance(each, dict) else _text(each) for each in arguments if each
    )


def _alternatives(logprobs: Json) -> tuple[tuple[str, float], ...]:
    """Return those of the first token that is not blank: the chosen one is among them."""
    content = _mapping(logprobs).get("content")
    for token in map(_mapping, content if isinstance(content, list) else []):
        if not _text(token.get("token")).strip():
            continue
        ranked = token.get("top_logprobs")
        listed = [token, *map(_mapping, ranked if isinstance(ranked, list) else [])]
        logprob_of = {_text(entry.get("token")): entry.get("logprob") for entry in listed}
        return tuple(
            (token, value) for token, value in logprob_of.items() if isinstance(value, float | int) and value <= 0
        )
    return ()


def _mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""
