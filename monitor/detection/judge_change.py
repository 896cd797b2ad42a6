"""What another model behind a judge's name means for trends: a cut where it judges otherwise, a word where it may."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from monitor.detection.judge_agreement import Steady, steadiness
from monitor.display.alert_text import instant
from monitor.model.turns import JudgeChange, JudgeVersion, SecondOpinion, SecondOpinionKind
from monitor.statistics.agreement import sign_test

_SURE = 0.05
_ENOUGH = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """One change, as far as it concerns one metric and rubric: old verdicts beside new ones on the same turns."""

    change: JudgeChange
    steady: Steady
    more: int
    """Turns that passed before and are defects to the new version."""
    fewer: int
    """The reverse."""

    @property
    def cuts(self) -> bool:
        """Whether what came before can no longer be held against what came after.

        It cannot when the new version calls more, or fewer, of the old turns defects, nor when another model was asked
        about too few of them to tell.
        """
        renamed = self.change.version.model != self.change.before.model
        unknown = renamed and self.steady.agreement.turns < _ENOUGH
        return unknown or sign_test(self.more, self.fewer) <= _SURE

    @property
    def words(self) -> str:
        """The change in one or two sentences for people."""
        change, agreement, shift = self.change, self.steady.agreement, self.steady.shift
        told = f"The judge changed {instant(change.at)}: {_name(change.before)} became {_name(change.version)}."
        if agreement.agreed is None:
            return told
        parts = [f"agreement {agreement.agreed.value:.0%}"]
        parts += [] if agreement.kappa is None else [f"kappa {agreement.kappa:.2f}"]
        parts += [] if shift is None else [f"score {shift:+.2f}"]
        again = f"Of {agreement.turns} old turns judged again {self.more} became defects and {self.fewer} ceased to be"
        return f"{told} {again} ({', '.join(parts)})."


def bridges(
    changes: Sequence[JudgeChange], opinions: Sequence[SecondOpinion]
) -> Mapping[tuple[str, str], tuple[Bridge, ...]]:
    """Return by metric and rubric id the changes whose anchors were judged again, oldest first."""
    anchors: dict[tuple[str, str, str, str], list[SecondOpinion]] = defaultdict(list)
    for o in opinions:
        if o.kind is SecondOpinionKind.ANCHOR:
            anchors[o.version.model, o.version.fingerprint, o.job.metric, o.job.rubric_id].append(o)
    found: dict[tuple[str, str], list[Bridge]] = defaultdict(list)
    for change in changes:
        for (model, fingerprint, metric, rubric_id), judged in anchors.items():
            if (model, fingerprint) == (change.version.model, change.version.fingerprint):
                (steady,) = steadiness(judged)
                more = sum(o.defect and not o.first_defect for o in judged)
                fewer = sum(o.first_defect and not o.defect for o in judged)
                found[metric, rubric_id].append(Bridge(change=change, steady=steady, more=more, fewer=fewer))
    return {key: tuple(of_key) for key, of_key in found.items()}


def _name(version: JudgeVersion) -> str:
    return f"{version.model} ({version.fingerprint})" if version.fingerprint else version.model
