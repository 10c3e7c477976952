"""Opens a party's store from its settings, with its key, and an aggregator's with its journal.

The key is in a file that the operator names, so that a copy of the database alone reveals nothing.
It is made together with a new database. A database whose key is missing is never given another one:
its contents could not be read, nor told apart from what would be written.
"""

from pathlib import Path

from aggregator.clock import Clock
from aggregator.config import AggregatorSettings, ServiceSettings
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ConfigurationError
from aggregator.storage.crypter import Crypter, new_store_key
from aggregator.storage.database import Database, OnTransaction
from aggregator.storage.engine import backend, translated
from aggregator.storage.journal import Journal
from aggregator.storage.journal_file import JournalFile
from aggregator.storage.journal_table import JournalTable
from aggregator.storage.reconciliation import reconcile
from aggregator.storage.schema import make
from aggregator.storage.secret_files import create_secret, read_secret


def open_database(
    settings: ServiceSettings,
    clock: Clock | None = None,
    on_transaction: OnTransaction | None = None,
    entropy: Entropy | None = None,
) -> Database:
    """Open a party's store; make it if there is none.

    Raises:
        SchemaMismatch: It is of another version of this program; nothing was changed.
        ConfigurationError: The store's key is missing or unusable.
        StoreError: The store cannot be made or opened.
    """
    backend(settings.database_url)  # refuses a bad URL before a key is made for it
    crypter = Crypter.parse(_store_key(settings, entropy or SystemEntropy()), entropy)
    make(settings.database_url)
    return Database.open(settings.database_url, crypter, clock, on_transaction, entropy)


def open_aggregator_store(
    settings: AggregatorSettings,
    clock: Clock | None = None,
    *,
    journal_may_be_missing: bool = False,
) -> tuple[Database, Journal]:
    """Open an aggregator's store and its journal of releases, and bring them up to each other.

    Raises:
        JournalError: See `reconcile`.
        ConfigurationError, StoreError: See `open_database`.
    """
    journal = journal_at(settings.journal_place)
    database = open_database(settings, clock)
    try:
        reconcile(database, journal, may_be_missing=journal_may_be_missing)
    except BaseException:
        database.close()
        raise
    return database, journal


def crypter_of(settings: ServiceSettings) -> Crypter:
    """Return the keys of a party's store, which are there.

    Raises:
        ConfigurationError: They are not, or cannot be used.
    """
    if settings.store_key is not None:
        return Crypter.parse(settings.store_key.get_secret_value())
    key = None if settings.store_key_file is None else read_secret(settings.store_key_file)
    if key is None:
        raise ConfigurationError("store_key_file: the store's key is not there")
    return Crypter.parse(key)


def journal_at(place: str) -> Journal:
    """Return the journal of releases in a file, or in the database at a URL."""
    return JournalTable(place) if "://" in place else JournalFile(Path(place))


def _store_key(settings: ServiceSettings, entropy: Entropy) -> str:
    if settings.store_key is not None:
        return settings.store_key.get_secret_value()
    key_file, place = settings.store_key_file, backend(settings.database_url)
    if key_file is None:
        raise ConfigurationError(
            "store_key_file: names no file for the store's key: name one on another disk than the "
            f"database {place.name} (beside it only to try things out), or give the key as "
            "PRIO_STORE_KEY"
        )
    key = read_secret(key_file)
    if key is not None:
        return key
    with translated(place, "look for the store"):
        exists = place.exists()
    if exists:
        # Another process of this party may have made both since we looked.
        key = read_secret(key_file)
        if key is None:
            raise ConfigurationError(
                f"the store {place.name} exists and its key {key_file} does not: "
                "restore the key, or give it as PRIO_STORE_KEY"
            )
        return key
    return create_secret(key_file, new_store_key(entropy))
