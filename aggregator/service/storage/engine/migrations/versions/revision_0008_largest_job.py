"""How large an aggregation job each task's Helper takes."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; null says that no Helper has refused a job for its size."""
    op.add_column("tasks", sa.Column("largest_job", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("tasks", "largest_job")
