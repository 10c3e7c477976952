"""Aggregation jobs that a helper answers later."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make their table."""
    op.create_table(
        "deferred_jobs",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("job_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("body_sha256", sa.LargeBinary(length=32), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("lease_token", sa.LargeBinary(length=16), nullable=True),
        sa.Column("lease_expires_at", BIGINT, nullable=False),
        sa.Column("lease_set_at", BIGINT, nullable=False),
        sa.Column("lease_attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_deferred_jobs_task"),
        sa.PrimaryKeyConstraint("id", name="pk_deferred_jobs"),
        sa.UniqueConstraint("job_id", name="uq_deferred_jobs_job_id"),
        sa.UniqueConstraint("task", "body_sha256", name="uq_deferred_jobs_task_body_sha256"),
        sqlite_strict=True,
    )


def downgrade() -> None:
    """Forget them: their leader sends them again."""
    op.drop_table("deferred_jobs")
