"""A turn says about which metrics it was decided, and a job whether somebody asked for it later."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both; of turns decided about so far nobody knows which metrics there were."""
    op.add_column("turns", sa.Column("asked", sa.Text(), nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("requested_at", sa.BigInteger()))
    op.add_column("rollups", sa.Column("not_asked", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "asked_metrics",
        sa.Column("asked", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("rubric_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("asked", "metric", "rubric_id", name="pk_asked_metrics"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("asked_metrics")
    op.drop_column("rollups", "not_asked")
    op.drop_column("jobs", "requested_at")
    op.drop_column("turns", "asked")
