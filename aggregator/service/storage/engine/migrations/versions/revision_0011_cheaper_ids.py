"""Ids of reports without a foreign key, and columns of ciphertext that PostgreSQL leaves as it is.

PostgreSQL looks the key up for each row by a statement of its own, which takes longer than to store
the row. It also tries to compress what it stores, and ciphertext does not get smaller.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
IDS = ("report_ids", "aggregated_reports")
CIPHERTEXT = (
    ("aggregation_jobs", "request"),
    ("answered_jobs", "response"),
    ("bucket_shares", "share"),
    ("deferred_jobs", "request"),
)


def upgrade() -> None:
    """Take the foreign keys away, and the compression."""
    for table in IDS:
        if _is_postgresql():
            # One that the operator has partitioned has a key of another name, or none.
            for key in sa.inspect(op.get_bind()).get_foreign_keys(table):
                op.drop_constraint(str(key["name"]), table)
        else:
            _make_again(table)
    _store_ciphertext("EXTERNAL")


def downgrade() -> None:
    """Put them back."""
    for table in IDS:
        name = f"fk_{table}_task"
        if _is_postgresql():
            op.create_foreign_key(name, table, "tasks", ["task"], ["id"])
        else:
            _make_again(table, sa.ForeignKeyConstraint(["task"], ["tasks.id"], name=name))
    _store_ciphertext("EXTENDED")


def _is_postgresql() -> bool:
    return op.get_context().dialect.name == "postgresql"


def _make_again(table: str, *constraints: sa.Constraint) -> None:
    """Copy a table of ids, which is how SQLite changes the constraints of one."""
    op.create_table(
        f"new_{table}",
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("report_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        *constraints,
        sa.PrimaryKeyConstraint("task", "report_id", name=f"pk_{table}"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.execute(f"INSERT INTO new_{table} SELECT task, report_id, day FROM {table}")  # noqa: S608  our own words
    op.drop_table(table)
    op.rename_table(f"new_{table}", table)


def _store_ciphertext(how: str) -> None:
    if _is_postgresql():
        for table, column in CIPHERTEXT:
            op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE {how}")
