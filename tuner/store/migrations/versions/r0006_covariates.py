"""What others did to the machines during each run, beside its times."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """What was measured before did not count the time that its counters were about."""
    op.create_table(
        "covariate",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("block", sa.Integer, nullable=False),
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("others_server", sa.Double),
        sa.Column("others_clients", sa.Double),
        sa.Column("stolen_server", sa.Double),
        sa.Column("stolen_clients", sa.Double),
        sa.Column("iowait_server", sa.Double),
        sa.Column("iowait_clients", sa.Double),
        sa.PrimaryKeyConstraint("campaign", "block", "trial", name=op.f("pk_covariate")),
        sa.ForeignKeyConstraint(
            ["campaign", "block", "trial"],
            ["measurement.campaign", "measurement.block", "measurement.trial"],
            name=op.f("fk_covariate_campaign_measurement"),
        ),
    )
