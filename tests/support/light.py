"""Makes aggregators in one process cheap, for tests that live through many of them.

What is left out is what those tests do not look at: threads, so that everything happens in one
order; the disk's word that it has something, for nobody cuts the power; the log; and the emptying
of the database's log.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from unittest.mock import patch

import anyio.lowlevel
import structlog
from anyio import CapacityLimiter

from aggregator.service.storage.engine import database
from aggregator.service.storage.engine.sqlite import Sqlite

T = TypeVar("T")


async def _in_this_thread(
    work: Callable[..., T],
    *arguments: object,
    limiter: CapacityLimiter | None = None,  # noqa: ARG001  one thread needs no limit
) -> T:
    await anyio.lowlevel.checkpoint()
    return work(*arguments)


@contextmanager
def lightly() -> Iterator[None]:
    """Let services over SQLite that are started and used inside be cheap."""
    logs = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with (
            patch("anyio.to_thread.run_sync", _in_this_thread),
            patch("os.fsync", lambda _: None),
            patch.object(Sqlite, "empty_log", lambda _: True),
            # Every store is a copy of one that was checked.
            patch.object(database, "check", lambda _: None),
        ):
            yield
    finally:
        structlog.configure(**logs)
