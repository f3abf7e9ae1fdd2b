"""The number of a round is called what it is: ``round``, no longer ``race``."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """The numbers stay the same."""
    for table in ("trial", "block"):
        # SQLite cannot rename a constraint: the table is written anew.
        with op.batch_alter_table(table) as changes:
            changes.drop_constraint(op.f(f"ck_{table}_race"), type_="check")
            changes.alter_column("race", new_column_name="round")
            changes.create_check_constraint(op.f(f"ck_{table}_round"), "round >= 0")
