"""A store knows that it has a journal of releases.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the table; a store that has released has a journal."""
    op.create_table(
        "release_journals",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("made_at", BIGINT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_release_journals"),
        sqlite_strict=True,
    )
    op.execute(
        "INSERT INTO release_journals (id, made_at) SELECT 1, 0 WHERE EXISTS (SELECT 1 FROM ledger)"
    )


def downgrade() -> None:
    """Forget that there is a journal."""
    op.drop_table("release_journals")
