"""Verbs of a store that look before they write, called from eight connections at one moment.

Every transaction waits a little before it commits, so all of them have looked by the time the first
commits, unless something keeps them from it.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from aggregator.errors import StoreError
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import Crypter
from tests.support.store import STORE_KEY, make_store, store_url

CONNECTIONS = 8
PAUSE_SECONDS = 0.03
T = TypeVar("T")


class Racers:
    """One store, opened as often as there are connections."""

    def __init__(self, path: Path) -> None:
        self.store = make_store(path)
        crypter = Crypter([STORE_KEY])
        self.stores = [
            Database.open(store_url(path), crypter, on_transaction=pause)
            for _ in range(CONNECTIONS)
        ]

    def run(
        self, work: Callable[[Transaction, int], T], refusal: type[StoreError] | None = None
    ) -> list[T | None]:
        """Return what each connection's transaction returned, None for one that was refused.

        Any error but `refusal` is raised.
        """
        results: dict[int, T | None] = {}
        errors: list[BaseException] = []
        start = threading.Barrier(CONNECTIONS)

        def racer(number: int) -> None:
            start.wait()
            try:
                results[number] = self.stores[number].run_sync("race", lambda tx: work(tx, number))
            except BaseException as error:  # noqa: BLE001  raised below, in the test's thread
                if refusal is None or not isinstance(error, refusal):
                    errors.append(error)
                results[number] = None

        threads = [threading.Thread(target=racer, args=(n,)) for n in range(CONNECTIONS)]
        run_at_once(threads)
        if errors:
            raise errors[0]
        return [results[number] for number in range(CONNECTIONS)]

    def close(self) -> None:
        for store in (self.store, *self.stores):
            store.close()


def run_at_once(threads: Sequence[threading.Thread]) -> None:
    """Start all threads and wait until they have ended."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def pause(_name: str, moment: str) -> None:
    if moment == "before commit":
        time.sleep(PAUSE_SECONDS)
