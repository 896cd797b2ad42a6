"""What a change of the judge has to do with an alert, and an index for old verdicts judged again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both."""
    op.add_column("alerts", sa.Column("judge_change", sa.Text(), server_default="", nullable=False))
    op.create_index(
        "ix_opinions_anchors",
        "opinions",
        ["judged_at"],
        unique=False,
        sqlite_where=sa.text("kind = 'anchor'"),
        postgresql_where=sa.text("kind = 'anchor'"),
    )


def downgrade() -> None:
    """Drop both."""
    op.drop_index("ix_opinions_anchors", "opinions")
    op.drop_column("alerts", "judge_change")
