"""Second opinions on verdicts, and which versions of a judge have answered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both tables."""
    op.create_table(
        "judge_versions",
        sa.Column("judge", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("first_seen", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("judge", "model", "fingerprint", name=op.f("pk_judge_versions")),
    )
    op.create_table(
        "opinions",
        sa.Column("turn_id", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("rubric_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("judge_model", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("defect", sa.Boolean(), nullable=False),
        sa.Column("first_score", sa.Double(), nullable=True),
        sa.Column("first_defect", sa.Boolean(), nullable=False),
        sa.Column("judged_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "turn_id", "metric", "rubric_id", "kind", "judge_model", "fingerprint", name=op.f("pk_opinions")
        ),
    )
    op.create_index(op.f("ix_opinions_judged_at"), "opinions", ["judged_at"], unique=False)


def downgrade() -> None:
    """Drop both."""
    op.drop_index(op.f("ix_opinions_judged_at"), "opinions")
    op.drop_table("opinions")
    op.drop_table("judge_versions")
