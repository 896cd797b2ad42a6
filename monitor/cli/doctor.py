"""`rag-monitor doctor`: what arrived lately, app by app, what is missing in it, and the setting that fixes it.

Counts only: nothing that a user wrote is shown.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

import click

from monitor.cli.complaints import FALLBACK, OWN_FIELDS, UNKNOWN_APP, Arrived, Complaint, complaints
from monitor.cli.options import CONFIG, STORE, examples, moment, open_store_of, settings_of
from monitor.cli.output import quiet_pipe
from monitor.display.alert_text import one_line
from monitor.errors import PluginFailed
from monitor.extract.attributes import text
from monitor.extract.convention import Convention
from monitor.extract.printed import is_name_only
from monitor.model.spans import Span, instant
from monitor.model.stored import Assembled
from monitor.payloads.otlp.fragments import decode_otlp
from monitor.ports import Dialect
from monitor.runtime.build import load_dialects
from monitor.runtime.isolation import PluginFailures
from monitor.store.columns import label
from monitor.stores import SpanStore, TurnStore

_TRACES_A_READ = 50
_BESIDE = frozenset(("transport", "generic"))
"""Dialects that say nothing of how an app is instrumented."""
_TEXT_KEY = re.compile(r"(?:input|output|result|response|answer|completion|content|value)s?\Z", re.IGNORECASE)
"""How keys end under which instrumentations record what somebody said."""
_CONSUMER = 5
_UNREAD = {
    "no_dialect": f"no dialect reads these spans; if they hold questions or answers, name their keys {OWN_FIELDS}",
    "orphan_log": "log records came without their spans: export traces beside logs, and sample neither",
    "over_limit": "traces have more spans than assemble.max_spans, or more bytes than assemble.max_bytes",
    "internal": "traces could not be assembled for a fault of the monitor; its log names it",
    "dialect_failed": "this dialect of another distribution failed; the log names the place, its authors can mend it",
    "no_turn": "chains without a question or an answer; put both on the span around the turn",
    "embedding_only": "embeddings without an answer; expected when documents are indexed",
    "ingestion": "documents being indexed; expected",
    "tool_only": "tool calls without a model call around them",
    "tool_call_only": "model calls that only chose tools; their turn is elsewhere or never came",
    "rewrite_only": "model calls that only reworded a question; expected, their turn is in another trace",
    "duplicate": "calls that another instrumentation describes too; expected",
    "evaluation": "judging of other steps; expected",
    "own_judge": "calls of the monitor's own judge, seen through a gateway; expected, they are never judged",
    "excluded_app": "left out by assemble.exclude.apps",
    "excluded_scope": "left out by assemble.exclude.scopes",
    "excluded_model": "left out by assemble.exclude.models",
    "excluded_route": "left out by assemble.exclude.routes",
}
_EXPECTED = frozenset(("transport", "noise", "ingestion", "embedding_only", "duplicate", "evaluation", "rewrite_only"))


class Records(SpanStore, TurnStore, Protocol):
    """What the doctor reads."""


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
    set_aside: tuple[str, ...] = ()
    """Traces that processes died with, whenever they came."""


def diagnose(store: Records, dialects: Sequence[Dialect], *, since: datetime, limit: int) -> Examination:
    """Return a diagnosis for each app of the `limit` traces assembled last, none earlier than `since`."""
    assembled = store.assembled(since=since, limit=limit + 1)
    set_aside = store.set_aside()
    recent = [trace for trace in assembled[:limit] if trace.trace_id not in set_aside]
    ordered = sorted(dialects, key=lambda dialect: (dialect.priority, dialect.name))
    arrived: defaultdict[str, Arrived] = defaultdict(Arrived)
    linked: defaultdict[str, set[str]] = defaultdict(set)
    began: datetime | None = None
    for trace, spans, logs in _records(store, recent):
        apps = Counter(_app(span) for span in spans)
        for span in spans:
            _note(arrived[_app(span)], span, ordered)
        for app, first_app in _begun_elsewhere(spans):
            arrived[app].begun_in[trace.trace_id] = first_app
        if spans:
            first = instant(min(span.start_ns for span in spans))
            began = first if began is None else min(began, first)
        linked[trace.trace_id].update(link.trace_id for span in spans for link in span.links)
        main = apps.most_common(1)[0][0] if apps else UNKNOWN_APP
        if logs or trace.unread:
            arrived[main].logs += logs
            arrived[main].unread.update(trace.unread)
    answered: set[str] = set()
    if began is not None:
        ids = {trace.trace_id for trace in recent}
        for turn in store.turns(since=began):
            if turn.trace_id in ids:
                arrived[label(turn.sent_names.get("app", turn.app))].turns.append(turn)
                answered |= {turn.trace_id} | linked[turn.trace_id]
    for what in arrived.values():
        what.is_answered_elsewhere = not answered.isdisjoint(what.traces)
    return Examination(
        apps=tuple(_diagnosis(app, what, ordered) for app, what in sorted(arrived.items())),
        latest=limit if len(assembled) > limit else None,
        set_aside=set_aside,
    )


def lines(examination: Examination) -> Iterator[str]:
    """Yield what a person should read."""
    if examination.latest is not None:
        yield f"looked at the latest {examination.latest} traces; --limit for more"
    for trace_id in examination.set_aside:
        yield f"set aside: trace {trace_id}, for two processes died while reading it"
        yield f"    -> once that is mended, `rag-monitor reassemble --trace {trace_id}` has it read again"
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


def _note(arrived: Arrived, span: Span, dialects: Sequence[Dialect]) -> None:
    dialect = _reader_of(span, dialects)
    arrived.spans[dialect] += 1
    if dialect and dialect not in {FALLBACK, *_BESIDE}:
        arrived.conventional.add(span.trace_id)
    if span.dropped_attributes:
        arrived.cut += 1
        arrived.attribute_limit = max(arrived.attribute_limit, len(span.attributes))
    language = text(span.resource, "telemetry.sdk.language") or _language_of_scope(span.scope)
    if language is not None:
        arrived.languages[language.lower()] += 1
    arrived.traces.add(span.trace_id)
    arrived.printed += bool(dialect) and any(
        isinstance(value, str) and _TEXT_KEY.search(key) is not None and is_name_only(value)
        for key, value in span.attributes.items()
    )
    if not dialect:
        arrived.unread_scopes[span.scope or "no scope"] += 1


def _language_of_scope(scope: str) -> str | None:
    """Scopes are named after packages: Java's begin with a domain, those of npm may begin with an organisation."""
    if scope.startswith(("com.", "io.", "org.", "dev.")):
        return "java"
    return "nodejs" if scope.startswith("@") else None


def _begun_elsewhere(spans: Sequence[Span]) -> Iterator[tuple[str, str]]:
    """The apps that took their work of a trace out of a queue, each with the app where the request began.

    That is "" where it began in another trace, which a link names.
    """
    ids = {span.span_id for span in spans}
    first = min((s for s in spans if s.parent_id not in ids), key=lambda s: s.start_ns, default=None)
    for span in spans:
        if first is not None and span.kind == _CONSUMER:
            if _app(span) != _app(first):
                yield _app(span), _app(first)
            elif any(link.trace_id != span.trace_id for link in span.links):
                yield _app(span), ""


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
    return label(text(span.resource, "service.name") or UNKNOWN_APP)


def _diagnosis(app: str, arrived: Arrived, dialects: Sequence[Dialect]) -> Diagnosis:
    telling = [name for name, _ in arrived.spans.most_common() if name and name not in _BESIDE]
    setups = {d.name: d.setup for d in dialects if d.name in telling and isinstance(d, Convention)}
    return Diagnosis(
        app=app,
        spans=dict(arrived.spans.most_common()),
        logs=arrived.logs,
        turns=len(arrived.turns),
        complaints=complaints(app, arrived, telling, setups),
        unread={reason: count for reason, count in arrived.unread.most_common() if reason not in _EXPECTED},
    )


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
