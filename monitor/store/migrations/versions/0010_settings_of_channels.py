"""A notification says since when it is to be sent, and under which settings of its channel it was last tried."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both; what was given up so far was tried under settings that nobody wrote down, so it is tried again."""
    op.add_column("notifications", sa.Column("waiting_since", sa.BigInteger()))
    op.add_column("notifications", sa.Column("channel_digest", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop both."""
    op.drop_column("notifications", "channel_digest")
    op.drop_column("notifications", "waiting_since")
