"""Opens files of a party that may have become something else: a mount, a link, a mistake.

Opening a FIFO waits for somebody at its other end, and a link to nothing looks like no file, in
whose place a new one would be made on another disk.
"""

import errno
import os
import stat
from pathlib import Path

from aggregator.service.config.text_files import MOST_BYTES


class NotPlain(OSError):
    """Where a file belongs is something else, or a link to nothing; `strerror` says what to do."""


def check_plain(path: Path) -> bool:
    """Return whether there is a file.

    Raises:
        NotPlain: There is something else, or a link to nothing.
        OSError: We cannot tell.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        if not path.is_symlink():
            return False
        raise _not_plain(
            path,
            f"is a link to {path.readlink()}, and nothing is there: is its disk there? Bring the "
            "file back, or remove the link",
        ) from None
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _not_plain(path, "is a link that leads back to itself: remove it") from None
    _refuse_others(path, found.st_mode)
    return True


def open_plain(path: Path, flags: int, mode: int = 0o600) -> int:
    """Return a descriptor of a file, opened with `flags`; it never waits.

    Raises:
        NotPlain: There is something else, or a link to nothing.
        OSError: It cannot be opened.
    """
    check_plain(path)
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, mode)
    try:
        _refuse_others(path, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_plain(path: Path) -> bytes:
    """Return what a file holds.

    Raises:
        NotPlain: See `open_plain`; or it holds more than `MOST_BYTES`.
        OSError: It cannot be read.
    """
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise _not_plain(path, f"holds more than {MOST_BYTES:,} bytes, so it is another file")
    return content


def _refuse_others(path: Path, mode: int) -> None:
    for is_other, name in (
        (stat.S_ISDIR, "directory"),
        (stat.S_ISFIFO, "FIFO"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "device"),
        (stat.S_ISBLK, "device"),
    ):
        if is_other(mode):
            raise _not_plain(
                path,
                f"is a {name}, and a file is needed: name that file, or remove the {name} if "
                f"{'a mount has' if name == 'directory' else 'somebody has'} made it in the file's "
                "place",
            )


def _not_plain(path: Path, reason: str) -> NotPlain:
    return NotPlain(errno.EINVAL, reason, str(path))
