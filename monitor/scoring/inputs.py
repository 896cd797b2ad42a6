"""What judging claimed jobs needs of the store; one that cannot be read ends its own job and no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from monitor.errors import StoreUnavailable
from monitor.model.judgements import Job, Outcome, Verdict
from monitor.model.turns import Turn
from monitor.scoring.outcomes import Outcomes
from monitor.stores import JobStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Of some jobs."""

    turns: Mapping[str, Turn] = field(default_factory=dict)
    """By id, those that are still there."""
    verdicts: Mapping[Job, Verdict] = field(default_factory=dict)
    """On turns of equal content."""
    faults: Mapping[Job, Outcome] = field(default_factory=dict)
    """How jobs end whose rows cannot be read."""

    def joined(self, other: Inputs) -> Inputs:
        """Return the inputs of these jobs and of others."""
        return Inputs(
            turns={**self.turns, **other.turns},
            verdicts={**self.verdicts, **other.verdicts},
            faults={**self.faults, **other.faults},
        )


def read(store: JobStore, outcomes: Outcomes, jobs: Sequence[Job]) -> Inputs:
    """Return the inputs of `jobs`, read together, or one by one where that fails.

    Raises:
        StoreUnavailable: the database cannot serve us.
    """
    try:
        turns, verdicts = store.judging_inputs(jobs)
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever a row holds; it is counted
        if len(jobs) == 1:
            return Inputs(faults={jobs[0]: outcomes.fault(jobs[0], error)})
        return reduce(Inputs.joined, (read(store, outcomes, [job]) for job in jobs))
    return Inputs(turns=turns, verdicts=verdicts)
