"""A file beside a store key that says that there has been a store under it.

A key alone is no sign of that: `prio up --party` makes one before there is a store, and so may an
operator. Beside the key, which lies on another disk than the store, the mark is still there when
that disk is not. Where the key is in no file, or its folder cannot be written, there is none.
"""

import os
from contextlib import suppress
from pathlib import Path

from aggregator.service.config import read_plain
from aggregator.service.storage.secrets.files import create_private


def mark_of(key_file: Path) -> Path:
    """Return the file beside a store key, whether it is there or not."""
    return key_file.with_name(f"{key_file.name}.store")


def marked_store(key_file: Path) -> str | None:
    """Return what is said of the store that there has been under the key; None if none has."""
    mark = mark_of(key_file)
    if not os.path.lexists(mark):
        return None
    with suppress(OSError, UnicodeDecodeError):
        return read_plain(mark).decode("utf-8").strip() or str(mark)
    return str(mark)  # that it is there says enough, whatever it is


def mark_store(key_file: Path, name: str) -> None:
    """Keep that there is a store of this name under the key."""
    # A folder that cannot be written, such as a mounted secret's, is no reason to serve nobody.
    with suppress(OSError):
        if marked_store(key_file) != name:
            mark_of(key_file).unlink(missing_ok=True)
            create_private(mark_of(key_file), f"{name}\n")
