"""Bodies that wait while they cannot be read, and the ids of reports that do not count."""

import sqlalchemy as sa
from alembic import op

from aggregator.errors import ConfigurationError

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

GENERATIONS = 4
BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the columns and the table; refuse names of objects, whose digests nobody knows."""
    for number in range(GENERATIONS):
        bodies = f"report_bodies_{number}"
        named = sa.text(
            f"SELECT count(*) FROM {bodies} JOIN report_groups ON id = report_group "  # noqa: S608  our own names
            f"WHERE generation = {number} AND report_group <> 0 AND length(body) = 16"
        )
        if op.get_bind().execute(named).scalar_one():
            raise ConfigurationError(
                "report_bodies: reports wait in object storage: let the version that put them "
                "there aggregate them before you upgrade"
            )
        op.execute(f"DELETE FROM {bodies} WHERE report_group <> 0 AND length(body) = 16")  # noqa: S608  as above
        op.add_column(bodies, sa.Column("object_name", sa.LargeBinary(16), nullable=True))
    for column in ("asked_at", "unreadable_since"):
        op.add_column("report_groups", sa.Column(column, BIGINT, nullable=True))
    are_unreadable = sa.text("unreadable_since IS NOT NULL")
    op.create_index(
        "ix_report_groups_unreadable_since",
        "report_groups",
        ["unreadable_since"],
        sqlite_where=are_unreadable,
        postgresql_where=are_unreadable,
    )
    op.create_table(
        "rejected_reports",
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("report_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(length=32), nullable=True),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_rejected_reports_task"),
        sa.PrimaryKeyConstraint("task", "report_id", name="pk_rejected_reports"),
        sqlite_with_rowid=False,
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Take them away."""
    op.drop_table("rejected_reports")
    op.drop_index("ix_report_groups_unreadable_since", "report_groups")
    for column in ("unreadable_since", "asked_at"):
        op.drop_column("report_groups", column)
    for number in range(GENERATIONS):
        op.drop_column(f"report_bodies_{number}", "object_name")
