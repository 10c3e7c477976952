"""A small disk of its own, which a test may fill."""

import errno
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A file system in memory.

    Attributes:
        folder: Where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no room."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (2**16, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def make_room(self) -> None:
        """Undo `fill`."""
        self._filler.unlink()


@contextmanager
def small_disk(size: int) -> Iterator[SmallDisk]:
    """Mount a disk of this many bytes; the test is skipped where that is not allowed."""
    mount, umount = shutil.which("mount"), shutil.which("umount")
    with tempfile.TemporaryDirectory(prefix="prio-disk-") as name:
        command = [mount or "mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", name]
        if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:  # noqa: S603 - our own command
            pytest.skip("needs the right to mount a small disk")
        try:
            yield SmallDisk(Path(name))
        finally:
            subprocess.run([umount or "umount", "--lazy", name], check=True)  # noqa: S603 - as above
