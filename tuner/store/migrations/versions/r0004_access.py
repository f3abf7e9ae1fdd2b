"""Tokens of the service, and keys of requests that must not be done twice."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add both tables."""
    op.create_table(
        "token",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("scope", sa.String(16), nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True)),
        sa.Column("revoked", sa.DateTime(timezone=True)),
        sa.Column("parent", sa.Text),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token")),
        sa.ForeignKeyConstraint(["parent"], ["token.id"], name=op.f("fk_token_parent_token")),
        sa.CheckConstraint("scope IN ('read', 'operate', 'admin')", name=op.f("ck_token_scope")),
    )
    op.create_table(
        "posted",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("campaign", sa.Text),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_posted")),
        sa.ForeignKeyConstraint(
            ["campaign"], ["campaign.id"], name=op.f("fk_posted_campaign_campaign")
        ),
    )
