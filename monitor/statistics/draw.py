"""Which traces are in a sample: a function of their ids, the same wherever and however often it is asked."""

from __future__ import annotations

import hashlib


def unit(trace_id: str, salt: str) -> float:
    """Return the place of a trace in [0, 1): uniform, and unrelated between two salts.

    Turns of one trace are in the sample together.

    >>> unit("4bf92f3577b34da6a3ce929d0e0e4736", "rag-monitor")
    0.1254152142159336
    """
    # blake2b takes a key of up to 64 bytes; a salt may be longer.
    key = hashlib.blake2b(salt.encode(), digest_size=32).digest()
    digest = hashlib.blake2b(trace_id.encode(), key=key, digest_size=8).digest()
    # 53 bits are what a float holds exactly, so 1.0 cannot come of rounding.
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)
