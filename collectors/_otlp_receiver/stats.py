"""What an OTLP collector counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collectors._otlp_receiver.reception import Reception
from monitor.access.gate import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverStats:
    """Counts since the collector was built, and the connections now."""

    requests: Mapping[str, int]
    rejected: Mapping[str, int]
    ignored: Mapping[str, int]
    """These three as in `ReceptionStats`."""
    connections: int
    """Open now."""
    clients_refused: Mapping[str, int]
    """Clients not let in, or sent away, by reason."""


def receiver_stats(reception: Reception, gate: Gate, *, connections: int) -> ReceiverStats:
    """Return a snapshot."""
    received = reception.stats()
    return ReceiverStats(
        requests=received.requests,
        rejected=received.rejected,
        ignored=received.ignored,
        connections=connections,
        clients_refused=gate.refusals.counts(),
    )
