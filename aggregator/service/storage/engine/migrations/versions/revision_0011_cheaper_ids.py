"""On PostgreSQL: ids of reports without a foreign key, and ciphertext that is left as it is.

PostgreSQL looks the key up for each row by a statement of its own, which takes longer than to store
the row. It also tries to compress what it stores, and ciphertext does not get smaller. On SQLite
the key costs next to nothing, and all ids would have to be copied to be rid of it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

IDS = ("report_ids", "aggregated_reports")
CIPHERTEXT = (
    ("aggregation_jobs", "request"),
    ("answered_jobs", "response"),
    ("bucket_shares", "share"),
    ("deferred_jobs", "request"),
)


def upgrade() -> None:
    """Take the foreign keys away, and the compression."""
    if _is_postgresql():
        for table in IDS:
            # One that the operator has partitioned has a key of another name, or none.
            for key in sa.inspect(op.get_bind()).get_foreign_keys(table):
                op.drop_constraint(str(key["name"]), table)
        _store_ciphertext("EXTERNAL")


def downgrade() -> None:
    """Put them back."""
    if _is_postgresql():
        for table in IDS:
            op.create_foreign_key(f"fk_{table}_task", table, "tasks", ["task"], ["id"])
        _store_ciphertext("EXTENDED")


def _is_postgresql() -> bool:
    return op.get_context().dialect.name == "postgresql"


def _store_ciphertext(how: str) -> None:
    for table, column in CIPHERTEXT:
        op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE {how}")
