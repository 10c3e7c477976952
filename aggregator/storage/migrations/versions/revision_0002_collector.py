"""The Collector's tables.

A revision never changes once it is released: it spells every table out and imports nothing of ours.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UINT64 = sa.LargeBinary(8)


def upgrade() -> None:
    """Make the tables of tasks and collections."""
    op.create_table(
        "collector_tasks",
        sa.Column("task_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("token", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="pk_collector_tasks"),
        sqlite_strict=True,
    )
    op.create_table(
        "collections",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("collection_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("task_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("start", UINT64, nullable=False),
        sa.Column("end", UINT64, nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("location", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.Column("ended_at", BIGINT, nullable=True),
        sa.CheckConstraint(
            "state IN ('pending', 'finished', 'failed')", name="ck_collections_state"
        ),
        sa.ForeignKeyConstraint(
            ["task_id"], ["collector_tasks.task_id"], name="fk_collections_task_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_collections"),
        sa.UniqueConstraint("collection_id", name="uq_collections_collection_id"),
        sqlite_strict=True,
    )
    op.create_index(
        "uq_collections_live_request",
        "collections",
        ["task_id", "request"],
        unique=True,
        sqlite_where=sa.text("state IN ('pending', 'finished')"),
        postgresql_where=sa.text("state IN ('pending', 'finished')"),
    )


def downgrade() -> None:
    """Drop them, with all results."""
    op.drop_table("collections")
    op.drop_table("collector_tasks")
