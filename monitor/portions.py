"""What is to be read, in portions: what a process died with is read alone, and what ended several not again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monitor.stores import DEATHS, UnderWayKind, UnderWayStore


def portions(
    store: UnderWayStore, kind: UnderWayKind, subjects: Sequence[str], *, worker: str
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Yield the subjects in portions, and whether a portion is set aside instead of read.

    Each portion is written down as under way before it is yielded, so that what ends the process is known afterwards:
    of a portion of many all are suspect, and are read one by one by the process that comes next. Only what processes
    died with while they read it alone is set aside: whoever kills processes at random would hit innocents otherwise.
    """
    died = store.deaths(kind, subjects, worker=worker)
    unsuspected = tuple(subject for subject in subjects if subject not in died)
    for portion in (unsuspected, *((subject,) for subject in died)):
        if portion:
            store.begin(kind, portion, worker=worker, alone=portion is not unsuspected)
            yield portion, died.get(portion[0], 0) >= DEATHS
