"""Jobs count their own failures, apart from how often they were claimed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; waiting jobs start without failures."""
    op.add_column("jobs", sa.Column("failures", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("jobs", "failures")
