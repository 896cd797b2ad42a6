"""`rag-monitor doctor`: what arrived lately, app by app, what is missing in it, and the setting that fixes it.

Counts only: nothing that a user wrote is shown.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeAlias

import click

from monitor.cli.options import CONFIG, STORE, examples, moment, open_store_of, settings_of
from monitor.cli.output import quiet_pipe
from monitor.display.alert_text import one_line
from monitor.errors import PluginFailed
from monitor.extract.attributes import text
from monitor.extract.convention import Convention, Setup
from monitor.model.spans import Span, instant
from monitor.model.turns import Turn
from monitor.payloads.otlp.fragments import decode_otlp
from monitor.ports import Dialect
from monitor.runtime.build import load_dialects
from monitor.runtime.isolation import PluginFailures
from monitor.store.columns import label
from monitor.stores import Assembled, SpanStore, TurnStore

_TRACES_A_READ = 50
_SCOPES_SHOWN = 3
_BESIDE = frozenset(("transport", "generic"))
"""Dialects that say nothing of how an app is instrumented."""
_UNKNOWN = "unknown_service"
_CUT = frozenset(("truncated", "input_truncated"))
_LIMITS = "unset OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT; raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT above 128"
_HIDDEN = "unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and their like"
_ROOTS = "export from every service of the trace, end spans that fail, and sample at the root"
_FIELDS = 'in assemble.fields (docs/dialects.md, "Attributes of your own")'
_FALLBACK = f"look at one with `rag-monitor explain`; where a field is wrong or missing, name your attribute {_FIELDS}"
_UNREAD = {
    "no_dialect": f"no dialect reads these spans; if they hold questions or answers, name their attributes {_FIELDS}",
    "orphan_log": "log records came without their spans: export traces beside logs, and sample neither",
    "over_limit": "traces have more spans than assemble.max_spans",
    "internal": "traces could not be assembled for a fault of the monitor; its log names it",
    "dialect_failed": "this dialect of another distribution failed; the log names the place, its authors can mend it",
    "no_turn": "chains without a question or an answer; put both on the span around the turn",
    "embedding_only": "embeddings without an answer; expected when documents are indexed",
    "ingestion": "documents being indexed; expected",
    "tool_only": "tool calls without a model call around them",
    "tool_call_only": "model calls that only chose tools; their turn is elsewhere or never came",
    "duplicate": "calls that another instrumentation describes too; expected",
    "evaluation": "judging of other steps; expected",
    "own_judge": "calls of the monitor's own judge, seen through a gateway; expected, they are never judged",
    "excluded_app": "left out by assemble.exclude.apps",
    "excluded_scope": "left out by assemble.exclude.scopes",
    "excluded_model": "left out by assemble.exclude.models",
    "excluded_route": "left out by assemble.exclude.routes",
}
_EXPECTED = frozenset(("transport", "noise", "ingestion", "embedding_only", "duplicate", "evaluation"))


_Fix: TypeAlias = Callable[[Mapping[str, Setup]], str]


class Records(SpanStore, TurnStore, Protocol):
    """What the doctor reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """Something that is missing in an app's telemetry."""

    what: str
    count: int
    of: int
    """Of how many turns or spans."""
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What arrived of one app."""

    app: str
    spans: Mapping[str, int]
    """By dialect, the most first; "" for spans that no dialect reads."""
    logs: int
    turns: int
    complaints: tuple[Complaint, ...]
    unread: Mapping[str, int]
    """Spans and log records that belong to no turn, by reason, without those that are expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What arrived lately."""

    apps: tuple[Diagnosis, ...]
    """By name."""
    latest: int | None
    """How many traces were looked at, if there are more; None when all were."""


@dataclass(slots=True)
class _Arrived:
    spans: Counter[str] = field(default_factory=Counter)
    unread_scopes: Counter[str] = field(default_factory=Counter)
    logs: int = 0
    cut: int = 0
    turns: list[Turn] = field(default_factory=list)
    unread: Counter[str] = field(default_factory=Counter)


def diagnose(store: Records, dialects: Sequence[Dialect], *, since: datetime, limit: int) -> Examination:
    """Return a diagnosis for each app of the `limit` traces assembled last, none earlier than `since`."""
    assembled = store.assembled(since=since, limit=limit + 1)
    recent = assembled[:limit]
    ordered = sorted(dialects, key=lambda dialect: (dialect.priority, dialect.name))
    arrived: defaultdict[str, _Arrived] = defaultdict(_Arrived)
    began: datetime | None = None
    for trace, spans, logs in _records(store, recent):
        apps = Counter(_app(span) for span in spans)
        for span in spans:
            _note(arrived[_app(span)], span, ordered)
        if spans:
            first = instant(min(span.start_ns for span in spans))
            began = first if began is None else min(began, first)
        main = apps.most_common(1)[0][0] if apps else _UNKNOWN
        if logs or trace.unread:
            arrived[main].logs += logs
            arrived[main].unread.update(trace.unread)
    if began is not None:
        ids = {trace.trace_id for trace in recent}
        for turn in store.turns(since=began):
            if turn.trace_id in ids:
                arrived[turn.app].turns.append(turn)
    return Examination(
        apps=tuple(_diagnosis(app, what, ordered) for app, what in sorted(arrived.items())),
        latest=limit if len(assembled) > limit else None,
    )


def lines(examination: Examination) -> Iterator[str]:
    """Yield what a person should read."""
    if examination.latest is not None:
        yield f"looked at the latest {examination.latest} traces; --limit for more"
    if not examination.apps:
        yield "nothing arrived; point an exporter here (docs/dialects.md) or look further back with --since"
    for diagnosis in examination.apps:
        dialects = ", ".join(f"{name or 'unknown'} {count}" for name, count in diagnosis.spans.items())
        turns, logs = diagnosis.turns, diagnosis.logs
        yield f"{one_line(diagnosis.app)}: {turns} turns; spans: {dialects or 'none'}; log records: {logs}"
        for complaint in diagnosis.complaints:
            yield f"  {complaint.what}: {complaint.count} of {complaint.of}"
            yield f"    -> {complaint.fix}"
        for reason, count in diagnosis.unread.items():
            yield f"  not read ({reason}): {count}"
            if fix := _UNREAD.get(reason.partition(":")[0]):
                yield f"    -> {fix}"
        if not diagnosis.complaints and not diagnosis.unread:
            yield "  nothing is missing"


def _records(store: Records, recent: Sequence[Assembled]) -> Iterator[tuple[Assembled, tuple[Span, ...], int]]:
    """The spans of each trace, each once, and the number of its log records."""
    for at in range(0, len(recent), _TRACES_A_READ):
        part = recent[at : at + _TRACES_A_READ]
        fragments = store.fragments([trace.trace_id for trace in part])
        for trace in part:
            own = [stored.fragment for stored in fragments.get(trace.trace_id, ())]
            decoded = [decode_otlp(fragment) for fragment in own if fragment.signal != "turns"]
            spans = {span.span_id: span for content in decoded for span in content.spans}
            yield trace, tuple(spans.values()), sum(len(content.logs) for content in decoded)


def _note(arrived: _Arrived, span: Span, dialects: Sequence[Dialect]) -> None:
    dialect = _reader_of(span, dialects)
    arrived.spans[dialect] += 1
    arrived.cut += span.dropped_attributes > 0
    if not dialect:
        arrived.unread_scopes[span.scope or "no scope"] += 1


def _reader_of(span: Span, dialects: Sequence[Dialect]) -> str:
    """Return the name of the dialect that reads the span, "" for none; one that fails keeps the others from it."""
    for dialect in dialects:
        try:
            if dialect.claims(span):
                return dialect.name
        except PluginFailed:
            return dialect.name
    return ""


def _app(span: Span) -> str:
    # As turns carry it, which the store has cut: one app is not to be told as two.
    return label(text(span.resource, "service.name") or _UNKNOWN)


def _diagnosis(app: str, arrived: _Arrived, dialects: Sequence[Dialect]) -> Diagnosis:
    telling = [name for name, _ in arrived.spans.most_common() if name and name not in _BESIDE]
    setups = {d.name: d.setup for d in dialects if d.name in telling and isinstance(d, Convention)}
    return Diagnosis(
        app=app,
        spans=dict(arrived.spans.most_common()),
        logs=arrived.logs,
        turns=len(arrived.turns),
        complaints=(*_of_turns(arrived.turns, setups), *_of_spans(app, arrived, telling)),
        unread={reason: count for reason, count in arrived.unread.most_common() if reason not in _EXPECTED},
    )


def _of_turns(turns: Sequence[Turn], setups: Mapping[str, Setup]) -> Iterator[Complaint]:
    without_error = [turn for turn in turns if turn.error is None]
    cited = [turn for turn in turns if turn.citations]
    checks: tuple[tuple[str, Sequence[Turn], Callable[[Turn], bool], str | _Fix], ...] = (
        ("no question captured", turns, lambda t: t.query is None, _content),
        ("no answer captured", without_error, lambda t: t.response is None, _content),
        ("no documents captured", turns, lambda t: t.citations is None, _documents),
        ("documents without text", cited, lambda t: not any(c.content for c in t.citations or ()), _documents),
        ("no session", turns, lambda t: t.session_id is None, _session),
        ("cut or dropped values", turns, lambda t: bool(t.flags & _CUT), _LIMITS),
        ("redacted content", turns, lambda t: "redacted" in t.flags, _HIDDEN),
        ("root span missing", turns, lambda t: "root_missing" in t.flags, _ROOTS),
        ("read by the fallback only", turns, lambda t: t.dialect == "generic", _FALLBACK),
        ("no release", turns, lambda t: not t.release, "set the resource attribute service.version"),
    )
    for what, of, wrong, fix in checks:
        affected = [turn for turn in of if wrong(turn)]
        if affected:
            of_these = {name: setups[name] for name in dict.fromkeys(t.dialect for t in affected) if name in setups}
            advice = fix if isinstance(fix, str) else fix(of_these or setups)
            yield Complaint(what=what, count=len(affected), of=len(of), fix=advice)


def _of_spans(app: str, arrived: _Arrived, telling: Sequence[str]) -> Iterator[Complaint]:
    span_count = arrived.spans.total()
    if app == _UNKNOWN:
        yield Complaint(what="no app", count=span_count, of=span_count, fix="set OTEL_SERVICE_NAME")
    if arrived.cut:
        fix = "raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT: the SDK dropped attributes, the first ones first"
        yield Complaint(what="spans with dropped attributes", count=arrived.cut, of=span_count, fix=fix)
    if span_count and not telling:
        scopes = ", ".join(one_line(scope) for scope, _ in arrived.unread_scopes.most_common(_SCOPES_SHOWN))
        fix = f"no instrumentation of models or retrieval is known{f' (scopes: {scopes})' if scopes else ''}; add one"
        fix = f"{fix}, or name attributes of your own {_FIELDS}"
        yield Complaint(what="spans that say nothing of turns", count=span_count, of=span_count, fix=fix)


def _content(setups: Mapping[str, Setup]) -> str:
    """The switch of each dialect that has one; where content is on by default, what may take it away."""
    switched = {name: setup for name, setup in setups.items() if setup.content}
    advice = [f"{name}: set {s.content}" + (f" ({s.remark})" if s.remark else "") for name, s in switched.items()]
    advice = advice or [f"{name}: {setup.remark}" for name, setup in setups.items() if setup.remark]
    return "; ".join(advice) or "put question and answer on the span around the turn (docs/dialects.md)"


def _documents(setups: Mapping[str, Setup]) -> str:
    advice = [f"{name}: {setup.documents}" for name, setup in setups.items() if setup.documents]
    return "; ".join(advice) or "put a span around the retrieval (docs/dialects.md)"


def _session(setups: Mapping[str, Setup]) -> str:
    advice = [f"{name}: {setup.session}" for name, setup in setups.items() if setup.session]
    return "; ".join(advice) or "set session.id (or gen_ai.conversation.id) on the span around a turn"


@click.command(epilog=examples("rag-monitor doctor", "rag-monitor doctor --since 2h"))
@CONFIG
@STORE
@click.option("--since", metavar="WHEN", default="15m", show_default=True, help="A time or an age.")
@click.option("--limit", type=click.IntRange(min=1), default=500, show_default=True, help="At most so many traces.")
def doctor(config: Path | None, store_url: str | None, since: str, limit: int) -> None:
    """Say what arrived lately, app by app, what is missing in it, and the setting of the app that fixes it."""
    dialects = load_dialects(settings_of(config, store_url), PluginFailures())
    with open_store_of(config, store_url) as store, quiet_pipe():
        for line in lines(diagnose(store, dialects, since=moment(since), limit=limit)):
            click.echo(line)
