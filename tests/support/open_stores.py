"""Stores that a test opens are cheap, and closed after it if it leaves them open.

Cheap: no power is cut in a test, so the disk's word that it has something is not waited for, and a
statement is compiled once and not for each of a thousand stores. An open store keeps its thread,
which writes to the log of later tests, and its connections, of which Python warns from 3.13 on when
it collects them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event
from typing_extensions import override

from aggregator.service.storage.engine.database import Database

_opened: list[Database] = []


class _Compiled(dict[Any, object]):
    """Compiled statements; the library keeps them for each dialect, that is for each opening."""

    @override
    def get(self, key: Any, default: object = None) -> object:
        return super().get((key[0].name, *key[1:]), default)

    @override
    def __setitem__(self, key: Any, compiled: object) -> None:
        super().__setitem__((key[0].name, *key[1:]), compiled)


_COMPILED = _Compiled()


def _trust_the_disk(connection: Any, _: object) -> None:  # noqa: ANN401  of the driver
    connection.execute("PRAGMA synchronous=OFF")


def watch() -> None:
    """Take note of every store that is opened from now on, and make it cheap."""
    initialize = Database.__init__

    def noted(database: Database, *arguments: Any, **named: Any) -> None:  # noqa: ANN401  passed on
        initialize(database, *arguments, **named)
        for engine in (database._writers, database._readers):
            engine.update_execution_options(compiled_cache=_COMPILED)
            if engine.dialect.name == "sqlite":
                event.listen(engine, "connect", _trust_the_disk)
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
    """Check that each store opened in the block is closed there, as a command must."""
    before = len(_opened)
    yield
    assert all(database._is_closed for database in _opened[before:])
