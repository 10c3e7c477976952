"""Stores that a test leaves open are closed after it.

Otherwise each keeps its thread, which writes to the log of later tests, and its connections, of
which Python warns from 3.13 on when it collects them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aggregator.service.storage.engine.database import Database

_opened: list[Database] = []


def watch() -> None:
    """Take note of every store that is opened from now on."""
    initialize = Database.__init__

    def noted(database: Database, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  passed on
        initialize(database, *arguments, **named)
        _opened.append(database)

    Database.__init__ = noted  # type: ignore[method-assign]  # until the end of the run


@contextmanager
def closed_afterwards() -> Iterator[None]:
    """Close what was opened in the block and not closed there."""
    before = len(_opened)
    yield
    for database in _opened[before:]:
        database.close()
    del _opened[before:]


@contextmanager
def all_closed() -> Iterator[None]:
    """Check that whoever opens a store in the block closes it there, as a command must."""
    before = len(_opened)
    yield
    assert all(database._is_closed for database in _opened[before:])
