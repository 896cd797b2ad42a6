"""What all calls of one peer may hold in memory: half of what all may, so that another one finds room at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from collectors._otlp_receiver.admission import Admission


@dataclass(slots=True)
class _Peer:
    admission: Admission
    calls: int = 0


class Peers:
    """Gates, one for each peer that calls now.

    Args:
        limit: bytes of one peer.
        stalled: how long a call may make no progress while others of its peer wait.
    """

    def __init__(self, limit: int, *, stalled: timedelta) -> None:
        self._limit, self._stalled = limit, stalled
        self._peers: dict[str, _Peer] = {}

    @contextmanager
    def gate_of(self, peer: str) -> Iterator[Admission]:
        """Give a call the gate that it shares with the others of its peer, until it is over."""
        shared = self._peers.setdefault(peer, _Peer(Admission(self._limit, stalled=self._stalled)))
        shared.calls += 1
        try:
            yield shared.admission
        finally:
            shared.calls -= 1
            if not shared.calls:
                del self._peers[peer]
