"""One number that rises whenever tasks or HPKE keys change, so that processes may remember them.

Whoever relies on what it remembers reads the number in the transaction in which it matters
(`check_version`): a task that has ended, or a key that was retired, is refused as promptly as if it
had been looked up.
"""

from sqlalchemy import select, update

from aggregator.errors import StoreError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.database import Transaction

_VERSION = select(tables.settings_versions.c.version)
_RISES = update(tables.settings_versions).values(version=tables.settings_versions.c.version + 1)


class SettingsChanged(StoreError):
    """Tasks or HPKE keys are not what the caller remembers: it has to look again."""


def settings_version(tx: Transaction) -> int:
    """Return the number."""
    version: int = tx.connection.execute(_VERSION).scalar_one()
    return version


def settings_changed(tx: Transaction) -> None:
    """Say that this transaction changes a task or an HPKE key."""
    tx.connection.execute(_RISES)


def check_version(tx: Transaction, version: int) -> None:
    """Check that nothing has changed since the number was `version`.

    Raises:
        SettingsChanged: Something has; the transaction must not go on.
    """
    if settings_version(tx) != version:
        raise tx.refuse(SettingsChanged("tasks or keys have changed"))
