"""Imported turns may say which documents should have been found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("turn_texts", sa.Column("relevant_ids", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("turn_texts", "relevant_ids")
