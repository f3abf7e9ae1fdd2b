"""The measurements of a trial are found without reading those of all others."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """For one, deleting a long campaign took a minute: each trial was checked for measurements."""
    op.create_index("ix_measurement_trial", "measurement", ["campaign", "trial"])
