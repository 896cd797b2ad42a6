"""The evidence of an alert says its unit: both columns hold powers of ten."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NEW_NAMES = {"evidence": "evidence_log10", "threshold": "threshold_log10"}


def upgrade() -> None:
    """Rename both; alembic itself cannot on SQLite."""
    for old, new in _NEW_NAMES.items():
        op.execute(f"ALTER TABLE alerts RENAME COLUMN {old} TO {new}")


def downgrade() -> None:
    """Name both as before."""
    for old, new in _NEW_NAMES.items():
        op.execute(f"ALTER TABLE alerts RENAME COLUMN {new} TO {old}")
