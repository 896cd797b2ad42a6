"""What stands for a person's ids where the ids themselves must not: a hash under a key of this store."""

from __future__ import annotations

import hashlib
import secrets

from sqlalchemy import Connection, select

from monitor.store.statements import insert
from monitor.store.tables import keys
from monitor.text.repair import repaired

SESSION = "session"
"""Name of the key under which ids of sessions are hashed."""
KEY_BYTES = 32


def pseudonym(identifier: str, *, key: bytes) -> str:
    """Return what stands for an id in the store that holds this key: 24 hex characters, part of the stored data."""
    return hashlib.blake2b(identifier.encode("utf-8", "replace"), key=key, digest_size=12).hexdigest()


def key(connection: Connection, name: str) -> bytes:
    """Return the key of this name; of several processes that ask first, all get the same."""
    connection.execute(
        insert(connection, keys)
        .values(name=name, value=secrets.token_bytes(KEY_BYTES))
        .on_conflict_do_nothing(index_elements=["name"])
    )
    return bytes(connection.execute(select(keys.c.value).where(keys.c.name == name)).scalar_one())


def of_session(connection: Connection, session_id: str) -> str:
    """Return what stands for the session; empty, which no session is, when the store has no key and so no session."""
    value = connection.execute(select(keys.c.value).where(keys.c.name == SESSION)).scalar()
    return "" if value is None else pseudonym(repaired(session_id), key=bytes(value))
