"""A campaign on several testbeds: a lease for each, and blocks that are measured at once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_LEASE = "testbed, campaign, token, host, machine, pid, start_ticks, taken, beat, limit_s"


def upgrade() -> None:
    """Existing blocks were measured one after another."""
    op.add_column("block", sa.Column("batch", sa.Integer))
    op.add_column("block", sa.Column("slot", sa.Integer, nullable=False, server_default="0"))
    op.drop_index("ix_block_one_running", "block")
    running = sa.text("state = 'running'")
    op.create_index(
        "ix_block_one_running",
        "block",
        ["campaign", "slot"],
        unique=True,
        sqlite_where=running,
        postgresql_where=running,
    )
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint("uq_lease_campaign", "lease")
    else:
        _lease()


def _lease() -> None:
    """A constraint of a table that SQLite has cannot be dropped: make it anew."""
    op.rename_table("lease", "lease_before")
    op.create_table(
        "lease",
        sa.Column("testbed", sa.Text, nullable=False),
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("machine", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("start_ticks", sa.BigInteger, nullable=False),
        sa.Column("taken", sa.DateTime(timezone=True), nullable=False),
        sa.Column("beat", sa.DateTime(timezone=True), nullable=False),
        sa.Column("limit_s", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("testbed", name=op.f("pk_lease")),
        sa.ForeignKeyConstraint(
            ["campaign"], ["campaign.id"], name=op.f("fk_lease_campaign_campaign")
        ),
        sa.CheckConstraint("limit_s > 0 AND limit_s < 1e9", name=op.f("ck_lease_limit_s")),
    )
    op.execute(f"INSERT INTO lease ({_LEASE}) SELECT {_LEASE} FROM lease_before")
    op.drop_table("lease_before")
