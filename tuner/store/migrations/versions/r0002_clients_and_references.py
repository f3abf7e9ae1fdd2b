"""Results of each client, runs of references; Alembic keeps the version, marks what arrived."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_COLUMNS = (
    "campaign, block, trial, component, elapsed_s, operations, bytes, p50_s, p95_s, p99_s, max_s"
)


def upgrade() -> None:
    """Bring the tables of the first release to these. What was measured, all clients share."""
    op.drop_table("schema_version")
    op.create_table(
        "mark",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mark")),
    )
    _component()
    _references()


def _component() -> None:
    """The key of a table that SQLite has cannot be changed: make it anew."""
    op.rename_table("component", "component_before")
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint("pk_component", "component_before")  # frees the name of its index
    op.create_table(
        "component",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("block", sa.Integer, nullable=False),
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("component", sa.Text, nullable=False),
        sa.Column("client", sa.Text, nullable=False),
        *_numbers("component"),
        sa.PrimaryKeyConstraint(
            "campaign", "block", "trial", "component", "client", name=op.f("pk_component")
        ),
        sa.ForeignKeyConstraint(
            ["campaign", "block", "trial"],
            ["measurement.campaign", "measurement.block", "measurement.trial"],
            name=op.f("fk_component_campaign_measurement"),
        ),
    )
    op.execute(
        f"INSERT INTO component ({_COLUMNS}, client) SELECT {_COLUMNS}, '' FROM component_before"
    )
    op.drop_table("component_before")


def _references() -> None:
    op.create_table(
        "reference",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("block", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("workload_s", sa.Double, nullable=False),
        sa.Column("page_cache", sa.String(16)),
        sa.Column("engine_sha256", sa.Text, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "block", "name", name=op.f("pk_reference")),
        sa.ForeignKeyConstraint(
            ["campaign", "block"],
            ["block.campaign", "block.number"],
            name=op.f("fk_reference_campaign_block"),
        ),
        _check("reference", "place", "position >= 0"),
        _check("reference", "workload_s", "workload_s >= 0 AND workload_s < 1e9"),
        _check("reference", "pagecache", "page_cache IN ('dropped', 'not_controllable')"),
    )
    op.create_table(
        "reference_component",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("block", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("component", sa.Text, nullable=False),
        *_numbers("reference_component"),
        sa.PrimaryKeyConstraint(
            "campaign", "block", "name", "component", name=op.f("pk_reference_component")
        ),
        sa.ForeignKeyConstraint(
            ["campaign", "block", "name"],
            ["reference.campaign", "reference.block", "reference.name"],
            name=op.f("fk_reference_component_campaign_reference"),
        ),
    )


def _numbers(table: str) -> Iterator[sa.Column[float] | sa.Column[int] | sa.CheckConstraint]:
    quantiles = ("p50_s", "p95_s", "p99_s", "max_s")
    yield sa.Column("elapsed_s", sa.Double, nullable=False)
    yield sa.Column("operations", sa.BigInteger, nullable=False)
    yield sa.Column("bytes", sa.BigInteger, nullable=False)
    yield from (sa.Column(name, sa.Double) for name in quantiles)
    yield _check(table, "elapsed_s", "elapsed_s > 0 AND elapsed_s < 1e9")
    yield _check(table, "amounts", "operations >= 0 AND bytes >= 0")
    yield from (_check(table, name, f"{name} >= 0 AND {name} < 1e9") for name in quantiles)


def _check(table: str, name: str, rule: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(rule, name=op.f(f"ck_{table}_{name}"))
