"""Fields that the settings name: where an app of one's own keeps what no convention knows.

A place is an attribute, `shop.question`, or what its JSON holds at a path, `input.value#question.text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from monitor.extract.attributes import is_mapping, is_sequence, visible_text
from monitor.extract.documents import documents
from monitor.extract.json_text import unwrap
from monitor.model.spans import Attributes, AttributeValue, Decoded, Role, Span, Step
from monitor.ports import Dialect

NAME = "configured"
"""Dialect of spans that say what the settings name, and that no convention claims."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where one field may stand, the likeliest first."""

    keys: tuple[tuple[str, tuple[str, ...]], ...]
    """Attribute, and the path into its JSON."""

    def value(self, attributes: Attributes) -> AttributeValue | None:
        """Return what the first place that holds something holds."""
        for key, path in self.keys:
            value = attributes.get(key)
            for part in path:
                value = _inner(unwrap(value), part)
            if value is not None and value not in ("", ()):
                return value
        return None

    def text(self, attributes: Attributes) -> str | None:
        """Return it as text; structured values as JSON."""
        value = self.value(attributes)
        return None if value is None else visible_text({"": value}, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The places of each field that can be named."""

    query: Places
    response: Places
    documents: Places
    session_id: Places
    user_id: Places

    def identified(self, decoded: Decoded) -> Decoded:
        """Return the spans with the named session and user ids under their standard names."""
        if not (self.session_id.keys or self.user_id.keys):
            return decoded
        return replace(decoded, spans=tuple(map(self._identified, decoded.spans)))

    def _identified(self, span: Span) -> Span:
        ids = {
            "session.id": self.session_id.text(span.attributes),
            "user.id": self.user_id.text(span.attributes),
        }
        known = {key: text for key, text in ids.items() if text is not None}
        return replace(span, attributes={**span.attributes, **known}) if known else span


def places(names: Sequence[str]) -> Places:
    """Return the places that settings name.

    >>> places(["input.value#question.0"])
    Places(keys=(('input.value', ('question', '0')),))
    """
    split = (name.partition("#") for name in names)
    return Places(tuple((key, tuple(path.split(".")) if path else ()) for key, _, path in split))


class NamedDialect:
    """Reads the named fields of a span, and all else as the convention does that describes it."""

    name = NAME
    priority = -1

    def __init__(self, fields: Fields, dialects: Sequence[Dialect]) -> None:
        self._fields = fields
        self._dialects = sorted(dialects, key=lambda dialect: (dialect.priority, dialect.name))

    def claims(self, span: Span) -> bool:
        """Return whether the span holds query, response or documents where the settings say."""
        fields = (self._fields.query, self._fields.response, self._fields.documents)
        return any(field.value(span.attributes) is not None for field in fields)

    def role(self, span: Span) -> Role:
        """Return the role that its convention gives; of a span without a content of its own one that fits."""
        inner = self._convention(span)
        role = inner.role(span) if inner else Role.NOISE
        if role not in (Role.NOISE, Role.TRANSPORT):
            return role
        conversation = (self._fields.query, self._fields.response)
        return Role.CHAIN if any(field.value(span.attributes) is not None for field in conversation) else Role.RETRIEVAL

    def read(self, span: Span) -> Step:
        """Return the step with what the settings name in place of what the convention found."""
        inner, role = self._convention(span), self.role(span)
        step = inner.read(span) if inner else Step(span=span, role=role, dialect=NAME)
        if step.role in (Role.NOISE, Role.TRANSPORT):
            step = replace(step, role=role)
        query, response = (field.text(span.attributes) for field in (self._fields.query, self._fields.response))
        if query is not None:
            step = replace(step, query=query, unsure=step.unsure - {"query"})
        if response is not None:
            step = replace(step, response=response, unsure=step.unsure - {"response"})
            step = replace(step, output=response) if role is Role.LLM else step
        raw = self._fields.documents.value(span.attributes)
        named = documents(raw, trusted=True) if raw is not None else None
        return step if named is None else replace(step, documents=named.citations)

    def _convention(self, span: Span) -> Dialect | None:
        return next((dialect for dialect in self._dialects if dialect.claims(span)), None)


def _inner(value: AttributeValue, part: str) -> AttributeValue | None:
    if is_mapping(value):
        return value.get(part)
    if is_sequence(value) and part.isdecimal() and int(part) < len(value):
        return value[int(part)]
    return None
