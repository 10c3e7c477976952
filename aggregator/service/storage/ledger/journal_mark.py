"""Whether a store has a journal of releases: then it does not open without it.

So a backup from before the first release says as well that there is a journal which knows of the
releases since.
"""

from sqlalchemy import insert, select

from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Transaction


def marked_at(tx: Transaction) -> int | None:
    """Return since when the store has a journal, in seconds; None if it never had one."""
    found: int | None = tx.connection.execute(select(tables.release_journals.c.made_at)).scalar()
    return found


def mark_journal(tx: Transaction) -> None:
    """Keep for ever that the store has a journal."""
    if marked_at(tx) is None:
        tx.connection.execute(insert(tables.release_journals).values(id=1, made_at=tx.now))
