"""The tables as they were first released."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make every table of an empty database."""
    op.create_table(
        "schema_version",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema_version")),
        _check("schema_version", "one", "id = 1"),
    )
    op.create_table(
        "campaign",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("baseline", sa.JSON),
        *(_time_s(name) for name in ("wall_s", "testbed_s", "apply_s", "workload_s")),
        *(_in_time("campaign", name) for name in ("wall_s", "testbed_s", "apply_s", "workload_s")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaign")),
        _one_of(
            "campaign",
            "campaignstate",
            "state",
            "created running paused finished failed cancelled",
        ),
    )
    op.create_table(
        "trial",
        *_numbered("trial"),
        sa.Column("configuration", sa.JSON, nullable=False),
        sa.Column("race", sa.Integer, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("flags", sa.JSON, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        _one_of("trial", "trialstate", "state", "queued running complete pruned failed cancelled"),
        _check("trial", "race", "race >= 0"),
        _check("trial", "number", "number >= 0"),
    )
    op.create_table(
        "block",
        *_numbered("block"),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("race", sa.Integer, nullable=False),
        sa.Column("order", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        _time_s("duration_s"),
        sa.Column("reason", sa.Text, nullable=False),
        _one_of("block", "blockkind", "kind", "pilot search certify"),
        _one_of("block", "blockstate", "state", "running complete void"),
        _in_time("block", "duration_s"),
        _check("block", "race", "race >= 0"),
        _check("block", "number", "number >= 1"),
    )
    op.create_index(
        "ix_block_one_running",
        "block",
        ["campaign"],
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "measurement",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("block", sa.Integer, nullable=False),
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("requested", sa.JSON, nullable=False),
        sa.Column("effective", sa.JSON, nullable=False),
        sa.Column("actions", sa.JSON, nullable=False),
        _time_s("apply_s"),
        _time_s("workload_s"),
        sa.Column("diagnostics", sa.JSON, nullable=False),
        sa.Column("engine_sha256", sa.Text, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "block", "trial", name=op.f("pk_measurement")),
        sa.UniqueConstraint(
            "campaign", "block", "position", name=op.f("uq_measurement_campaign_block_position")
        ),
        sa.ForeignKeyConstraint(
            ["campaign", "block"],
            ["block.campaign", "block.number"],
            name=op.f("fk_measurement_campaign_block"),
        ),
        sa.ForeignKeyConstraint(
            ["campaign", "trial"],
            ["trial.campaign", "trial.number"],
            name=op.f("fk_measurement_trial"),
        ),
        _check("measurement", "place", "position >= 0"),
        _in_time("measurement", "apply_s"),
        _in_time("measurement", "workload_s"),
    )
    op.create_table(
        "component",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("block", sa.Integer, nullable=False),
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("component", sa.Text, nullable=False),
        _time_s("elapsed_s"),
        sa.Column("operations", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.Double) for name in ("p50_s", "p95_s", "p99_s", "max_s")),
        sa.PrimaryKeyConstraint("campaign", "block", "trial", "component", name="pk_component"),
        sa.ForeignKeyConstraint(
            ["campaign", "block", "trial"],
            ["measurement.campaign", "measurement.block", "measurement.trial"],
            name=op.f("fk_component_campaign_measurement"),
        ),
        _check("component", "elapsed_s", "elapsed_s > 0 AND elapsed_s < 1e9"),
        _check("component", "amounts", "operations >= 0 AND bytes >= 0"),
        *(_in_time("component", name) for name in ("p50_s", "p95_s", "p99_s", "max_s")),
    )
    op.create_table(
        "event",
        *_numbered("event"),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        _check("event", "number", "number >= 1"),
    )
    op.create_table(
        "recommendation",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("answer", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("trial", sa.Integer, nullable=False),
        sa.Column("configuration", sa.JSON, nullable=False),
        sa.Column("baseline", sa.JSON, nullable=False),
        sa.Column("flags", sa.JSON, nullable=False),
        sa.Column("baseline_flags", sa.JSON, nullable=False),
        sa.Column("confidence", sa.Double, nullable=False),
        sa.Column("blocks", sa.Integer, nullable=False),
        sa.Column("ratio", sa.Double),
        sa.Column("lower", sa.Double),
        sa.Column("upper", sa.Double),
        sa.Column("largest_compatible_improvement", sa.Double),
        sa.Column("e_value", sa.Double),
        sa.Column("threshold", sa.Double),
        sa.Column("notes", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("campaign", name=op.f("pk_recommendation")),
        sa.ForeignKeyConstraint(
            ["campaign"], ["campaign.id"], name=op.f("fk_recommendation_campaign_campaign")
        ),
        sa.ForeignKeyConstraint(
            ["campaign", "trial"],
            ["trial.campaign", "trial.number"],
            name=op.f("fk_recommendation_trial"),
        ),
        _one_of("recommendation", "answer", "answer", "recommended no_improvement"),
        _check("recommendation", "blocks", "blocks >= 0"),
        _check("recommendation", "confidence", "confidence > 0 AND confidence < 1"),
    )
    op.create_table(
        "effect",
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("component", sa.Text, nullable=False),
        sa.Column("ratio", sa.Double, nullable=False),
        sa.Column("lower", sa.Double, nullable=False),
        sa.Column("upper", sa.Double, nullable=False),
        sa.Column("floor_held", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "component", name=op.f("pk_effect")),
        sa.ForeignKeyConstraint(
            ["campaign"],
            ["recommendation.campaign"],
            name=op.f("fk_effect_campaign_recommendation"),
        ),
    )


def _numbered(table: str) -> tuple[sa.Column[str] | sa.Column[int] | sa.Constraint, ...]:
    return (
        sa.Column("campaign", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("campaign", "number", name=op.f(f"pk_{table}")),
        sa.ForeignKeyConstraint(
            ["campaign"], ["campaign.id"], name=op.f(f"fk_{table}_campaign_campaign")
        ),
    )


def _check(table: str, name: str, rule: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(rule, name=op.f(f"ck_{table}_{name}"))


def _one_of(table: str, name: str, column: str, words: str) -> sa.CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words.split())
    return _check(table, name, f"{column} IN ({listed})")


def _time_s(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False)


def _in_time(table: str, name: str) -> sa.CheckConstraint:
    return _check(table, name, f"{name} >= 0 AND {name} < 1e9")
