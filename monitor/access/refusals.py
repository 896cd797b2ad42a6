"""What the log is told of those who were not let in: at a bounded rate, with where they came from."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from monitor.ports import Clock

log = logging.getLogger(__name__)

_PAUSE = timedelta(minutes=1)
_PEERS = 5
"""Peers that a line names at the most."""


@dataclass(slots=True)
class _Untold:
    """Refusals that no line was written about yet."""

    count: int = 0
    peers: dict[str, None] = field(default_factory=dict)
    """In the order of their first one; one more than is told, to know that there are others."""
    told_at: datetime | None = None


class Refusals:
    """Counts refusals by reason, and writes a line for the first of a reason and then at most one a minute.

    Args:
        where: the listener, for the log.
        clock: tells when a minute is over.
    """

    def __init__(self, where: str, clock: Clock) -> None:
        self._where, self._clock = where, clock
        self._counts: Counter[str] = Counter()
        self._untold: dict[str, _Untold] = {}

    def refused(self, reason: str, peer: str, why: str) -> None:
        """Count one.

        Args:
            reason: a word, for the metric; of few.
            peer: the address without its port.
            why: for the log, free of what the peer sent; the same for all of a reason, or of few.
        """
        self._counts[reason] += 1
        untold = self._untold.setdefault(reason, _Untold())
        untold.count += 1
        if len(untold.peers) <= _PEERS:
            untold.peers[peer] = None
        now = self._clock()
        if untold.told_at is not None and abs(now - untold.told_at) < _PAUSE:
            return
        self._untold[reason] = _Untold(told_at=now)
        if untold.count == 1:
            log.warning("%s: refused %s: %s", self._where, peer, why)
            return
        named = ", ".join(list(untold.peers)[:_PEERS]) + (" and others" if len(untold.peers) > _PEERS else "")
        log.warning("%s: refused %d since the last such line, from %s: %s", self._where, untold.count, named, why)

    def counts(self) -> Mapping[str, int]:
        """Return how many were refused by reason, since the process began."""
        return dict(self._counts)


def peer_name(host: str | None) -> str:
    """Return an address as people write it; None is who came through a Unix socket.

    >>> peer_name("::ffff:10.0.0.7")
    '10.0.0.7'
    """
    if not host:
        return "a process of this machine"
    return host.removeprefix("::ffff:") if "." in host else host
