"""A number that changes whenever tasks or HPKE keys do, so that processes may cache these.

A process that relies on its cache compares the number in the transaction that matters. So an ended
task, or a retired key, is refused as promptly as if it had been looked up.
"""

from sqlalchemy import bindparam, select, update

from aggregator.errors import StoreError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction

_VERSION = select(tables.settings_versions.c.version)
_CHANGES = update(tables.settings_versions).values(version=bindparam("drawn"))


class SettingsChanged(StoreError):
    """Tasks or HPKE keys are not what the caller has cached: it has to read them again."""


def settings_version(tx: Transaction) -> int:
    """Return the number."""
    ((version,),) = tx.run(_VERSION)
    return int(version)


def settings_changed(tx: Transaction) -> None:
    """Record that this transaction changes a task or an HPKE key.

    The number is random: a counter could repeat with other contents, after a server has lost its
    last commits.
    """
    drawn = int.from_bytes(tx.entropy.bytes(8), "big") >> 1
    tx.connection.execute(_CHANGES, {"drawn": drawn})
