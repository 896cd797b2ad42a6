"""Which traces were erased."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "erased_traces",
        sa.Column("trace_hash", sa.Text(), nullable=False),
        sa.Column("erased_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("trace_hash", name="pk_erased_traces"),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("erased_traces")
