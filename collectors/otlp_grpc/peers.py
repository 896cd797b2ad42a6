"""What all calls of one peer may hold in memory: all there is while nobody else calls, else all but room for one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from collectors._otlp_receiver.admission import Admission

_REMEMBERED_SECONDS = 10.0
"""For which a peer counts as one that calls: senders that export every few seconds always find room."""


@dataclass(slots=True)
class _Peer:
    admission: Admission
    calls: int = 0


class Peers:
    """Gates, one for each peer that calls now.

    Args:
        limit: bytes of all peers.
        left: bytes of these that no peer takes while others call.
        stalled: how long a call may make no progress while others of its peer wait.
        clock: seconds.
    """

    def __init__(self, limit: int, *, left: int, stalled: timedelta, clock: Callable[[], float]) -> None:
        self._all, self._left, self._stalled, self._clock = limit, left, stalled, clock
        self._share = limit
        """Bytes that each peer may hold now."""
        self._peers: dict[str, _Peer] = {}
        self._called: OrderedDict[str, float] = OrderedDict()
        """When each peer called last; the latest last."""

    @contextmanager
    def gate_of(self, peer: str) -> Iterator[Admission]:
        """Give a call the gate that it shares with the others of its peer, until it is over."""
        self._note(peer)
        shared = self._peers.get(peer)
        if shared is None:
            shared = self._peers[peer] = _Peer(Admission(self._share, stalled=self._stalled))
        shared.calls += 1
        try:
            yield shared.admission
        finally:
            shared.calls -= 1
            if not shared.calls:
                del self._peers[peer]

    def _note(self, peer: str) -> None:
        """Note a call, and give each peer that calls what it may hold now."""
        now = self._clock()
        self._called[peer] = now
        self._called.move_to_end(peer)
        while self._called and now - next(iter(self._called.values())) > _REMEMBERED_SECONDS:
            self._called.popitem(last=False)
        share = self._all if len(self._called) == 1 else max(self._all - self._left, self._all // 2)
        if share != self._share:
            self._share = share
            for one in self._peers.values():
                one.admission.limit_to(share)
