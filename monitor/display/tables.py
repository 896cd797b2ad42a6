"""How turns, trends and alerts are printed: JSON lines for programs, tables for people. Values in, text out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson
from rich.table import Table
from rich.text import Text

from monitor.display.alert_document import alert_document
from monitor.display.alert_text import one_line, subject
from monitor.model.judgements import FAILURES, Outcome, Unscored
from monitor.model.spans import EPOCH
from monitor.model.trends import Alert, Rollup, Sums
from monitor.model.turns import Turn
from monitor.statistics.rates import bounds, wilson_rate
from monitor.text.invisible import escaped
from monitor.text.timestamps import rfc3339

_MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
_WEEK = timedelta(weeks=1)
_SHORT = 60
_ID = 12
"""Characters of an id that tell turns apart; `explain` takes them."""


def turn_line(turn: Turn, outcomes: Sequence[Outcome] = ()) -> str:
    """Return the turn and what it was judged as a JSON object on one line; `rag-monitor replay` reads the turn back."""
    return _json(
        {
            "turn_id": turn.turn_id,
            "trace_id": turn.trace_id,
            "span_id": turn.span_id,
            "session_id": turn.session_id,
            "user_id": turn.user_id,
            "app": turn.app,
            "environment": turn.environment,
            "release": turn.release,
            "sent_names": dict(turn.sent_names),
            "query": turn.query,
            "history": [{"role": m.role, "content": m.content} for m in turn.history],
            "retrieval_queries": list(turn.retrieval_queries),
            "dialect": turn.dialect,
            "citations": None
            if turn.citations is None
            else [
                {
                    "id": c.id,
                    "title": c.title,
                    "content": c.content,
                    "score": c.score,
                    "score_kind": c.score_kind,
                    "source": c.source,
                    "rank": c.rank,
                    "used": c.used,
                }
                for c in turn.citations
            ],
            "response": turn.response,
            "ground_truth": turn.ground_truth,
            "relevant_ids": None if turn.relevant_ids is None else list(turn.relevant_ids),
            "model": turn.model,
            "tokens": {"input": turn.input_tokens, "output": turn.output_tokens},
            "error": turn.error,
            "streaming": turn.streaming,
            "started_at": rfc3339(turn.started_at),
            "ended_at": rfc3339(turn.ended_at),
            "facets": dict(turn.facets),
            "flags": sorted(turn.flags),
            "outcomes": {metric: _outcome(outcome) for metric, outcome in latest(outcomes).items()},
        }
    )


def latest(outcomes: Sequence[Outcome]) -> Mapping[str, Outcome]:
    """Return the last outcome of each metric, by name: several prompts or judges may have given one."""
    in_time = sorted(outcomes, key=lambda outcome: outcome.judged_at)
    return dict(sorted({outcome.job.metric: outcome for outcome in in_time}.items()))


def _outcome(outcome: Outcome) -> dict[str, object]:
    if isinstance(outcome, Unscored):
        return {"score": None, "defect": None, "reason": outcome.reason.value}
    return {"score": outcome.finding.score, "defect": outcome.finding.defect, "reason": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendRow:
    """One window, or several added up, of one metric of one app; all releases together."""

    app: str
    environment: str
    metric: str
    rubric_id: str
    start: datetime
    end: datetime
    sums: Sums
    unscored: Mapping[str, int]

    @property
    def not_sampled(self) -> int:
        """Turns that were not drawn for judging, or not decided about yet."""
        sums = self.sums
        return sums.turns - sums.n - sums.pending - sums.not_asked - sum(self.unscored.values())


def trend_rows(rollups: Iterable[Rollup], *, by: timedelta) -> tuple[TrendRow, ...]:
    """Return the whole-app rollups added up over releases and over windows of `by`, in order.

    Windows are counted from midnight UTC, weeks from Monday (ISO 8601).
    """
    origin = EPOCH if by % _WEEK else _MONDAY
    groups: dict[tuple[str, str, str, str, datetime], TrendRow] = {}
    for r in rollups:
        if r.series.slice:
            continue
        start = origin + (r.start - origin) // by * by
        key = (r.series.app, r.series.environment, r.series.metric, r.series.rubric_id, start)
        before = groups.get(key)
        unscored = Counter(before.unscored if before else {}) + Counter(r.unscored)
        groups[key] = TrendRow(
            app=key[0],
            environment=key[1],
            metric=key[2],
            rubric_id=key[3],
            start=start,
            end=start + max(by, r.length),
            sums=before.sums + r.sums if before else r.sums,
            unscored=dict(unscored),
        )
    return tuple(groups[key] for key in sorted(groups))


def trend_line(row: TrendRow) -> str:
    """Return the row as one JSON object on one line; rates are null where nothing was scored."""
    rate = wilson_rate(row.sums)
    return _json(
        {
            "app": row.app,
            "environment": row.environment,
            "metric": row.metric,
            "rubric_id": row.rubric_id,
            "start": rfc3339(row.start),
            "end": rfc3339(row.end),
            "turns": row.sums.turns,
            "scored": row.sums.n,
            "defects": row.sums.k,
            "pending": row.sums.pending,
            "not_sampled": row.not_sampled,
            "not_asked": row.sums.not_asked,
            "unscored": dict(sorted(row.unscored.items())),
            "defect_rate": rate.value if rate else None,
            "lower": rate.lower if rate else None,
            "upper": rate.upper if rate else None,
            "confidence": rate.confidence if rate else None,
            "bounds": _bounds(row, rate.value if rate else 0.0),
            "mean_score": row.sums.sws / row.sums.sw if row.sums.n else None,
            "input_tokens": row.sums.input_tokens,
            "output_tokens": row.sums.output_tokens,
            "cost_usd": row.sums.cost_usd,
        }
    )


def _bounds(row: TrendRow, share: float) -> dict[str, object] | None:
    """Return how far the rate could be off if the turns whose judging failed all passed, or all were defects."""
    failed = sum(count for reason, count in row.unscored.items() if reason in FAILURES)
    if not failed:
        return None
    lower, upper = bounds(share, row.sums.n, failed)
    return {"failed": failed, "lower": lower, "upper": upper}


_NOTES = {
    "groundedness_proxy": "groundedness_proxy counts words: it sees answers that leave their documents, and hardly any "
    "subtle error (AUC 0.54 on SummEdits, F1 0.66 on RAGTruth)",
}
"""What is to be known beside the numbers of a metric."""


def trend_table(rows: Sequence[TrendRow]) -> Table:
    """Return the rows as a table; a rate stands with its interval and with what it does not know."""
    notes = [note for metric, note in _NOTES.items() if any(row.metric == metric for row in rows)]
    table = Table(
        title="Defect rates, 95 % interval; windows in UTC",
        title_justify="left",
        caption="\n".join(notes) or None,
        caption_justify="left",
    )
    texts = ("app", "metric", "from", "unscored")
    numbers = ("defect rate", "scored", "pending", "not sampled", "not asked", "turns", "cost")
    for column in (*texts[:3], *numbers[:2], texts[3], *numbers[2:]):
        table.add_column(column, justify="left" if column in texts else "right", no_wrap=True)
    for row in rows:
        rate = wilson_rate(row.sums)
        shown = f"{rate.value:.1%} ({rate.lower:.1%} to {rate.upper:.1%})" if rate else "no turn scored"
        app, environment = one_line(row.app), one_line(row.environment)
        add_row(
            table,
            f"{app} ({environment})" if environment else app,
            row.metric,
            f"{row.start:%Y-%m-%d %H:%M}",
            shown,
            str(row.sums.n),
            _by_reason(row.unscored),
            str(row.sums.pending),
            str(row.not_sampled),
            str(row.sums.not_asked),
            str(row.sums.turns),
            f"${row.sums.cost_usd:.2f}",
        )
    return table


def _by_reason(unscored: Mapping[str, int]) -> str:
    """Return turns without a score by reason, the most frequent first.

    >>> _by_reason({"timeout": 1, "expired": 20})
    '21: 20 expired, 1 timeout'
    """
    if not unscored:
        return "0"
    parts = sorted(unscored.items(), key=lambda part: (-part[1], part[0]))
    return f"{sum(unscored.values())}: {', '.join(f'{count} {reason}' for reason, count in parts)}"


def turn_table(rows: Iterable[tuple[Turn, Sequence[Outcome]]]) -> Table:
    """Return turns as a table, one row each, their text cut short, with a column for each metric that judged any."""
    judged = [(turn, latest(outcomes)) for turn, outcomes in rows]
    metrics = sorted({metric for _, outcomes in judged for metric in outcomes})
    table = Table(title="Turns; times in UTC", title_justify="left")
    for column in ("turn", "started", "app", "release", *metrics, "query", "citations", "response", "error", "flags"):
        wraps = column in {"query", "response"}
        table.add_column(column, justify="right" if column == "citations" else "left", no_wrap=not wraps)
    for turn, outcomes in judged:
        add_row(
            table,
            turn.turn_id[:_ID],
            f"{turn.started_at:%Y-%m-%d %H:%M:%S}",
            one_line(turn.app),
            one_line(turn.release),
            *(_verdict(outcomes.get(metric)) for metric in metrics),
            short(turn.query),
            "unknown" if turn.citations is None else str(len(turn.citations)),
            short(turn.response),
            one_line(turn.error or ""),
            " ".join(sorted(turn.flags)),
        )
    return table


def _verdict(outcome: Outcome | None) -> str:
    """Return a score and whether it is a defect, or why there is none, in a few characters."""
    if outcome is None:
        return ""
    if isinstance(outcome, Unscored):
        return outcome.reason.value
    finding = outcome.finding
    shown = f"{finding.score:g}" if finding.score is not None else finding.label or ""
    return f"{shown} defect".strip() if finding.defect else shown or "no defect"


def alert_line(alert: Alert) -> str:
    """Return the alert as one JSON object on one line, with the keys of webhooks."""
    return _json(alert_document(alert))


def alert_table(alerts: Sequence[Alert]) -> Table:
    """Return alerts as a table, newest first, each with its defect rate and the normal one."""
    table = Table(title="Alerts; times in UTC", title_justify="left")
    for column in ("state", "trend", "rule", "began", "detected", "recovered", "defect rate", "normal rate"):
        table.add_column(column, no_wrap=True)
    for alert in alerts:
        r = alert.regression
        add_row(
            table,
            alert.state.value,
            subject(r.series),
            r.rule,
            f"{r.began_at:%Y-%m-%d %H:%M}",
            f"{r.detected_at:%Y-%m-%d %H:%M}",
            f"{r.recovered_at:%Y-%m-%d %H:%M}" if r.recovered_at else "",
            f"{r.rate:.1%} ({r.rate_lower:.1%} to {r.rate_upper:.1%})",
            f"{r.baseline_rate:.1%}, up to {r.null_rate:.1%}",
        )
    return table


def short(text: str | None) -> str:
    """Return the text on one line, cut to 60 characters; "" for None."""
    flat = " ".join((text or "").split())
    return flat if len(flat) <= _SHORT else f"{flat[: _SHORT - 1]}…"


def printable(text: str) -> str:
    r"""Return the text with what a terminal would obey, such as escape sequences, escaped; tabs and line ends stay.

    >>> printable("\x1b[31mred")
    '\\x1b[31mred'
    """
    return "\n".join("\t".join(map(escaped, line.split("\t"))) for line in text.split("\n"))


def add_row(table: Table, *cells: str) -> None:
    """Add cells as they are: what stands in brackets is somebody's text and no markup, and no cell is two lines."""
    table.add_row(*(Text(escaped(cell)) for cell in cells))


def _json(value: Mapping[str, object]) -> str:
    return orjson.dumps(value).decode()
