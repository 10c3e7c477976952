"""Writes files whole or not at all, even if the program is killed or the disk fills up."""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from aggregator.errors import ConfigurationError

_ORDINARY = 0o666
"""The mode of ordinary files, before the owner's umask."""


@contextmanager
def written_whole(file: Path) -> Iterator[BinaryIO]:
    """Write a file, which replaces an existing one once all of it is on the disk.

    Anything but an ordinary file, such as a pipe, is written to directly.

    Raises:
        ConfigurationError: It cannot be written; the message names it.
    """
    place = Path(os.path.realpath(file))
    draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    try:
        if place.exists() and not stat.S_ISREG(place.stat().st_mode):
            with place.open("wb") as stream:
                yield stream
            return
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _ORDINARY)
            with os.fdopen(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(descriptor)
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{file}: {error.strerror}") from error


@contextmanager
def folder_made_whole(folder: Path) -> Iterator[Path]:
    """Fill a folder that gets its name only when all of its files are there.

    Raises FileExistsError if the name is taken, and `ConfigurationError`.
    """
    if folder.exists() or folder.is_symlink():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    draft = folder.absolute().with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        draft.mkdir(parents=True)
        yield draft
        draft.rename(folder)
    except OSError as error:
        raise ConfigurationError(f"{folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
