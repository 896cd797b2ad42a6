"""What `rag-monitor judge` prints: a row a line for programs, tables for people. Values in, text out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.table import Table

from monitor.detection.judge_agreement import SecondOpinionSummary
from monitor.display.alert_text import one_line
from monitor.display.tables import add_row
from monitor.judging.trials.canary import Result, Trial
from monitor.judging.trials.cost_forecast import Forecast
from monitor.judging.trials.labelled import Measured
from monitor.model.judgements import Reason, SecondOpinionKind, Verdict
from monitor.statistics.agreement import Share
from monitor.text.timestamps import rfc3339

_UNREADABLE = frozenset({Reason.UNREADABLE, Reason.TRUNCATED, Reason.REJECTED})


def failure(trial: Trial) -> str:
    """Return in a word why a judge with this trial is not to be trusted; "" when the trial speaks for it or is moot.

    A refused or filtered attack has given no verdict; that is what some endpoints do with attacks, and harms no rate.
    """
    if trial.result is Result.FLIPPED:
        return "turned"
    if trial.result is Result.UNSOUND:
        return "wrong without the attack"
    return trial.reason.value if trial.reason in _UNREADABLE else ""


def trial_row(trial: Trial) -> dict[str, object]:
    """Return an attack and what became of it, for programs."""
    return {
        "id": trial.canary.id,
        "technique": trial.canary.technique,
        "place": trial.canary.place,
        "language": trial.canary.language,
        "result": trial.result.value,
        "reason": trial.reason.value if trial.reason else None,
        "flagged": trial.flagged,
    }


def trial_table(trials: Sequence[Trial]) -> Table:
    """Return attacks by technique, counted by what became of them."""
    table = Table(title=f"{len(trials)} attacks", title_justify="left")
    for column in ("technique", *(result.value for result in Result), "noticed"):
        table.add_column(column, justify="left" if column == "technique" else "right", no_wrap=True)
    groups = [("all", list(trials))]
    groups += [
        (technique, [trial for trial in trials if trial.canary.technique == technique])
        for technique in sorted({trial.canary.technique for trial in trials})
    ]
    for technique, of in groups:
        counts = Counter(trial.result for trial in of)
        noticed = sum(trial.flagged for trial in of)
        table.add_row(technique, *(str(counts[result]) for result in Result), str(noticed))
    return table


def agreement_row(part: Measured) -> dict[str, object]:
    """Return how a judge agrees with labels, for programs."""
    shares = {name: getattr(part.agreement, name) for name in ("sensitivity", "specificity", "precision", "agreed")}
    return {
        "group": part.group,
        "scored": part.agreement.turns,
        "unscored": dict(part.unscored),
        **{
            name: {"value": share.value, "lower": share.lower, "upper": share.upper, "of": share.of} if share else None
            for name, share in shares.items()
        },
        "kappa": part.agreement.kappa,
        "auc": part.area,
    }


def agreement_table(metric: str, groups: Sequence[Measured]) -> Table:
    """Return how a judge agrees with labels, with intervals."""
    table = Table(title=f"{metric} against labels, 95 % intervals", title_justify="left")
    columns = ("turns", "scored", "unscored", "defects found", "passed rightly", "found are true", "kappa", "AUC")
    for column in columns:
        table.add_column(column, justify="left" if column == "turns" else "right", no_wrap=True)
    for part in groups:
        a = part.agreement
        add_row(
            table,
            one_line(part.group),
            str(a.turns),
            str(sum(part.unscored.values())),
            _share(a.sensitivity),
            _share(a.specificity),
            _share(a.precision),
            "" if a.kappa is None else f"{a.kappa:.2f}",
            "" if part.area is None else f"{part.area:.3f}",
        )
    return table


def _share(share: Share | None) -> str:
    return f"{share.value:.0%} ({share.lower:.0%} to {share.upper:.0%})" if share else ""


def second_opinion_row(part: SecondOpinionSummary) -> dict[str, object]:
    """Return second opinions of one metric and version, for programs."""
    return {
        "kind": part.kind.value,
        "metric": part.metric,
        "rubric_id": part.rubric_id,
        "judge_model": part.model,
        "fingerprint": part.fingerprint,
        "turns": part.agreement.turns,
        "agreed": part.agreement.agreed.value if part.agreement.agreed else None,
        "kappa": part.agreement.kappa,
        "shift": part.shift,
        "shift_lower": part.shift_lower,
        "shift_upper": part.shift_upper,
    }


def second_opinion_table(groups: Sequence[SecondOpinionSummary]) -> Table:
    """Return second opinions with intervals."""
    table = Table(title="Second opinions against first verdicts, 95 % intervals", title_justify="left")
    columns = ("what", "metric", "judged by", "turns", "agree on defects", "kappa", "shift of the score")
    for column in columns:
        table.add_column(column, justify="left" if column in columns[:3] else "right", no_wrap=True)
    for part in groups:
        add_row(
            table,
            "asked again at once" if part.kind is SecondOpinionKind.REPEAT else "another model answers",
            part.metric,
            one_line(part.model),
            str(part.agreement.turns),
            _share(part.agreement.agreed),
            "" if part.agreement.kappa is None else f"{part.agreement.kappa:.2f}",
            "" if part.shift is None else f"{part.shift:+.2f} ({part.shift_lower:+.2f} to {part.shift_upper:+.2f})",
        )
    return table


def forecast_row(part: Forecast, sampled_a_day: float) -> dict[str, object]:
    """Return what one call costs, for programs."""
    return {
        "metrics": list(part.metrics),
        "calls_per_turn": part.calls,
        "input_tokens_per_turn": part.input_tokens,
        "output_tokens_per_turn": part.output_tokens,
        "usd_per_thousand_turns": part.usd * 1000,
        "usd_per_day": part.usd * sampled_a_day,
    }


def forecast_table(calls: Sequence[Forecast], sampled_a_day: float) -> Table:
    """Return what calls cost, per sampled turn and a day."""
    table = Table(title="Predicted cost, per sampled turn", title_justify="left")
    for column in ("metrics", "calls", "input tokens", "output tokens", "$ per 1,000 turns", "$ a day"):
        table.add_column(column, justify="left" if column == "metrics" else "right", no_wrap=True)
    for part in calls:
        table.add_row(
            ", ".join(part.metrics),
            f"{part.calls:.2f}",
            f"{part.input_tokens:.0f}",
            f"{part.output_tokens:.0f}",
            f"{part.usd * 1000:.2f}",
            f"{part.usd * sampled_a_day:.2f}",
        )
    return table


def injection_row(verdict: Verdict) -> dict[str, object]:
    """Return a verdict on a text that speaks to the judge, for programs."""
    return {
        "turn_id": verdict.job.turn_id,
        "judged_at": rfc3339(verdict.judged_at),
        "metric": verdict.job.metric,
        "score": verdict.finding.score,
        "defect": verdict.finding.defect,
    }


def injection_table(verdicts: Sequence[Verdict]) -> Table:
    """Return verdicts on texts that speak to the judge."""
    table = Table(title="Turns that speak to the judge; times in UTC", title_justify="left")
    for column in ("turn", "judged", "metric", "score", "defect"):
        table.add_column(column, no_wrap=True)
    for verdict in verdicts:
        job, finding = verdict.job, verdict.finding
        judged = f"{verdict.judged_at:%Y-%m-%d %H:%M}"
        add_row(table, job.turn_id, judged, job.metric, str(finding.score), str(finding.defect))
    return table
