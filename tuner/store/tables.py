"""The tables, and the invariants that the database enforces no matter who writes to it.

Rows are identified by the names used outside (campaign, then number): there are no surrogate keys.
The same definitions are used for SQLite and PostgreSQL.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    Enum,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.schema import SchemaItem

from tuner.model import COVARIATES, Answer, BlockKind, Configuration, PageCache, Wish
from tuner.states import ApplicationState, BlockState, CampaignState, TrialState
from tuner.store.column_types import JsonShape, Seed, UtcTime
from tuner.store.json_shapes import flags, setting_effects
from tuner.tokens import Scope

#: The newest revision in ``migrations``: it results in these definitions, and each change of them
#: needs one. A database of any other revision is refused.
REVISION = "0011"

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def _words(kind: type[StrEnum]) -> Enum:
    """One of the words of ``kind``, enforced by a check constraint."""
    return Enum(
        kind,
        values_callable=lambda words: [word.value for word in words],
        native_enum=False,
        create_constraint=True,
        name=kind.__name__.lower(),
        length=16,
    )


def _time_s(name: str, *, above_zero: bool = False) -> CheckConstraint:
    """A finite time. Without the upper bound (30 years) SQLite would accept infinity, and even
    text.
    """
    least = ">" if above_zero else ">="
    return CheckConstraint(f"{name} {least} 0 AND {name} < 1e9", name=name)


def _in_campaign() -> Column[str]:
    return Column("campaign", Text, ForeignKey("campaign.id"), primary_key=True)


def _number() -> Column[int]:
    # Numbers are assigned by the caller: the database must not generate them.
    return Column("number", Integer, primary_key=True, autoincrement=False)


#: Marks of transactions that are sent over a network: see ``PostgreSQL.write``.
mark = Table(
    "mark",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at", UtcTime, nullable=False),
)

campaign = Table(
    "campaign",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("state", _words(CampaignState), nullable=False),
    Column("spec", Text, nullable=False),
    Column("seed", Seed, nullable=False),
    Column("created", UtcTime, nullable=False),
    Column("updated", UtcTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("baseline", JsonShape(Configuration.of)),
    Column("wall_s", Double, _time_s("wall_s"), nullable=False),
    Column("testbed_s", Double, _time_s("testbed_s"), nullable=False),
    Column("apply_s", Double, _time_s("apply_s"), nullable=False),
    Column("workload_s", Double, _time_s("workload_s"), nullable=False),
    Index("ix_campaign_newest", "created", "id"),
)

#: What a campaign measures with, one row per aspect; a run that resumes it must have the same.
measured_with = Table(
    "measured_with",
    metadata,
    _in_campaign(),
    Column("aspect", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("document", JSON, nullable=False),
)

#: The pending request to a running campaign.
request = Table(
    "request",
    metadata,
    _in_campaign(),
    Column("wish", _words(Wish), nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
)

#: Leases: the process and campaign that use a testbed now. ``beat``: by the clock of the database.
lease = Table(
    "lease",
    metadata,
    Column("testbed", Text, primary_key=True),
    Column("campaign", Text, ForeignKey("campaign.id"), nullable=False),
    Column("token", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("machine", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("start_ticks", BigInteger, nullable=False),
    Column("taken", UtcTime, nullable=False),
    Column("beat", UtcTime, nullable=False),
    Column("limit_s", Double, _time_s("limit_s", above_zero=True), nullable=False),
)

#: Findings of an earlier campaign, used only by the proposer.
prior = Table(
    "prior",
    metadata,
    _in_campaign(),
    _number(),
    Column("configuration", JsonShape(Configuration.of), nullable=False),
    Column("difference", Double, nullable=False),
    Column("origin", Text, nullable=False),
)

trial = Table(
    "trial",
    metadata,
    _in_campaign(),
    _number(),
    Column("configuration", JsonShape(Configuration.of), nullable=False),
    Column("round", Integer, CheckConstraint("round >= 0", name="round"), nullable=False),
    Column("origin", Text, nullable=False),
    Column("state", _words(TrialState), nullable=False),
    Column("flags", JsonShape(flags), nullable=False),
    Column("reason", Text, nullable=False),
    CheckConstraint("number >= 0", name="number"),
)

block = Table(
    "block",
    metadata,
    _in_campaign(),
    _number(),
    Column("kind", _words(BlockKind), nullable=False),
    Column("round", Integer, CheckConstraint("round >= 0", name="round"), nullable=False),
    Column("order", JsonShape(tuple), nullable=False),
    Column("state", _words(BlockState), nullable=False),
    Column("duration_s", Double, _time_s("duration_s"), nullable=False),
    Column("reason", Text, nullable=False),
    # Blocks on the same testbed disturb each other; null: not recorded by earlier releases.
    Column("testbed", Text),
    # For blocks that are measured at once: the number of the first one, and the place among them.
    Column("batch", Integer),
    Column("slot", Integer, nullable=False, server_default="0"),
    CheckConstraint("number >= 1", name="number"),
)

_is_running = block.c.state == BlockState.RUNNING
for _name, _columns in (
    ("ix_block_one_running", (block.c.campaign, block.c.slot)),
    ("ix_block_one_on_a_testbed", (block.c.testbed,)),
):
    # PostgreSQL's condition is set in postgresql.py: here it would import all of its dialect.
    Index(_name, *_columns, unique=True, sqlite_where=_is_running)

measurement = Table(
    "measurement",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("block", Integer, primary_key=True),
    Column("trial", Integer, primary_key=True),
    Column("position", Integer, CheckConstraint("position >= 0", name="place"), nullable=False),
    Column("started", UtcTime, nullable=False),
    Column("requested", JsonShape(Configuration.of), nullable=False),
    Column("effective", JsonShape(Configuration.of), nullable=False),
    Column("actions", JsonShape(tuple), nullable=False),
    Column("apply_s", Double, _time_s("apply_s"), nullable=False),
    Column("workload_s", Double, _time_s("workload_s"), nullable=False),
    Column("diagnostics", JSON, nullable=False),
    Column("engine_sha256", Text, nullable=False),
    Column("seed", Seed, nullable=False),
    UniqueConstraint("campaign", "block", "position"),
    ForeignKeyConstraint(["campaign", "block"], ["block.campaign", "block.number"]),
    # Named, as the naming convention would give it the name of the one before.
    ForeignKeyConstraint(
        ["campaign", "trial"], ["trial.campaign", "trial.number"], name="fk_measurement_trial"
    ),
    # For the newest measurement of a trial, and for deletion, which checks this for each trial.
    Index("ix_measurement_trial", "campaign", "trial"),
)

#: Load from others during a run, extracted from the diagnostics: reading those for every look of
#: the judge would take longer than everything else. A row exists where any value is known.
covariate = Table(
    "covariate",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("block", Integer, primary_key=True),
    Column("trial", Integer, primary_key=True),
    *(Column(name, Double) for name in COVARIATES),
    ForeignKeyConstraint(
        ["campaign", "block", "trial"],
        ["measurement.campaign", "measurement.block", "measurement.trial"],
    ),
)


def _component_numbers() -> tuple[SchemaItem, ...]:
    """Return the columns of the numbers of a component, with their constraints."""
    return (
        Column("elapsed_s", Double, _time_s("elapsed_s", above_zero=True), nullable=False),
        Column("operations", BigInteger, nullable=False),
        Column("bytes", BigInteger, nullable=False),
        Column("p50_s", Double, _time_s("p50_s")),
        Column("p95_s", Double, _time_s("p95_s")),
        Column("p99_s", Double, _time_s("p99_s")),
        Column("max_s", Double, _time_s("max_s")),
        CheckConstraint("operations >= 0 AND bytes >= 0", name="amounts"),
    )


component = Table(
    "component",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("block", Integer, primary_key=True),
    Column("trial", Integer, primary_key=True),
    Column("component", Text, primary_key=True),
    # The host of one of several clients; "" for all of them combined, which is what is judged.
    Column("client", Text, primary_key=True),
    *_component_numbers(),
    ForeignKeyConstraint(
        ["campaign", "block", "trial"],
        ["measurement.campaign", "measurement.block", "measurement.trial"],
    ),
)

reference = Table(
    "reference",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("block", Integer, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("position", Integer, CheckConstraint("position >= 0", name="place"), nullable=False),
    Column("started", UtcTime, nullable=False),
    Column("workload_s", Double, _time_s("workload_s"), nullable=False),
    Column("page_cache", _words(PageCache)),
    Column("engine_sha256", Text, nullable=False),
    Column("seed", Seed, nullable=False),
    ForeignKeyConstraint(["campaign", "block"], ["block.campaign", "block.number"]),
)

reference_component = Table(
    "reference_component",
    metadata,
    Column("campaign", Text, primary_key=True),
    Column("block", Integer, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("component", Text, primary_key=True),
    *_component_numbers(),
    ForeignKeyConstraint(
        ["campaign", "block", "name"],
        ["reference.campaign", "reference.block", "reference.name"],
    ),
)

event = Table(
    "event",
    metadata,
    _in_campaign(),
    _number(),
    Column("at", UtcTime, nullable=False),
    Column("kind", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("data", JSON, nullable=False),
    CheckConstraint("number >= 1", name="number"),
    Index("ix_event_kind", "campaign", "kind", "number"),
)

recommendation = Table(
    "recommendation",
    metadata,
    _in_campaign(),
    Column("answer", _words(Answer), nullable=False),
    Column("reason", Text, nullable=False),
    Column("trial", Integer, nullable=False),
    Column("configuration", JsonShape(Configuration.of), nullable=False),
    Column("baseline", JsonShape(Configuration.of), nullable=False),
    Column("flags", JsonShape(flags), nullable=False),
    Column("baseline_flags", JsonShape(flags), nullable=False),
    Column("confidence", Double, nullable=False),
    Column("blocks", Integer, CheckConstraint("blocks >= 0", name="blocks"), nullable=False),
    Column("ratio", Double),
    Column("lower", Double),
    Column("upper", Double),
    Column("largest_compatible_improvement", Double),
    Column("e_value", Double),
    Column("threshold", Double),
    Column("notes", JsonShape(tuple), nullable=False),
    Column("settings", JsonShape(setting_effects), nullable=False, server_default="{}"),
    CheckConstraint("confidence > 0 AND confidence < 1", name="confidence"),
    ForeignKeyConstraint(
        ["campaign", "trial"], ["trial.campaign", "trial.number"], name="fk_recommendation_trial"
    ),
)

effect = Table(
    "effect",
    metadata,
    Column("campaign", Text, ForeignKey("recommendation.campaign"), primary_key=True),
    Column("component", Text, primary_key=True),
    Column("ratio", Double, nullable=False),
    Column("lower", Double, nullable=False),
    Column("upper", Double, nullable=False),
    Column("floor_held", Boolean, nullable=False),
)

#: Configurations brought into force, and the values before; see ``Application``.
application = Table(
    "application",
    metadata,
    Column("id", Text, primary_key=True),
    Column("campaign", Text, ForeignKey("campaign.id"), nullable=False),
    Column("state", _words(ApplicationState), nullable=False),
    Column("reason", Text, nullable=False),
    Column("testbed", Text, nullable=False),
    Column("section", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("stepwise", Boolean, nullable=False),
    Column("programs", Text, nullable=False),
    Column("before", JsonShape(Configuration.of), nullable=False),
    Column("after", JsonShape(Configuration.of), nullable=False),
    Column("planned", UtcTime, nullable=False),
    Column("planned_by", Text, nullable=False),
    Column("changed", UtcTime, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("asked_by", Text),
    Column("clients", JsonShape(tuple), nullable=False, server_default="[]"),
    Index("ix_application_campaign", "campaign", "planned"),
)

#: Access tokens. ``digest``: of the secret, which is not stored; ``parent``: the token that a
#: session was created from.
token = Table(
    "token",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("scope", _words(Scope), nullable=False),
    Column("digest", Text, nullable=False),
    Column("created", UtcTime, nullable=False),
    Column("expires", UtcTime),
    Column("revoked", UtcTime),
    Column("parent", Text, ForeignKey("token.id")),
)

#: The campaign created by a request that may arrive twice; key and body are digests.
posted = Table(
    "posted",
    metadata,
    Column("key", Text, primary_key=True),
    Column("body", Text, nullable=False),
    Column("campaign", Text, ForeignKey("campaign.id")),
    Column("at", UtcTime, nullable=False),
)
