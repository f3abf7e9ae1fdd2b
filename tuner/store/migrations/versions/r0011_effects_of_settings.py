"""The effect of each recommended setting."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Earlier answers have them only in a note."""
    column = sa.Column("settings", sa.JSON, nullable=False, server_default="{}")
    op.add_column("recommendation", column)
