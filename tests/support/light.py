"""Makes aggregators in one process cheap, for tests that live through many of them.

What is left out is what those tests do not look at: threads, so that everything happens in one
order; the disk's word that it has something, for nobody cuts the power; the log; and the emptying
of the database's log. Statements are compiled once and not for each opening of a store.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import anyio.lowlevel
import structlog
from anyio import CapacityLimiter
from sqlalchemy import Engine, event
from typing_extensions import override

from aggregator.service.storage.engine import database
from aggregator.service.storage.engine.sqlite import Sqlite

T = TypeVar("T")


class _Compiled(dict[Any, object]):
    """Compiled statements; the library keeps them for each dialect, that is for each opening."""

    @override
    def get(self, key: Any, default: object = None) -> object:
        return super().get(key[1:], default)

    @override
    def __setitem__(self, key: Any, compiled: object) -> None:
        super().__setitem__(key[1:], compiled)


_COMPILED = _Compiled()


async def _in_this_thread(
    work: Callable[..., T],
    *arguments: object,
    limiter: CapacityLimiter | None = None,  # noqa: ARG001  one thread needs no limit
) -> T:
    await anyio.lowlevel.checkpoint()
    return work(*arguments)


def _engine(made_by: Callable[[Sqlite, int], Engine], store: Sqlite, readers: int = 0) -> Engine:
    made = made_by(store, readers)
    made.update_execution_options(compiled_cache=_COMPILED)
    event.listen(made, "connect", _trust_the_disk)
    return made


def _trust_the_disk(connection: Any, _: object) -> None:  # noqa: ANN401  of the driver
    connection.execute("PRAGMA synchronous=OFF")


@contextmanager
def lightly() -> Iterator[None]:
    """Let services over SQLite that are started and used inside be cheap."""
    engine, logs = Sqlite.engine, structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with (
            patch("anyio.to_thread.run_sync", _in_this_thread),
            patch("os.fsync", lambda _: None),
            patch.object(
                Sqlite, "engine", lambda store, readers=0: _engine(engine, store, readers)
            ),
            patch.object(Sqlite, "empty_log", lambda _: True),
            # Every store is a copy of one that was checked.
            patch.object(database, "check", lambda _: None),
        ):
            yield
    finally:
        structlog.configure(**logs)
