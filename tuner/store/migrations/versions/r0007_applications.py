"""Configurations that were brought into force: which, where, by whom, and what was there before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_STATES = (
    "planned",
    "applying",
    "committing",
    "applied",
    "rolling_back",
    "rolled_back",
    "failed",
)


def upgrade() -> None:
    """Nothing was applied by earlier releases."""
    states = ", ".join(f"'{state}'" for state in _STATES)
    op.create_table(
        "application",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("testbed", sa.Text, nullable=False),
        sa.Column("section", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("stepwise", sa.Boolean, nullable=False),
        sa.Column("programs", sa.Text, nullable=False),
        sa.Column("before", sa.JSON, nullable=False),
        sa.Column("after", sa.JSON, nullable=False),
        sa.Column("planned", sa.DateTime(timezone=True), nullable=False),
        sa.Column("planned_by", sa.Text, nullable=False),
        sa.Column("changed", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
        sa.Column("asked_by", sa.Text),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_application")),
        sa.ForeignKeyConstraint(
            ["campaign"], ["campaign.id"], name=op.f("fk_application_campaign_campaign")
        ),
        sa.CheckConstraint(f"state IN ({states})", name=op.f("ck_application_applicationstate")),
    )
    op.create_index("ix_application_campaign", "application", ["campaign", "planned"])
