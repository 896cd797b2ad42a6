"""Second opinions are called what they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_OLD, _NEW = "opinions", "second_opinions"


def upgrade() -> None:
    """Give the table, its key and its indexes the new name."""
    _rename(_OLD, _NEW)


def downgrade() -> None:
    """Give them the old one."""
    _rename(_NEW, _OLD)


def _rename(old: str, new: str) -> None:
    op.drop_index(f"ix_{old}_judged_at", old)
    op.drop_index(f"ix_{old}_anchors", old)
    op.rename_table(old, new)
    # SQLite shows the name of a key to nobody and cannot change it.
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"ALTER TABLE {new} RENAME CONSTRAINT pk_{old} TO pk_{new}")
    op.create_index(f"ix_{new}_judged_at", new, ["judged_at"], unique=False)
    op.create_index(
        f"ix_{new}_anchors",
        new,
        ["judged_at"],
        unique=False,
        sqlite_where=sa.text("kind = 'anchor'"),
        postgresql_where=sa.text("kind = 'anchor'"),
    )
