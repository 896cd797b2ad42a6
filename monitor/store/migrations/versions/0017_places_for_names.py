"""Places for the names of apps, environments and releases, which those of the last month have already."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_MONTH = timedelta(days=30)
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_names = sa.table(
    "names",
    sa.column("kind", sa.Text()),
    sa.column("app", sa.Text()),
    sa.column("environment", sa.Text()),
    sa.column("name", sa.Text()),
    sa.column("first_seen", sa.BigInteger()),
    sa.column("last_seen", sa.BigInteger()),
)
_rollups = sa.table(
    "rollups",
    sa.column("app", sa.Text()),
    sa.column("environment", sa.Text()),
    sa.column("release", sa.Text()),
    sa.column("window_start", sa.BigInteger()),
)


def upgrade() -> None:
    """Add the table with the names that have windows, and room for a turn's names as they were sent."""
    op.create_table(
        "names",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("first_seen", sa.BigInteger(), nullable=False),
        sa.Column("last_seen", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "app", "environment", "name", name="pk_names"),
    )
    op.add_column("turn_texts", sa.Column("sent_names", sa.Text(), nullable=True))
    app, environment, release = _rollups.c.app, _rollups.c.environment, _rollups.c.release
    _give_places("app", (sa.literal(""), sa.literal("")), app, [app])
    _give_places("environment", (app, sa.literal("")), environment, [app, environment])
    _give_places("release", (app, environment), release, [app, environment, release])


def _give_places(
    kind: str,
    scope: tuple[sa.ColumnElement[str], sa.ColumnElement[str]],
    name: sa.ColumnElement[str],
    by: list[sa.ColumnElement[str]],
) -> None:
    now = (datetime.now(UTC) - _EPOCH) // _MICROSECOND
    recent = _rollups.c.window_start > now - _MONTH // _MICROSECOND
    latest = sa.func.max(_rollups.c.window_start)
    # A window of the future is a sender's mistake, and would keep its place for good.
    seen = (sa.func.min(_rollups.c.window_start), sa.case((latest > now, sa.literal(now)), else_=latest))
    used = sa.select(sa.literal(kind), *scope, name, *seen).where(recent, name != "", name != "other").group_by(*by)
    op.execute(_names.insert().from_select(list(_names.c.keys()), used))


def downgrade() -> None:
    """Drop both."""
    op.drop_column("turn_texts", "sent_names")
    op.drop_table("names")
