"""Writes the tables of text anew every so often, by whichever process prunes then.

Deleting leaves bytes in the files: PostgreSQL's vacuum sets room free and does not overwrite it
(https://www.postgresql.org/docs/current/routine-vacuuming.html), SQLite's `secure_delete` misses what moved within a
page before.
"""

from __future__ import annotations

import logging
import secrets
from datetime import timedelta

from monitor.errors import StoreUnavailable
from monitor.stores import Store

log = logging.getLogger(__name__)

_LEASE = "rewrite"
_PAUSE = timedelta(hours=1)
"""How long after one that failed nobody tries: as much was written anew for nothing."""


def rewrite_when_due(store: Store, *, every: timedelta) -> bool:
    """Rewrite the tables of text unless some process did within `every`; return whether they were.

    Raises:
        StoreUnavailable: the database cannot be reached, has no room for the rows a second time, or is being read.
    """
    # A holder of its own each time: the lease lasts from one rewriting to the next, whoever does them.
    holder = secrets.token_hex(8)
    if not store.take_lease(_LEASE, holder, ttl=every):
        return False
    try:
        is_done = store.kept_text.rewrite()
    except StoreUnavailable:
        store.take_lease(_LEASE, holder, ttl=min(every, _PAUSE))
        raise
    if not is_done:
        log.warning("retention.rewrite_every: the tables of text belong to another role, which has to rewrite them")
    return is_done
