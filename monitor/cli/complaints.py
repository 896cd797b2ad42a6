"""What is missing in an app's telemetry, and what its team does about it, in the language that the app is written in.

Advice that was followed is not given again: what other turns of the same dialect have is switched on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from monitor.assembly.links import NOT_FOLLOWED
from monitor.assembly.prompt_question import flat, templated
from monitor.assembly.text_limits import TEXT_LIMIT
from monitor.display.alert_text import one_line
from monitor.extract.convention import Setup
from monitor.extract.printed import has_printed_fields
from monitor.model.names import NAME_LIMIT
from monitor.model.turns import Message, Turn

UNKNOWN_APP = "unknown_service"
FALLBACK = "generic"
"""The dialect that guesses by common names of attributes."""
_SCOPES_SHOWN = 3
_CUT = frozenset(("truncated", "input_truncated"))
_HIDDEN = "unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and their like"
_ROOTS = "export from every service of the trace, end spans that fail, and sample at the root"
OWN_FIELDS = 'in assemble.fields (docs/dialects.md, "Attributes of your own")'
_FALLBACK = (
    f"look at one with `rag-monitor explain`; where a field is wrong or missing, name your attribute {OWN_FIELDS}"
)
_LOOK = "other turns have one, so it is switched on; look at one without it with `rag-monitor explain`"
_NOT_ALWAYS = "other turns have some; in these nothing was retrieved, or by something that is not instrumented"
_NAMES = (
    "send fewer names of apps, environments and releases, each of up to 200 characters that can be seen, or raise "
    "assemble.names; what was sent is in sent_names of `rag-monitor turns --format jsonl`"
)
_SOME_SPANS = "other turns have one; say it around these too"
_MARKED = (
    "begin each document of the block with a label such as [kb-1] or manual.pdf:, or put a span around the retrieval"
)
_WHOLE_PROMPT = (
    "record the question by itself on the span around the turn, or write `Question:` before it in the prompt, "
    "behind the documents"
)
_SETTERS = {
    "python": 'trace.get_current_span().set_attribute("session.id", session_id)',
    "nodejs": 'trace.getActiveSpan()?.setAttribute("session.id", sessionId)',
    "webjs": 'trace.getActiveSpan()?.setAttribute("session.id", sessionId)',
    "java": 'Span.current().setAttribute("session.id", sessionId)',
    "dotnet": 'Activity.Current?.SetTag("session.id", sessionId)',
    "go": 'trace.SpanFromContext(ctx).SetAttributes(attribute.String("session.id", sessionID))',
    "ruby": 'OpenTelemetry::Trace.current_span.set_attribute("session.id", session_id)',
    "php": "Span::getCurrent()->setAttribute('session.id', $sessionId)",
}
"""How OpenTelemetry's API sets an attribute, by `telemetry.sdk.language`."""
_TEXTS = {
    "java": "return the text from the method that is traced (of LangChain4j's Result its content()), not the object",
    "nodejs": "record the text, or JSON.stringify(value), not the object",
    "dotnet": "record the text, or JsonSerializer.Serialize(value), not the object",
}
_TEXT = "record the text, or JSON, not the object that holds it"
_TOO_MUCH = "record each text once in a trace, whole JSON, and no answer or document beyond a million characters"
_PARAGRAPHS, _LONG_QUESTION = 2, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Something that is missing in an app's telemetry."""

    what: str
    count: int
    of: int
    """Of how many turns or spans."""
    fix: str


@dataclass(slots=True)
class Arrived:
    """What arrived of one app; filled span by span."""

    spans: Counter[str] = field(default_factory=Counter)
    """By dialect; "" for spans that no dialect reads."""
    unread_scopes: Counter[str] = field(default_factory=Counter)
    languages: Counter[str] = field(default_factory=Counter)
    logs: int = 0
    cut: int = 0
    """Spans of which the SDK dropped attributes."""
    attribute_limit: int = 0
    """How many attributes such spans were left with."""
    printed: int = 0
    """Spans with the name of an object where a text should be."""
    turns: list[Turn] = field(default_factory=list)
    begun_in: dict[str, str] = field(default_factory=dict)
    """By trace: the app where a request began that a worker answers; "" for one in another trace."""
    traces: set[str] = field(default_factory=set)
    """In which spans of the app stand."""
    is_answered_elsewhere: bool = False
    """Another app answered in one of them, or in a trace that links to one."""
    conventional: set[str] = field(default_factory=set)
    """Traces in which a convention, and not the fallback alone, says what was asked or answered."""
    unread: Counter[str] = field(default_factory=Counter)

    @property
    def language(self) -> str | None:
        """What most spans say of their SDK."""
        return next((language for language, _ in self.languages.most_common(1)), None)


_Advice: TypeAlias = Callable[[Mapping[str, Setup]], str]


@dataclass(frozen=True, slots=True)
class _Check:
    what: str
    of: Sequence[Turn]
    is_wrong: Callable[[Turn], bool]
    fix: str | _Advice
    once_followed: str = ""
    """What to say where other turns of the same dialect are right; "" where that makes no difference."""


def complaints(
    app: str, arrived: Arrived, telling: Sequence[str], setups: Mapping[str, Setup]
) -> tuple[Complaint, ...]:
    """Return what is missing; `telling` are the dialects that say how the app is instrumented, `setups` theirs."""
    return (*_of_turns(arrived, setups), *_of_spans(app, arrived, telling))


def _of_turns(arrived: Arrived, setups: Mapping[str, Setup]) -> Iterator[Complaint]:
    for check in (*_missing(arrived), *_odd(arrived)):
        wrong = [turn for turn in check.of if check.is_wrong(turn)]
        if not wrong:
            continue
        lacking = dict.fromkeys(turn.dialect for turn in wrong)
        if check.once_followed:
            right = {turn.dialect for turn in check.of if not check.is_wrong(turn)}
            lacking = {name: None for name in lacking if name not in right}
        if not lacking or isinstance(check.fix, str):
            fix = check.fix if lacking and isinstance(check.fix, str) else check.once_followed
        else:
            fix = check.fix({name: setups[name] for name in lacking if name in setups} or setups)
        yield Complaint(what=check.what, count=len(wrong), of=len(check.of), fix=fix)


def _missing(arrived: Arrived) -> tuple[_Check, ...]:
    turns, language = arrived.turns, arrived.language
    without_error = [turn for turn in turns if turn.error is None]
    cited = [turn for turn in turns if turn.citations]

    def content(setups: Mapping[str, Setup]) -> str:
        return _content(setups, language)

    def documents(setups: Mapping[str, Setup]) -> str:
        return _documents(setups, language)

    def session(setups: Mapping[str, Setup]) -> str:
        return _session(setups, language)

    return (
        _Check("no question captured", turns, lambda t: t.query is None, content, _LOOK),
        _Check("no answer captured", without_error, lambda t: t.response is None, content, _LOOK),
        _Check("no documents captured", turns, lambda t: t.citations is None, documents, _NOT_ALWAYS),
        _Check("documents without text", cited, lambda t: not any(c.content for c in t.citations or ()), documents),
        _Check("no session", turns, lambda t: t.session_id is None, session, _SOME_SPANS),
    )


def _odd(arrived: Arrived) -> tuple[_Check, ...]:
    turns, setter = arrived.turns, _SETTERS.get(arrived.language or "")
    cited = [turn for turn in turns if turn.citations]

    def is_guessed(turn: Turn) -> bool:
        return turn.dialect == FALLBACK and turn.trace_id not in arrived.conventional

    link = "export the service that set the turn off too, or set session.id and user.id on the worker's own span"
    return (
        _Check("question is the whole prompt", turns, _is_whole_prompt, _WHOLE_PROMPT),
        _Check("text is a printed object", turns, _is_printed, _TEXTS.get(arrived.language or "", _TEXT)),
        _Check("documents that may be several in one", cited, _is_merged, _MARKED),
        _Check("link not followed", turns, lambda t: NOT_FOLLOWED in t.flags, link + (f": {setter}" if setter else "")),
        _Check("filed under a worker", turns, lambda t: t.trace_id in arrived.begun_in, _begun_in(arrived)),
        _Check("cut or dropped values", turns, lambda t: bool(t.flags & _CUT), _limits(arrived)),
        _Check("text left out", turns, lambda t: TEXT_LIMIT in t.flags, _TOO_MUCH),
        _Check("redacted content", turns, lambda t: "redacted" in t.flags, _HIDDEN),
        _Check("root span missing", turns, lambda t: "root_missing" in t.flags, _ROOTS),
        _Check("read by the fallback only", turns, is_guessed, _FALLBACK),
        _Check("filed under another name", turns, lambda t: NAME_LIMIT in t.flags, _NAMES),
        _Check("no release", turns, lambda t: not t.release, "set the resource attribute service.version"),
    )


def _of_spans(app: str, arrived: Arrived, telling: Sequence[str]) -> Iterator[Complaint]:
    span_count = arrived.spans.total()
    # OpenTelemetry's SDKs add the program's name: unknown_service:node.
    if app.partition(":")[0] == UNKNOWN_APP:
        yield Complaint(what="no app", count=span_count, of=span_count, fix="set OTEL_SERVICE_NAME")
    if arrived.cut:
        yield Complaint(what="spans with dropped attributes", count=arrived.cut, of=span_count, fix=_limits(arrived))
    if arrived.printed:
        fix = _TEXTS.get(arrived.language or "", _TEXT)
        yield Complaint(what="spans with an object's name for a text", count=arrived.printed, of=span_count, fix=fix)
    if span_count and not telling and not arrived.turns and not arrived.is_answered_elsewhere:
        scopes = ", ".join(one_line(scope) for scope, _ in arrived.unread_scopes.most_common(_SCOPES_SHOWN))
        fix = f"no instrumentation of models or retrieval is known{f' (scopes: {scopes})' if scopes else ''}; add one"
        fix = f"{fix}, or name attributes of your own {OWN_FIELDS}"
        yield Complaint(what="spans that say nothing of turns", count=span_count, of=span_count, fix=fix)


def _limits(arrived: Arrived) -> str:
    if arrived.cut:
        limit = arrived.attribute_limit
        return f"raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT above {limit}: the SDK dropped attributes, the first ones first"
    return "unset OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT and OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"


def _begun_in(arrived: Arrived) -> str:
    apps = ", ".join(sorted({one_line(app) for app in arrived.begun_in.values() if app})) or "another service"
    return f"their requests began in {apps}; where that is the app you mean, give both one OTEL_SERVICE_NAME"


def _is_printed(turn: Turn) -> bool:
    return any(has_printed_fields(text) for text in (turn.query, turn.response) if text)


def _is_merged(turn: Turn) -> bool:
    """One document that nothing is known of but its text, which is several paragraphs."""
    only = turn.citations[0] if turn.citations and len(turn.citations) == 1 else None
    if only is None or only.content is None or only.id or only.title or only.source:
        return False
    return len([part for part in only.content.split("\n\n") if part.strip()]) >= _PARAGRAPHS


def _is_whole_prompt(turn: Turn) -> bool:
    """A question of several lines in which documents stand, or which speaks of them."""
    query = turn.query or ""
    if "\n" not in query.strip():
        return False
    whole = flat(query)
    if any(citation.content and flat(citation.content) in whole for citation in turn.citations or ()):
        return True
    return len(query) >= _LONG_QUESTION and templated([Message(role="user", content=query)])


def _content(setups: Mapping[str, Setup], language: str | None) -> str:
    """The switch of each dialect that has one; where content is on by default, what may take it away."""
    switched = {name: setup for name, setup in setups.items() if setup.content}
    advice = [f"{name}: set {_switch(setup, language)}" for name, setup in switched.items()]
    advice = advice or [f"{name}: {setup.remark}" for name, setup in setups.items() if setup.remark]
    return "; ".join(advice) or "put question and answer on the span around the turn (docs/dialects.md)"


def _switch(setup: Setup, language: str | None) -> str:
    own = setup.elsewhere.get(language or "")
    if own is not None and own.content:
        return own.content
    return f"{setup.content} ({setup.remark})" if setup.remark else setup.content or ""


def _documents(setups: Mapping[str, Setup], language: str | None) -> str:
    advice = []
    for name, setup in setups.items():
        own = setup.elsewhere.get(language or "")
        documents = (own.documents if own else "") or (setup.documents if _is_for(setup, language) else "")
        if documents:
            advice.append(f"{name}: {documents}")
    return "; ".join(advice) or "put a span around the retrieval (docs/dialects.md)"


def _session(setups: Mapping[str, Setup], language: str | None) -> str:
    setter = _SETTERS.get(language or "")
    by_hand = "set session.id (or gen_ai.conversation.id) on the span around a turn" + (f": {setter}" if setter else "")
    advice = []
    for name, setup in setups.items():
        own = setup.elsewhere.get(language or "")
        session = (own.session if own else "") or (setup.session if _is_for(setup, language) else "")
        if session and not setup.languages and "session.id" in session and setter:
            session = f"{session}: {setter}"
        advice.append(f"{name}: {session or by_hand}")
    return "; ".join(advice) or by_hand


def _is_for(setup: Setup, language: str | None) -> bool:
    """Whether a dialect's own words hold for an app of this language."""
    return language is None or not setup.languages or language in (*setup.languages, *setup.elsewhere)
