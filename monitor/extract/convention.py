"""What a dialect file is made of: where a convention keeps plain fields, and the object the file exposes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from monitor.extract import session_and_user
from monitor.extract.attributes import boolean, integer, text, visible_text
from monitor.extract.failure import failure
from monitor.extract.session_and_user import SessionAndUserKeys
from monitor.model.spans import Attributes, Role, Span, Step

_NO_KEYS = SessionAndUserKeys()
_OPERATION = "operation.name"
_STREAMED = re.compile(r"\.(?:do)?stream", re.IGNORECASE)
"""`ai.streamText`, `ai.streamText.doStream shop`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Attribute keys of the fields that need no code, in order of preference."""

    session_id: tuple[str, ...] = ()
    """Keys on the convention's own spans only; read before those that conventions share."""
    user_id: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    """The model that answered."""
    request_model: tuple[str, ...] = ()
    input_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()
    response_id: tuple[str, ...] = ()
    retrieval_query: tuple[str, ...] = ()
    streaming: tuple[str, ...] = ()
    facets: tuple[tuple[str, str], ...] = ()
    """(facet, attribute): properties of few values to slice by."""

    def step(self, span: Span, role: Role, dialect: str) -> Step:
        """Return a step with the plain fields read."""
        attributes = span.attributes
        return Step(
            span=span,
            role=role,
            dialect=dialect,
            session_id=session_and_user.session(attributes, *self.session_id),
            user_id=text(attributes, *self.user_id) or session_and_user.user(attributes),
            model=text(attributes, *self.model),
            request_model=text(attributes, *self.request_model),
            input_tokens=integer(attributes, *self.input_tokens),
            output_tokens=integer(attributes, *self.output_tokens),
            response_id=text(attributes, *self.response_id),
            retrieval_query=visible_text(attributes, *self.retrieval_query),
            streaming=_is_streamed(attributes, self.streaming),
            error=failure(span),
            facets={facet: value for facet, key in self.facets if (value := text(attributes, key)) is not None},
            flags=span.flags | {"truncated"} if span.dropped_attributes else span.flags,
        )


def _is_streamed(attributes: Attributes, keys: tuple[str, ...]) -> bool | None:
    """What the convention's keys say, else the name of an operation, as Vercel's AI SDK gives it to its spans."""
    says = boolean(attributes, *keys)
    return True if says is None and _STREAMED.search(text(attributes, _OPERATION) or "") else says


@dataclass(frozen=True, slots=True, kw_only=True)
class InLanguage:
    """What `Setup` says of content, session and documents, for apps in another language; "" where its words hold."""

    content: str = ""
    session: str = ""
    documents: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What an app's team does so that turns come out whole; docs/dialects.md is checked against it."""

    lines: str
    """What to add to the app or its environment."""
    content: str | None = ""
    """The setting that switches capture of content on; "" where it is on by default, None where none is carried."""
    remark: str = ""
    """What else decides about content."""
    session: str = ""
    """How to say which conversation a turn belongs to."""
    documents: str = ""
    """How documents get into the telemetry."""
    languages: tuple[str, ...] = ()
    """Whose code stands in `session` and `documents`, as `telemetry.sdk.language` names it; () where none does."""
    elsewhere: Mapping[str, InLanguage] = field(default_factory=dict)
    """The same for other languages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetKeys:
    """Attributes that tell how was searched and with which prompt, read on every span, whichever dialect claims it."""

    arguments: tuple[str, ...] = ()
    """What a tool, function or component was called with, as JSON text: a number of documents may stand in it."""
    component: tuple[str, ...] = ()
    """A component's class or name, which may tell how it searches: vectors, keywords, both."""
    reranker: tuple[str, ...] = ()
    """A reranker's model or class."""
    prompt_template: tuple[str, ...] = ()
    """A prompt template's name or text."""
    index_embedding: tuple[str, ...] = ()
    """The model that a collection's vectors were made with; the last part of a key, whatever stands before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptWording:
    """How frameworks that speak this convention put a question into a prompt, beside headings in plain words."""

    tasks: tuple[re.Pattern[str], ...] = ()
    """A message that sets an agent a task; group 1 is the task, to which an app may add the question."""
    question_fields: tuple[re.Pattern[str], ...] = ()
    """A field with the question, group 1, blanks around it aside; of several in a message the last counts."""
    field_marks: tuple[str, ...] = ()
    """What every such field begins with."""
    instructions: tuple[str, ...] = ()
    """Beginnings of a line that ends the question or the documents before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """One telemetry convention as the object `DIALECT` of its file; satisfies `monitor.ports.Dialect`."""

    name: str
    priority: int
    url: str
    versions: str
    """Which releases of the convention and its emitters were seen."""
    setup: Setup = Setup(lines="")
    session_and_user: SessionAndUserKeys = _NO_KEYS
    """Keys that are read on every span, whichever convention describes it; shared ones need no mention."""
    facet_keys: FacetKeys = FacetKeys()
    prompt_wording: PromptWording = PromptWording()
    claims: Callable[[Span], bool]
    role: Callable[[Span], Role]
    read: Callable[[Span], Step]
