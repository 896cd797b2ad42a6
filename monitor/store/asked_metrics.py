"""About which metrics turns were decided: lists of rubrics, each written once under its digest and named by its turns.

A turn that was decided about before there were such lists names "", which may have been any: it counts as asked about
every metric.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from sqlalchemy import Connection, select

from monitor.store.columns import label
from monitor.store.statements import batches, insert
from monitor.store.tables import asked_metrics

Asked: TypeAlias = frozenset[tuple[str, str]]
"""Metrics with their rubric ids."""


def keep(connection: Connection, lists: Iterable[Asked]) -> Mapping[Asked, str]:
    """Write the lists that are not there yet, and return the name of each; "" is that of an empty one."""
    names = {asked: _name(asked) for asked in lists}
    rows = [
        {"asked": name, "metric": metric, "rubric_id": rubric_id}
        for asked, name in names.items()
        for metric, rubric_id in sorted(asked)
    ]
    if rows:
        connection.execute(insert(connection, asked_metrics).on_conflict_do_nothing(), rows)
    return names


def of_names(connection: Connection, names: Iterable[str]) -> Mapping[str, Asked]:
    """Return the lists of these names; those that nobody wrote are left out."""
    lists: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for part in batches(sorted({name for name in names if name})):
        for row in connection.execute(select(asked_metrics).where(asked_metrics.c.asked.in_(part))):
            lists[row.asked].add((row.metric, row.rubric_id))
    return {name: frozenset(pairs) for name, pairs in lists.items()}


def labelled(pairs: Sequence[tuple[str, str]]) -> Asked:
    """Return metrics with their rubric ids as the other tables spell them."""
    return frozenset((label(metric), label(rubric_id)) for metric, rubric_id in pairs)


def _name(asked: Asked) -> str:
    return hashlib.blake2b(repr(sorted(asked)).encode(), digest_size=8).hexdigest() if asked else ""
