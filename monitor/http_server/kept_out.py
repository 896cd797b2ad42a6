"""Peers that are not let in for a while: who is cut off for a flood would else be back at once, with the next one."""

from __future__ import annotations

from collections import OrderedDict


class KeptOut:
    """Remembers who was cut off.

    Args:
        seconds: for which a peer is kept out, from when it was cut off last.
        most: peers that are remembered, those that were cut off last.
    """

    def __init__(self, *, seconds: float, most: int) -> None:
        self._seconds, self._most = seconds, most
        self._since: OrderedDict[str, float] = OrderedDict()
        """When each was cut off last; the latest last."""

    def add(self, peer: str, now: float) -> None:
        """Keep a peer out from now on; `now` is in seconds."""
        self._since[peer] = now
        self._since.move_to_end(peer)
        if len(self._since) > self._most:
            self._since.popitem(last=False)

    def holds(self, peer: str, now: float) -> bool:
        """Return whether a peer is kept out; `now` is in seconds."""
        since = self._since.get(peer)
        if since is None:
            return False
        if now - since < self._seconds:
            return True
        del self._since[peer]
        return False
