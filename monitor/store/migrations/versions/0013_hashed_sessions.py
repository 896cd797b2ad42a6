"""Session ids stand with the text and go with it; a keyed hash of each stays with the turn."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

from monitor.store.pseudonyms import KEY_BYTES, SESSION, pseudonym

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_AT_ONCE = 500

_keys = sa.table("keys", sa.column("name", sa.Text()), sa.column("value", sa.LargeBinary()))
_hashes = sa.table("session_hashes", sa.column("session_id", sa.Text()), sa.column("session_hash", sa.Text()))
_texts = sa.table("turn_texts", sa.column("turn_id", sa.Text()), sa.column("session_id", sa.Text()))
_turns = sa.table(
    "turns",
    sa.column("turn_id", sa.Text()),
    sa.column("session_id", sa.Text()),
    sa.column("session_hash", sa.Text()),
)


def upgrade() -> None:
    """Move the ids, hash them, and take them out of the rows before the column goes: PostgreSQL would keep them."""
    op.add_column("turns", sa.Column("session_hash", sa.Text(), nullable=True))
    op.add_column("turn_texts", sa.Column("session_id", sa.Text(), nullable=True))
    sent = sa.select(_turns.c.session_id).where(_turns.c.turn_id == _texts.c.turn_id).scalar_subquery()
    op.execute(_texts.update().values(session_id=sent))
    _hash_each()
    hashed = _turns.update().where(_turns.c.session_id == _hashes.c.session_id)
    op.execute(hashed.values(session_hash=_hashes.c.session_hash, session_id=sa.null()))
    op.drop_table("session_hashes")
    op.drop_column("turns", "session_id")


def downgrade() -> None:
    """Give the turns whose text is kept their ids back."""
    op.add_column("turns", sa.Column("session_id", sa.Text(), nullable=True))
    kept = sa.select(_texts.c.session_id).where(_texts.c.turn_id == _turns.c.turn_id).scalar_subquery()
    op.execute(_turns.update().values(session_id=kept))
    op.drop_column("turn_texts", "session_id")
    op.drop_column("turns", "session_hash")


def _hash_each() -> None:
    """Fill a table with the hash of each id, since neither database has the function."""
    connection = op.get_bind()
    op.create_table(
        "session_hashes",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("session_hash", sa.Text(), nullable=False),
    )
    key = connection.execute(sa.select(_keys.c.value).where(_keys.c.name == SESSION)).scalar()
    if key is None:
        key = secrets.token_bytes(KEY_BYTES)
        connection.execute(_keys.insert().values(name=SESSION, value=key))
    ids = (
        connection.execute(sa.select(_turns.c.session_id).where(_turns.c.session_id.is_not(None)).distinct())
        .scalars()
        .all()
    )
    for start in range(0, len(ids), _AT_ONCE):
        rows = [
            {"session_id": session_id, "session_hash": pseudonym(session_id, key=bytes(key))}
            for session_id in ids[start : start + _AT_ONCE]
        ]
        connection.execute(_hashes.insert(), rows)
