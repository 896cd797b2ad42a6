"""PostgreSQL takes deleted text out soon, and SQLite's file says whose it is."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_TEXT = ("spans", "turn_texts", "exchanges")
_SOON = {"vacuum_scale_factor": "0.01", "vacuum_threshold": "1000"}
_NAMES = [f"{prefix}autovacuum_{name}" for prefix in ("", "toast.") for name in _SOON]
_APPLICATION_ID = 0x7261676D
"""The letters "ragm", https://www.sqlite.org/fileformat2.html section 1.3."""


def upgrade() -> None:
    """Vacuum tables of text when a hundredth of them is deleted instead of a fifth."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        return
    for table in _TEXT:
        values = ", ".join(f"{name} = {_SOON[name.partition('autovacuum_')[2]]}" for name in _NAMES)
        op.execute(f"ALTER TABLE {table} SET ({values})")


def downgrade() -> None:
    """Leave it to the server's settings."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("PRAGMA application_id = 0")
        return
    for table in _TEXT:
        op.execute(f"ALTER TABLE {table} RESET ({', '.join(_NAMES)})")
