"""The first schema: the tables as the code describes them.

Until the first release it follows `tables`. From then on it never changes, and spells every table
out as it was released.
"""

from alembic import op

from aggregator.service.storage.engine.tables import make_tables

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""
    make_tables(op.get_bind())
