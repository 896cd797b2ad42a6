"""What another model behind a judge's name means for trends: a new trend where it judges otherwise, else a remark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from monitor.detection.judge_agreement import SecondOpinionSummary, summarize
from monitor.display.alert_text import instant
from monitor.model.judgements import JudgeChange, JudgeVersion, SecondOpinion, SecondOpinionKind
from monitor.statistics.agreement import sign_test

_SIGNIFICANCE = 0.05
_FEWEST_TURNS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeComparison:
    """One change of the judge and one metric and rubric: old verdicts beside new ones on the same turns."""

    change: JudgeChange
    summary: SecondOpinionSummary
    new_defects: int
    """Turns that passed before and are defects to the new version."""
    former_defects: int
    """Turns that were defects before and pass now."""

    @property
    def begins_new_trend(self) -> bool:
        """Whether rates from before the change can no longer be compared with rates from after it.

        They cannot when the new version calls more, or fewer, of the old turns defects, nor when another model judged
        too few of them to tell.
        """
        renamed = self.change.version.model != self.change.before.model
        unknown = renamed and self.summary.agreement.turns < _FEWEST_TURNS
        return unknown or sign_test(self.new_defects, self.former_defects) <= _SIGNIFICANCE

    @property
    def sentences(self) -> str:
        """The change in one or two sentences for people."""
        change, agreement, shift = self.change, self.summary.agreement, self.summary.shift
        versions = f"from {_name(change.before)} to {_name(change.version)}"
        sentence = f"The model of the judge changed on {instant(change.at)}, {versions}."
        if agreement.agreed is None:
            return sentence
        figures = [f"agreement {agreement.agreed.value:.0%}"]
        figures += [] if agreement.kappa is None else [f"kappa {agreement.kappa:.2f}"]
        figures += [] if shift is None else [f"score {shift:+.2f}"]
        differences = f"{self.new_defects} are defects only to the new model, {self.former_defects} only to the old one"
        return f"{sentence} {agreement.turns} earlier turns were judged again: {differences} ({', '.join(figures)})."


def judge_comparisons(
    changes: Sequence[JudgeChange], opinions: Sequence[SecondOpinion]
) -> Mapping[tuple[str, str], tuple[JudgeComparison, ...]]:
    """Return by metric and rubric id the changes whose anchors were judged again, oldest first."""
    anchors: dict[tuple[str, str, str, str], list[SecondOpinion]] = defaultdict(list)
    for o in opinions:
        if o.kind is SecondOpinionKind.ANCHOR:
            anchors[o.version.model, o.version.fingerprint, o.job.metric, o.job.rubric_id].append(o)
    comparisons: dict[tuple[str, str], list[JudgeComparison]] = defaultdict(list)
    for change in changes:
        for (model, fingerprint, metric, rubric_id), judged in anchors.items():
            if (model, fingerprint) == (change.version.model, change.version.fingerprint):
                (summary,) = summarize(judged)
                comparison = JudgeComparison(
                    change=change,
                    summary=summary,
                    new_defects=sum(o.defect and not o.first_defect for o in judged),
                    former_defects=sum(o.first_defect and not o.defect for o in judged),
                )
                comparisons[metric, rubric_id].append(comparison)
    return {key: tuple(of_key) for key, of_key in comparisons.items()}


def _name(version: JudgeVersion) -> str:
    return f"{version.model} ({version.fingerprint})" if version.fingerprint else version.model
