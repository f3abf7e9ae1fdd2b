"""What a campaign measures with, requests to it, who uses which testbed, and earlier findings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Unknown for existing campaigns; it is noted when one runs again."""
    op.add_column("block", sa.Column("testbed", sa.Text))
    running = sa.text("state = 'running'")
    op.create_index(
        "ix_block_one_on_a_testbed",
        "block",
        ["testbed"],
        unique=True,
        sqlite_where=running,
        postgresql_where=running,
    )
    op.create_index("ix_campaign_newest", "campaign", ["created", "id"])
    op.create_index("ix_event_kind", "event", ["campaign", "kind", "number"])
    _make_measured_with()
    _request()
    _lease()
    _prior()


def _make_measured_with() -> None:
    op.create_table(
        "measured_with",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("aspect", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("document", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "aspect", name=op.f("pk_measured_with")),
        _of_campaign("measured_with"),
    )


def _request() -> None:
    op.create_table(
        "request",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("wish", sa.String(16), nullable=False),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("campaign", name=op.f("pk_request")),
        _of_campaign("request"),
        sa.CheckConstraint("wish IN ('pause', 'cancel')", name=op.f("ck_request_wish")),
    )


def _lease() -> None:
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
        sa.UniqueConstraint("campaign", name=op.f("uq_lease_campaign")),
        _of_campaign("lease"),
        sa.CheckConstraint("limit_s > 0 AND limit_s < 1e9", name=op.f("ck_lease_limit_s")),
    )


def _prior() -> None:
    op.create_table(
        "prior",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("configuration", sa.JSON, nullable=False),
        sa.Column("difference", sa.Double, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "number", name=op.f("pk_prior")),
        _of_campaign("prior"),
    )


def _of_campaign(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["campaign"], ["campaign.id"], name=op.f(f"fk_{table}_campaign_campaign")
    )
