"""What an endpoint takes of a chat completion request, learnt from its own refusals and replies.

OpenAI's reasoning models want `max_completion_tokens` and no temperature; older servers know only `max_tokens`; many
know no `json_schema`. A refusal names the parameter; what it names is given up, once, and remembered. Others take the
schema and no notice of it: their replies tell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Format = Literal["json_schema", "json_object", "text"]
TokensParameter = Literal["max_tokens", "max_completion_tokens"]

# Reasoning counts against max_completion_tokens; a budget meant for the verdict would be spent before it is written.
REASONING_HEADROOM = 4096
_FEW = 5
_WEAKER: Mapping[Format, Format | None] = {"json_schema": "json_object", "json_object": "text", "text": None}
# What a refusal may name, and how it may do so; the schema and its modes have many names.
_NAMES = re.compile(
    r"(?<!\w)(?:(?P<parameter>max_tokens|max_completion_tokens|temperature|seed|reasoning_effort|top_logprobs|logprobs)(?!\w)"
    r"|(?P<format>response[_ ]?format|json[_ ]?schema|json[_ ]?object|json mode|structured[_ ]outputs?|guided))",
    re.IGNORECASE,
)
MESSAGE_HEAD = 300
"""Characters of a refusal that are looked at: further on it may quote the prompt."""
_ABOUT_THE_NUMBER = re.compile(r"too (?:large|small|many|high)|at (?:most|least)|less than|greater than|exceed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What is sent to one endpoint and model."""

    format: Format = "json_schema"
    ignores_format: bool = False
    """Whether a reply had not the form that was asked for: from then on the schema stands in the messages as well."""
    tokens: TokensParameter | None = "max_tokens"
    temperature: bool = True
    seed: bool = True
    reasoning_effort: bool | None = None
    """True: ask for none, since a reply was nothing but reasoning; False: the endpoint refuses to be asked."""
    alternatives: int = 20
    """How many alternatives of the first token to ask for; 0 for none."""

    @property
    def in_words(self) -> bool:
        """Whether the schema is to be put into words."""
        return self.format != "json_schema" or self.ignores_format

    def without(self, parameter: str | None, message: str) -> Capabilities | None:  # noqa: PLR0911 -- one a parameter
        """Return what is left after a refusal of `parameter`, or of what `message` names first.

        None when that is nothing we sent, so that sending less would not help.
        """
        match (parameter or "").split(".")[0] or _named(message):
            case ("max_tokens" | "max_completion_tokens") as name if name == self.tokens:
                return self._other_tokens(message)
            case "temperature" if self.temperature:
                return replace(self, temperature=False)
            case "seed" if self.seed:
                return replace(self, seed=False)
            case "reasoning_effort" if self.reasoning_effort:
                return replace(self, reasoning_effort=False)
            case "logprobs" | "top_logprobs" if self.alternatives:
                # Some give five at most, most others none.
                return replace(self, alternatives=_FEW if self.alternatives > _FEW else 0)
            case "response_format" if weaker := _WEAKER[self.format]:
                return replace(self, format=weaker)
        return None

    def _other_tokens(self, message: str) -> Capabilities | None:
        """Return the other spelling, or neither, unless the refusal is about the number and not the name."""
        if _ABOUT_THE_NUMBER.search(message[:MESSAGE_HEAD]):
            return None
        return replace(self, tokens="max_completion_tokens" if self.tokens == "max_tokens" else None)


def schema_in_words(schema: Mapping[str, object]) -> str:
    """Return the instruction that stands in for `response_format` where the endpoint does not know schemas."""
    return (
        "Return only one JSON object, without code fences or any other text, that fits this JSON schema:\n"
        f"{json.dumps(schema.get('schema'), ensure_ascii=False)}"
    )


def has_form(text: str, schema: Mapping[str, object]) -> bool:
    """Return whether a reply holds an object with the keys of `schema`, as one that keeps to `response_format` does.

    >>> schema = {"schema": {"required": ["score"]}}
    >>> has_form('{"score": 9}', schema), has_form("Score: 9", schema), has_form('{"grade": 9}', schema)
    (True, False, False)
    """
    try:
        tree, _ = json.JSONDecoder().raw_decode(text, max(text.rfind("\n{"), text.find("{"), 0))
    except (ValueError, RecursionError):
        return False
    root = schema.get("schema")
    required = root.get("required") if isinstance(root, dict) else None
    return isinstance(tree, dict) and set(required or ()) <= tree.keys()


def _named(message: str) -> str:
    match = _NAMES.search(message[:MESSAGE_HEAD])
    if match is None:
        return ""
    return "response_format" if match["format"] else match["parameter"].lower()
