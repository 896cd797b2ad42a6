"""What judges cost, a row a process and day; and verdicts found again by what they are about."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add table and index; what was spent before is in the verdicts only."""
    op.create_table(
        "spend",
        sa.Column("day", sa.BigInteger(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("usd", sa.Double(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "worker", name=op.f("pk_spend")),
    )
    op.create_index(
        "ix_outcomes_verdicts",
        "outcomes",
        ["content_hash", "rubric_id"],
        unique=False,
        sqlite_where=sa.text("reason IS NULL"),
        postgresql_where=sa.text("reason IS NULL"),
    )


def downgrade() -> None:
    """Drop both."""
    op.drop_index("ix_outcomes_verdicts", "outcomes")
    op.drop_table("spend")
