"""What Alembic runs: the revisions, on the connection and in the transaction that it is given."""

from __future__ import annotations

from alembic import context

from tuner.store import tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=tables.metadata,
)
with context.begin_transaction():
    context.run_migrations()
