"""Run by alembic: migrates the connection that `monitor.store.migration` holds, in that connection's transaction."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
