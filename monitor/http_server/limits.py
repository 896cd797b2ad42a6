"""What one listener lets its clients hold, in bytes, time and connections."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The defaults are those of a page for people and scrapers."""

    max_connections: int = 256
    """Open at once. Beyond, the one that did nothing for longest gives way; while all are busy, nobody comes in."""
    max_connections_per_peer: int = 128
    """Of these, from one address (IPv6: one /64 network, which is what one customer has)."""
    max_head: int = 32 * 1024
    """Bytes of a request line with its fields, and of the trailers of a body."""
    max_fields: int = 100
    """Fields in a head with its trailers."""
    head_timeout: timedelta = timedelta(seconds=10)
    """For a head to be whole, for a TLS handshake, and between a connection's beginning and its first byte."""
    rest_timeout: timedelta = timedelta(seconds=30)
    """For what is left of a body when its request is answered already, and for a reply to be taken."""
    keep_alive: timedelta = timedelta(seconds=75)
    """Between two requests of a connection."""
    reserved_descriptors: int = 0
    """File descriptors of the process that this listener leaves to others, or a quarter of all, if that is less."""
