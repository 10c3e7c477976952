"""How much work SQLite does, in steps of its virtual machine, which no other process slows down."""

from collections.abc import Callable

from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction

STEPS = 10
"""Work is counted in this many steps of the machine at once."""


def steps_of(store: Database, work: Callable[[Transaction], object]) -> int:
    """Return about how many steps the statements of a transaction take; it is committed."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += STEPS
        return 0

    def counted(tx: Transaction) -> None:
        driver = tx.connection.connection.driver_connection
        assert driver is not None
        driver.set_progress_handler(count, STEPS)
        try:
            work(tx)
        finally:
            driver.set_progress_handler(None, 0)

    store.run_sync("counted", counted)
    return taken
