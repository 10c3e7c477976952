"""Processes of one aggregator that start together, where there is no store yet."""

import itertools
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType

import pytest

from aggregator.entropy import SystemEntropy
from aggregator.service.config import LeaderSettings
from aggregator.service.runtime.key_rotation import new_key
from aggregator.service.storage.engine.schema import check, is_made, make
from aggregator.service.storage.engine.sqlite import Sqlite
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.journal_file import JournalFile
from aggregator.service.storage.opening import open_aggregator_store
from aggregator.service.storage.secrets.files import create_secret, read_secret
from aggregator.service.storage.secrets.store_mark import mark_of, mark_store, marked_store
from aggregator.service.storage.tasks.hpke_keys import find_advertised_key, list_hpke_configs
from tests.support.empty_store import really_migrated, settings_of
from tests.support.engines import ON_POSTGRESQL, ON_SQLITE

LOOKS_AND_MAKES = {
    each.__code__
    for each in (
        *(read_secret, create_secret, mark_of, marked_store, mark_store),
        *(Sqlite.exists, Sqlite.create, is_made, make, check),
        *(JournalFile.exists, JournalFile.create),
    )
}
"""What looks for a file or a store, or makes one, and holds no lock when it returns."""

PROCESSES = 4
ROUNDS = 3


@pytest.fixture(autouse=True)
def _no_store_is_a_copy() -> Iterator[None]:
    with really_migrated():
        yield


def leader_in(folder: Path) -> LeaderSettings:
    """Return the settings of a leader whose files are all in a new folder."""
    folder.mkdir()
    settings = settings_of(folder / "store")
    files = {name: text for name, text in settings.items() if "://" not in text}
    paths = {name: str(folder / text) for name, text in files.items()}
    return LeaderSettings.model_validate({"role": "leader", **settings, **paths})


def start(settings: LeaderSettings) -> bytes:
    """Do what a process does at its start; return the HPKE configuration that it has."""
    database, journal = open_aggregator_store(settings)
    try:
        assert journal.releases() == []
        return database.run_sync("ensure hpke key", _key)
    finally:
        database.close()
        journal.close()


def _key(tx: Transaction) -> bytes:
    if find_advertised_key(tx) is None:
        new_key(tx, SystemEntropy())
    (config,) = [each.config for each in list_hpke_configs(tx)]
    return config


def interrupted(settings: LeaderSettings, moment: int) -> list[bytes]:
    """Start; after the function of this number that looks or makes, another process starts.

    Returns:
        What each of the two found: the other first, or only ours if there were not two.
    """
    found, left = list[bytes](), moment

    def follow(frame: FrameType, event: str, _: object) -> object:
        nonlocal left
        if event == "return":
            if left == 0:
                found.append(start(settings))
            left -= 1
        return follow if frame.f_code in LOOKS_AND_MAKES else None

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        found.append(start(settings))
    finally:
        sys.settrace(before)
    return found


@pytest.mark.slow
@ON_SQLITE
def test_a_process_may_make_the_store_at_any_moment_of_anothers_first_start(tmp_path: Path) -> None:
    for moment in itertools.count():
        found = interrupted(leader_in(tmp_path / str(moment)), moment)
        if len(found) == 1:
            break
        assert found[0] == found[1]
    assert moment > len(LOOKS_AND_MAKES)


@ON_POSTGRESQL
def test_processes_that_start_at_once_on_a_server_share_store_key_journal_hpke_key(
    tmp_path: Path,
) -> None:
    together = threading.Barrier(PROCESSES)

    def one_of_them(settings: LeaderSettings) -> bytes:
        together.wait()
        return start(settings)

    with ThreadPoolExecutor(PROCESSES) as processes:
        for number in range(ROUNDS):
            settings = leader_in(tmp_path / str(number))
            found = list(processes.map(one_of_them, [settings] * PROCESSES))
            assert len(set(found)) == 1
