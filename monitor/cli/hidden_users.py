"""User ids as the app sent them stand in stored spans; here they give way to the pseudonym that the turn carries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from monitor.extract import session_and_user
from monitor.extract.attributes import is_mapping, is_sequence
from monitor.extract.json_text import parse
from monitor.model.spans import Attributes, AttributeValue, Span

_LONG = 8
"""Characters from which on an id is taken out of longer texts too; a shorter one may stand in them by chance."""


def without_users(spans: Sequence[Span], *, pseudonym: Callable[[str], str], user_id: str | None) -> tuple[Span, ...]:
    """Return the spans with each user's id replaced by `user:<pseudonym>`, wherever it stands in their attributes.

    An id is what a known key holds, and whatever has the pseudonym `user_id`, under any key and inside JSON.
    """
    ids = user_ids(spans, pseudonym=pseudonym, user_id=user_id)
    # The longest first: one may be a part of another.
    names = {value: f"user:{pseudonym(value)}" for value in sorted(ids, key=len, reverse=True)}
    return tuple(_hidden(span, names) for span in spans) if names else tuple(spans)


def user_ids(spans: Sequence[Span], *, pseudonym: Callable[[str], str], user_id: str | None) -> frozenset[str]:
    """Return the users' ids as the app sent them: what a known key holds, and whatever has the pseudonym `user_id`."""
    ids = {value for span in spans if (value := session_and_user.user(span.attributes)) is not None}
    if user_id is not None:
        ids |= {value for span in spans for value in texts(span) if pseudonym(value) == user_id}
    return frozenset(ids)


def texts(span: Span) -> Iterator[str]:
    """Yield every text and number of the span's attributes and events, also from inside JSON."""
    for attributes in (span.attributes, span.resource, *(event.attributes for event in span.events)):
        yield from leaves(attributes)
    yield from (text for event in span.events for text in leaves(event.body))


def leaves(value: AttributeValue) -> Iterator[str]:
    """Yield every text and number in a value, also from inside JSON."""
    if isinstance(value, str):
        yield value
        if value.lstrip()[:1] in {"{", "["}:
            read = parse(value)
            yield from leaves(read.value if read else None)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif is_mapping(value):
        for inner in value.values():
            yield from leaves(inner)
    elif is_sequence(value):
        for inner in value:
            yield from leaves(inner)


def _hidden(span: Span, names: Mapping[str, str]) -> Span:
    events = tuple(
        replace(event, attributes=_attributes(event.attributes, names), body=_value(event.body, names))
        for event in span.events
    )
    resource = _attributes(span.resource, names)
    return replace(span, attributes=_attributes(span.attributes, names), resource=resource, events=events)


def _attributes(attributes: Attributes, names: Mapping[str, str]) -> Attributes:
    return {
        key: names.get(str(value), value) if _is_number_of_a_user(key, value) else _value(value, names)
        for key, value in attributes.items()
    }


def _is_number_of_a_user(key: str, value: AttributeValue) -> bool:
    """Return whether a number may be an id; under other keys the same number means something else."""
    return isinstance(value, int | float) and "user" in key.lower()


def _value(value: AttributeValue, names: Mapping[str, str]) -> AttributeValue:
    if isinstance(value, str):
        return names.get(value) or _text(value, names)
    if is_mapping(value):
        return _attributes(value, names)
    if is_sequence(value):
        return tuple(_value(inner, names) for inner in value)
    return value


def _text(text: str, names: Mapping[str, str]) -> str:
    for user, name in names.items():
        text = text.replace(user, name) if len(user) >= _LONG else text.replace(f'"{user}"', f'"{name}"')
    return text
