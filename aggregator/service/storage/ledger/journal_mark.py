"""Marks a store that has a journal of releases, so that it does not open without it.

Even a backup from before the first release thus says that there is a journal, which knows the
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
    """Record for ever that the store has a journal."""
    if marked_at(tx) is None:
        tx.connection.execute(insert(tables.release_journals).values(id=1, made_at=tx.now))
