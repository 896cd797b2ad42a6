"""Traces that others link to and that had not arrived yet, so that the others are read again when they do."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "awaited_links",
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("linked_trace_id", sa.Text(), nullable=False),
        sa.Column("through", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("trace_id", "linked_trace_id", name="pk_awaited_links"),
    )
    op.create_index("ix_awaited_links_linked_trace_id", "awaited_links", ["linked_trace_id"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("awaited_links")
