"""Which engine a module's tests of the store are for, and one that a test closes."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine

from aggregator.service.storage.engine.backends import backend

ON_SQLITE = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
ON_POSTGRESQL = pytest.mark.parametrize("engine", ["postgresql"], indirect=True)


@contextmanager
def engine_of(url: str, readers: int = 0) -> Iterator[Engine]:
    """Give an engine of a store, and close its connections whatever becomes of the test.

    One that a failed test left open would be blamed on whichever test comes later.
    """
    made = backend(url).engine(readers)
    try:
        yield made
    finally:
        made.dispose()
