"""Alembic's entry point: runs the revisions on a connection, in its transaction, both passed in."""

from __future__ import annotations

from alembic import context

from tuner.store import tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=tables.metadata,
)
with context.begin_transaction():
    context.run_migrations()
