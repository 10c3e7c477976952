"""Checks a store's pages when its service starts, and whenever an operator asks."""

import time

from aggregator.errors import StoreError
from aggregator.service.storage.engine.backends import backend, damaged
from aggregator.service.storage.engine.sqlite_check import CheckStopped
from aggregator.service.telemetry.lines import log

AT_START_BYTES = 512 * 2**20
"""The largest store that is checked before its service serves. A check takes from 0.2 s (bodies of
reports) to 2 s (their ids) for each GiB that is in memory, and some 15 s for each that is not."""


class StoreCheck:
    """The check of one store by one process.

    `state` is how far it is: `due`, `under way`, `nothing found`, `damage found`, `failed`, or
    `by its server` where it is not ours to do.
    """

    def __init__(self, url: str) -> None:
        """Check the store at `url`, if there is one."""
        self._backend = backend(url)
        self._pages = self._backend.page_check()
        self.state = "due" if self._pages is not None else "by its server"

    def before_serving(self) -> None:
        """Check the store if that takes seconds, or if it was found damaged before.

        Raises:
            Damaged: It is; the message has what SQLite says.
            StoreError: It cannot be read.
        """
        if self._pages is None or not self._backend.exists():
            return
        if self._backend.damage() is not None or self._pages.file_bytes() <= AT_START_BYTES:
            self.run()

    def run(self, *, most: int = 1, thorough: bool = False) -> None:
        """Check the store now, and let its processes write only if nothing is found.

        A store that was found damaged is always checked thoroughly: what one check has found,
        a lesser one may miss. What is found is looked for a second time, since a disk may fail to
        give a page only once.

        Args:
            most: How many findings to look for.
            thorough: See `PageCheck.find`.

        Raises:
            Damaged: Something was found.
            CheckStopped: `stop` was called.
            StoreError: It cannot be read; or nothing is found any more, and the mark that says
                that it is damaged cannot be removed.
        """
        if self._pages is None:
            return
        before = self._backend.damage()
        thorough = thorough or before is not None
        size, began = self._pages.file_bytes(), time.monotonic()
        self.state = "under way"
        if size > AT_START_BYTES:
            log.info("the store is being checked", store=self._backend.name, bytes=size)
        try:
            found = self._pages.find(most=most, thorough=thorough)
            if found:
                found = self._pages.find(most=most, thorough=thorough)
        except CheckStopped:
            self.state = "due"
            raise
        except BaseException:
            self.state = "failed"
            raise
        self.state = "damage found" if found else "nothing found"
        if found:
            self._backend.note_damage("; ".join(found))
            raise damaged(self._backend, "; ".join(found))
        if before is not None and self._backend.damage() == before:  # none that came meanwhile
            self._backend.note_damage(None)
            left = self._backend.damage()
            if left is not None:
                raise StoreError(
                    f"the store {self._backend.name}: no damage is found, and it still counts as "
                    f"damaged, since {left}: remove that"
                )
            log.warning("no damage is found any more", store=self._backend.name, before=before)
        if size > AT_START_BYTES:
            seconds = round(time.monotonic() - began, 1)
            log.info("the store was checked", store=self._backend.name, seconds=seconds)

    def is_in_doubt(self) -> bool:
        """Return whether somebody has found damage, which may have been a disk's lapse."""
        return self._backend.damage() is not None

    def stop(self) -> None:
        """End a check that another thread makes; it can be made again."""
        if self._pages is not None:
            self._pages.stop()
            self._pages = self._backend.page_check()
