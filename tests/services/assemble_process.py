"""Assembling and sampling as a process of its own, which one of the turns kills.

Arguments: store URL, the worker's name, the stage at which the process dies ("assemble", "sample" or "none"), and the
trace that it dies of.
"""

import os
import signal
import sys
from datetime import UTC, datetime

from monitor.assembly.rules import reading_rules
from monitor.model.judgements import Rubric
from monitor.model.spans import Decoded, Fragment
from monitor.model.turns import Turn
from monitor.payloads.turn_records.fragments import decode_turns
from monitor.settings.tree import AssembleSettings, SampleSettings
from monitor.stages import assemble, sample
from monitor.store.sql_store import open_store

NOW = datetime(2026, 3, 4, 10, 0, tzinfo=UTC)
RUBRIC = Rubric(metric="relevance", rubric_id="relevance-1", needs=frozenset({"query"}), scale_min=1, scale_max=5)


class Poisoned:
    """Reads fragments and scores turns until it comes to the deadly one."""

    version = "poisoned"

    def __init__(self, stage: str, trace_id: str) -> None:
        self._deadly = stage, trace_id

    def decode(self, fragment: Fragment) -> Decoded:
        """Read a record."""
        self._live("assemble", fragment.trace_id)
        return decode_turns(fragment)

    def score(self, turn: Turn) -> float:
        """Score a turn."""
        self._live("sample", turn.trace_id)
        return 1.0

    def _live(self, stage: str, trace_id: str) -> None:
        if (stage, trace_id) == self._deadly:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _, url, worker, stage, trace_id = sys.argv
    store, poisoned = open_store(url, migrate=False), Poisoned(stage, trace_id)
    rules = reading_rules((), hash_user=str)
    assemble.tick(store, AssembleSettings(), now=NOW, decode=poisoned.decode, rules=rules, worker=worker)
    sample.tick(store, SampleSettings(), rubrics=[RUBRIC], proxy=poisoned, now=NOW, worker=worker)
    store.close()
