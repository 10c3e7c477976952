"""Opens a party's store from its settings, with its key, and an aggregator's with its journal.

The key is in a file that the operator names, so that a copy of the database alone reveals nothing.
It is made together with a new database. A database whose key is missing is never given another one:
its contents could not be read, nor told apart from what would be written. Nor is a database made
where there has been one: its disk may only be missing for now.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.clock import Clock
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ConfigurationError
from aggregator.service.config import AggregatorSettings, LeaderSettings, ServiceSettings
from aggregator.service.storage.backup.reconciliation import reconcile
from aggregator.service.storage.engine.backends import backend, translated
from aggregator.service.storage.engine.database import Database, OnTransaction
from aggregator.service.storage.engine.schema import is_made, make
from aggregator.service.storage.ledger.journal import Journal
from aggregator.service.storage.ledger.journal_file import JournalFile
from aggregator.service.storage.ledger.journal_table import JournalTable
from aggregator.service.storage.secrets.crypter import Crypter, new_store_key
from aggregator.service.storage.secrets.files import create_secret, read_secret
from aggregator.service.storage.secrets.store_mark import mark_of, mark_store, marked_store

if TYPE_CHECKING:
    from aggregator.service.storage.engine.objects import Objects


def open_database(
    settings: ServiceSettings,
    clock: Clock | None = None,
    on_transaction: OnTransaction | None = None,
    entropy: Entropy | None = None,
    *,
    may_make: bool = True,
    store_may_be_lost: bool = False,
    may_be_older: bool = False,
) -> Database:
    """Open a party's store; make it if there is none and `may_make` says so.

    Args:
        settings: The party's.
        clock: Of the store; the database's own by default.
        on_transaction: See `Database.open`.
        entropy: Where keys and nonces are from.
        may_make: Whether a store is made if there is none, and what a killed process left is
            destroyed.
        store_may_be_lost: Whether one is made where there has been one.
        may_be_older: Whether it may be older than its keys; see `Database.open`.

    Raises:
        SchemaMismatch: It is of another version of this program; nothing was changed.
        ConfigurationError: There is none, or no more, or it only pretends to lock, or the store's
            key is missing or unusable.
        KeysAhead: It is older than its keys.
        StoreError: The store cannot be made or opened.
    """
    place = backend(settings.database_url)  # refuses a bad URL before a key is made for it
    if not store_may_be_lost:
        _refuse_store_that_was(settings)
    if not may_make and not is_made(settings.database_url):
        raise ConfigurationError(
            f"database: there is no store {place.name}: is its disk there? If there never was one, "
            "the service makes it, or `prio task add`"
        )
    crypter = _parsed(settings, _store_key(settings, entropy or SystemEntropy()), entropy)
    if may_make:  # otherwise it was there above
        make(settings.database_url)
    with translated(place, "prove its locks"):
        place.prove_locks("database")
    if may_make and settings.store_key is None and settings.store_key_file is not None:
        mark_store(settings.store_key_file, place.name)
    return Database.open(
        settings.database_url,
        crypter,
        clock,
        on_transaction,
        entropy,
        _objects_of(settings),
        may_destroy=may_make,
        may_be_older=may_be_older,
    )


def _objects_of(settings: ServiceSettings) -> "Objects | None":
    """Return where large bodies of reports lie if not in the database."""
    if not isinstance(settings, LeaderSettings) or settings.report_bodies is None:
        return None
    from aggregator.service.storage.engine.objects import objects_at

    return objects_at(settings.report_bodies)


def open_aggregator_store(
    settings: AggregatorSettings,
    clock: Clock | None = None,
    *,
    may_make: bool = True,
    journal_may_be_missing: bool = False,
    journal_may_be_damaged: bool = True,
    journal_damage_is_told: bool = True,
    store_may_be_lost: bool = False,
    may_be_older: bool = False,
) -> tuple[Database, Journal]:
    """Open an aggregator's store and its journal of releases, and bring them up to each other.

    Args:
        settings: The aggregator's.
        clock: Of the store; the database's own by default.
        may_make: As for `open_database`.
        journal_may_be_missing: Whether a journal is made for a store that has had one.
        journal_may_be_damaged: Whether the store is opened beside a journal that cannot be read:
            reports are accepted and verified, and no share leaves.
        journal_damage_is_told: Whether the log says so.
        store_may_be_lost: Whether a store is made where there has been one.
        may_be_older: As for `open_database`.

    Raises:
        JournalError: See `reconcile`.
        ConfigurationError, StoreError: See `open_database`; or the store that wrote the journal is
            not there.
    """
    journal = journal_at(settings.journal_place)
    if not store_may_be_lost:
        _refuse_lost_store(settings.database_url, journal)
    database = open_database(
        settings,
        clock,
        may_make=may_make,
        store_may_be_lost=store_may_be_lost,
        may_be_older=may_be_older,
    )
    try:
        reconcile(
            database,
            "leader" if isinstance(settings, LeaderSettings) else "helper",
            journal,
            may_be_missing=journal_may_be_missing,
            may_be_damaged=journal_may_be_damaged,
            damage_is_told=journal_damage_is_told,
        )
    except BaseException:
        database.close()
        raise
    return database, journal


def _refuse_store_that_was(settings: ServiceSettings) -> None:
    """Refuse to begin anew under a key that has had a store: its disk may only be missing."""
    key_file = settings.store_key_file
    # The mark comes after its store, so it is looked for first: both may just be being made.
    marked = None if key_file is None else marked_store(key_file)
    if key_file is None or marked is None or is_made(settings.database_url):
        return
    raise ConfigurationError(
        f"database: there is no store {backend(settings.database_url).name}, and {key_file} is "
        f"the key of one that was at {marked}: is its disk there? Bring it back, or a backup; if "
        f"it is lost for ever, remove {mark_of(key_file)} to begin an empty one"
    )


def _refuse_lost_store(url: str, journal: Journal) -> None:
    """Refuse to begin anew where a journal is, which is made after its store."""
    if not journal.exists() or is_made(url):
        return
    raise ConfigurationError(
        f"database: there is no store {backend(url).name}, and the journal {journal.name} is that "
        f"of one, with {len(journal.releases()):,} releases: is its disk there? Bring it back, or "
        "a backup; if it is lost for ever, `prio store after-restore --trust-journal` begins an "
        "empty one"
    )


def crypter_of(settings: ServiceSettings) -> Crypter:
    """Return the keys of a party's store, which are there.

    Raises:
        ConfigurationError: They are not, or cannot be used.
    """
    if settings.store_key is not None:
        return _parsed(settings, settings.store_key.get_secret_value())
    key = None if settings.store_key_file is None else read_secret(settings.store_key_file)
    if key is None:
        raise ConfigurationError("store_key_file: the store's key is not there")
    return _parsed(settings, key)


def _parsed(settings: ServiceSettings, key: str, entropy: Entropy | None = None) -> Crypter:
    """Return the keys in a text; an error says where it is from."""
    given = settings.store_key is not None
    place = "store_key" if given else f"store_key_file: {settings.store_key_file}"
    try:
        # Either may be another party's, so the message about a key that does not fit has both.
        store = backend(settings.database_url).name
        return Crypter.parse(key, entropy, f"{place}, for the store {store}")
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error}") from None


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
