"""A trace says by which rules it was read, and whether that failed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both; what a fault of ours ended so far is tried again."""
    op.add_column("traces", sa.Column("rules", sa.Text(), nullable=False, server_default=""))
    op.add_column("traces", sa.Column("failed", sa.Boolean(), nullable=False, server_default=sa.false()))
    traces = sa.table("traces", sa.column("unread", sa.Text()), sa.column("failed", sa.Boolean()))
    op.execute(traces.update().where(traces.c.unread.contains('"internal"')).values(failed=True))
    failed = sa.text("failed")
    op.create_index("ix_traces_failed", "traces", ["trace_id"], sqlite_where=failed, postgresql_where=failed)


def downgrade() -> None:
    """Drop both."""
    op.drop_index("ix_traces_failed", "traces")
    op.drop_column("traces", "failed")
    op.drop_column("traces", "rules")
