"""On which client hosts a configuration was applied."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Earlier releases stored only the testbed, so their applications have no clients."""
    column = sa.Column("clients", sa.JSON, nullable=False, server_default="[]")
    op.add_column("application", column)
