"""Backs up a store while it is in use, and checks a backup without restoring it.

A backup holds one moment of a party's database, its HPKE keys included, and nothing else: not the
store key, not the journal of releases, and none of the keys of un-noised sums. Those keys are
destroyed when their batches are released, and a copy would bring them back to life. So a batch that
was open when the backup was made can be released from it only with the keys that the aggregator
still has.
"""

import dataclasses
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from aggregator.errors import ParameterError
from aggregator.service.storage.engine.backends import backend, damaged
from aggregator.service.storage.engine.backup_contents import BackupContents, NoBackup
from aggregator.service.storage.engine.schema import head
from aggregator.service.storage.engine.secret_columns import SECRETS
from aggregator.service.storage.secrets.crypter import FINGERPRINT_SIZE, Crypter
from aggregator.service.storage.secrets.files import sync_path


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """What a backup holds, and what keeps it from replacing a store."""

    version: str
    roles: frozenset[str]
    secrets: int
    faults: list[str]


def back_up(url: str, file: Path) -> None:
    """Write a backup of the store at `url` to a new file, whole or not at all.

    Raises:
        ParameterError: The file exists, or cannot be written.
        Damaged: The store was found damaged: its copy could take the place of a good backup.
        StoreError: The store cannot be read.
        ConfigurationError: A program that it needs is not installed; the message names it.
    """
    if file.exists():
        raise ParameterError(f"backup: the file {file} exists; name one that does not")
    place = backend(url)
    found = place.damage()
    if found is not None:
        raise damaged(place, found)
    _written_whole(file, place.back_up)


def check_backup(url: str, file: Path, role: str, crypter: Crypter) -> Checked:
    """Read a whole backup of a store such as the one at `url`.

    Args:
        url: The store's URL.
        file: The backup.
        role: The role that its tasks should have.
        crypter: The keys that should open its secrets.

    Raises:
        NoBackup: The file is not a backup, or is damaged.
    """
    if not file.is_file():
        raise NoBackup(f"backup: there is no file {file}")
    found = backend(url).read_backup(
        file, [(each.table.name, each.column.name) for each in SECRETS]
    )
    return Checked(
        version=found.version,
        roles=found.roles,
        secrets=len(found.secrets),
        faults=_faults(found, role, crypter),
    )


def _faults(found: BackupContents, role: str, crypter: Crypter) -> list[str]:
    faults = []
    if found.version != head():
        faults.append(f"its schema is at version {found.version}, and this program needs {head()}")
    others = sorted(found.roles - {role})
    if others:
        faults.append(f"it has tasks of a {' and a '.join(others)}, and this party is a {role}")
    unknown = {secret[:FINGERPRINT_SIZE] for secret in found.secrets} - crypter.fingerprints
    if unknown:
        names = ", ".join(sorted(each.hex() for each in unknown))
        faults.append(f"its secrets are under the store key {names}, which is not given")
    if found.has_bucket_keys:
        faults.append("it has keys of un-noised sums, which no backup may have: destroy it")
    return faults


def _written_whole(file: Path, write: Callable[[Path], None]) -> None:
    try:
        folder = file.absolute().parent
        descriptor, name = tempfile.mkstemp(prefix=f"{file.name}.", dir=folder)
        os.close(descriptor)
        draft = Path(name)
        try:
            write(draft)
            sync_path(draft)
            os.link(draft, file)
            sync_path(folder)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise ParameterError(f"backup: {file}: {error.strerror}") from error
