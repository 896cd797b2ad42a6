"""Everything stored about one turn, from its spans to its window: what `rag-monitor explain` prints."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

import orjson

from monitor.display.alert_text import one_line
from monitor.display.tables import TrendRow, printable, trend_line, trend_rows
from monitor.errors import Rejected
from monitor.model.judgements import MEANINGS, Outcome, Sampling, Unscored, judge_id
from monitor.model.spans import Span
from monitor.model.turns import Turn
from monitor.payloads.otlp.fragments import decode_otlp
from monitor.settings.tree import LONGEST_WINDOW
from monitor.stores import Store
from monitor.text.timestamps import rfc3339

_INDENT = "  "
_TEXTS = frozenset(("query", "response", "ground_truth", "error"))
"""What is printed whole, over as many lines as it has; everything else of a turn is a name."""
_LONGEST = 200
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is stored about one turn; parts that were pruned, or never were, are empty."""

    spans: tuple[Span, ...]
    """Of the whole trace, by start."""
    turn: Turn
    sampling: Sampling | None
    outcomes: tuple[Outcome, ...]
    windows: tuple[TrendRow, ...]
    """The windows that the turn is counted in, one a metric; all releases together."""
    user_ids: tuple[str, ...] | None = None
    """As the app sent them; None unless they are to be shown."""


def explanation_of(turn_id: str, store: Store) -> Explanation:
    """Return what is stored about the turn; `turn_id` may be cut to its first characters if they are unique.

    Raises:
        Rejected: no such turn, or several.
    """
    turn = store.turn(turn_id)
    if turn is None:
        matching = [t for t in store.turns() if t.turn_id.startswith(turn_id)] if turn_id else []
        if len(matching) != 1:
            what = f"{len(matching)} turns begin with" if matching else "no turn has the id"
            raise Rejected(f"{what} {turn_id!r}; `rag-monitor turns` lists ids", reason="no_such_turn")
        turn = matching[0]
    fragments = store.fragments([turn.trace_id]).get(turn.trace_id, ())
    received = (stored.fragment for stored in fragments if stored.fragment.signal != "turns")
    spans = {s.span_id: s for fragment in received for s in decode_otlp(fragment).spans}
    return Explanation(
        spans=tuple(sorted(spans.values(), key=lambda s: (s.start_ns, s.span_id))),
        turn=turn,
        sampling=store.sampling(turn.turn_id),
        outcomes=store.outcomes(turn.turn_id),
        windows=_windows(turn, store),
    )


def _windows(turn: Turn, store: Store) -> tuple[TrendRow, ...]:
    near = store.rollups(app=turn.app, since=turn.started_at - LONGEST_WINDOW, until=turn.started_at + _MICROSECOND)
    holding = [r for r in near if r.series.environment == turn.environment and turn.started_at < r.start + r.length]
    return trend_rows(holding, by=holding[0].length) if holding else ()


def as_json(explanation: Explanation) -> str:
    """Return the explanation as one JSON object on one line."""
    return orjson.dumps(
        {
            "spans": [_plain(s) for s in explanation.spans],
            "turn": _plain(explanation.turn),
            "sampling": _plain(explanation.sampling),
            "outcomes": [
                {"kind": type(o).__name__.lower(), "judge_id": judge_id(o), **_mapping(o)} for o in explanation.outcomes
            ],
            "windows": [orjson.loads(trend_line(row)) for row in explanation.windows],
        },
        option=orjson.OPT_NON_STR_KEYS,
    ).decode()


def as_text(explanation: Explanation) -> str:
    """Return the explanation for a person, in the order in which things happened."""
    parts = [
        ("Spans", _spans(explanation.spans, explanation.turn)),
        ("Turn", [*_turn(explanation.turn), *_users(explanation)]),
        ("Sampling", _sampling(explanation.sampling, explanation.outcomes)),
    ]
    parts += [(f"Judged: {o.job.metric} (rubric {o.job.rubric_id})", _outcome(o)) for o in explanation.outcomes]
    parts += [(f"Window: {w.metric}, {w.start:%Y-%m-%d %H:%M} UTC", [trend_line(w)]) for w in explanation.windows]
    return "\n".join(line for title, texts in parts for line in (title, *_indented(texts or ["nothing stored"])))


def _indented(texts: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the texts, each under its title, and none that a terminal would obey."""
    for text in texts:
        yield from (f"{_INDENT}{printable(line)}" for line in text.splitlines())


def _spans(spans: Sequence[Span], turn: Turn) -> list[str]:
    parents = {s.span_id: s.parent_id for s in spans}

    def depth(span_id: str) -> int:
        seen: set[str] = set()
        at = parents.get(span_id)
        while at in parents and at not in seen:
            seen.add(at)
            at = parents[at]
        return len(seen)

    return [
        f"{_INDENT * depth(s.span_id)}{one_line(s.name)}  {s.span_id}  {(s.end_ns - s.start_ns) / 1e6:.1f} ms"
        f"  {one_line(s.scope)}"
        f"{'  (root of the turn)' if s.span_id == turn.span_id else ''}{'  ERROR' if s.status == 2 else ''}"  # noqa: PLR2004 -- OTLP
        for s in spans
    ]


def _turn(turn: Turn) -> list[str]:
    plain = {name: value for name, value in _mapping(turn).items() if isinstance(value, str | int | float)}
    lines = [
        f"{name}: {value if name in _TEXTS else one_line(str(value), most=_LONGEST)}" for name, value in plain.items()
    ]
    lines += [f"history: {m.role}: {m.content}" for m in turn.history]
    if turn.citations is not None:
        lines += [
            f"citation {c.rank}: {c.id or ''} {c.title or ''}: {c.content or ''}"
            + ("" if c.is_evidence else "  (not seen by the model)")
            for c in turn.citations
        ]
    return [*lines, f"flags: {', '.join(sorted(turn.flags))}"] if turn.flags else lines


def _users(explanation: Explanation) -> list[str]:
    if explanation.user_ids is None or explanation.turn.user_id is None:
        return []
    none = "(not kept any more)" if not explanation.spans else "(not in the stored spans)"
    shown = ", ".join(one_line(user_id, most=_LONGEST) for user_id in explanation.user_ids) or none
    return [f"user_id as sent: {shown}"]


def _sampling(sampling: Sampling | None, outcomes: Sequence[Outcome]) -> list[str]:
    if sampling is None:
        return ["not decided yet"]
    lines = [f"decided at {rfc3339(sampling.decided_at)}"]
    if sampling.proxy_version:
        score = "does not apply" if sampling.proxy is None else f"{sampling.proxy:.3f}"
        lines.append(f"lexical proxy {sampling.proxy_version}: {score}")
    lines += [f"{job.metric}: waits to be judged, probability {job.probability:g}" for job in sampling.jobs]
    return lines if sampling.jobs or outcomes else [*lines, "not drawn: nobody judges it"]


def _outcome(outcome: Outcome) -> list[str]:
    job, exchange = outcome.job, outcome.exchange
    lines = [f"inclusion probability {job.probability:g}, attempt {job.attempt}, by {_judge(outcome)}"]
    if isinstance(outcome, Unscored):
        why = f" {outcome.detail}" if outcome.detail else f": {MEANINGS[outcome.reason]}"
        lines.append(f"no score: {outcome.reason.value}{why}")
    else:
        finding = outcome.finding
        verdict = "a defect" if finding.defect else "no defect"
        reason = finding.reason or ("no reason given" if finding.defect else "")
        lines.append(f"score {finding.score}, {verdict}" + (f": {reason}" if reason else ""))
        lines += [f"{d.index}: {d.verdict} {d.reason} {d.evidence}".rstrip() for d in finding.details]
    lines.append(
        f"{exchange.calls} calls, {exchange.input_tokens} + {exchange.output_tokens} tokens, ${exchange.cost_usd:.4f}"
    )
    lines += [f"prompt | {line}" for line in exchange.prompt.splitlines()]
    lines += [f"reply  | {line}" for line in exchange.reply.splitlines()]
    return lines


def _judge(outcome: Outcome) -> str:
    exchange = outcome.exchange
    build = f" ({exchange.fingerprint})" if exchange.fingerprint else ""
    return f"{exchange.judge_model}{build}, judge {judge_id(outcome)}" if exchange.judge_model else "code"


def _mapping(value: object) -> Mapping[str, object]:
    plain = _plain(value)
    return plain if isinstance(plain, dict) else {}


def _plain(value: object) -> object:
    """Return the value as JSON knows it; every branch is one kind of leaf or container."""
    plain = value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    elif isinstance(value, Enum):
        plain = value.value
    elif isinstance(value, datetime):
        plain = rfc3339(value)
    elif isinstance(value, timedelta):
        plain = value.total_seconds()
    elif isinstance(value, bytes):
        plain = value.hex()
    elif isinstance(value, frozenset | set):
        plain = sorted(str(v) for v in value)
    elif isinstance(value, Mapping):
        plain = {str(k): _plain(v) for k, v in value.items()}
    elif isinstance(value, tuple | list):
        plain = [_plain(v) for v in value]
    return plain
