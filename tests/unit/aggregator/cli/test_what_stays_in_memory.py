"""What stays for as long as a service runs is not looked through for garbage again and again."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from aggregator.cli.garbage import collect_less_often
from aggregator.cli.service.running import leave_out_of_collections, look_for_garbage_again


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    usual = gc.get_threshold()
    yield
    gc.freeze()  # see pytest_collection
    gc.set_threshold(*usual)


class Ring:
    """Garbage that only a collection finds, once nobody else holds it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.slow
def test_what_there_is_is_left_out_until_it_is_looked_for_again() -> None:
    ring = Ring()
    known = weakref.ref(ring)
    gc.unfreeze()  # what the tests are made of
    before = len(gc.get_objects())
    leave_out_of_collections()
    assert len(gc.get_objects()) < before / 10
    del ring
    leave_out_of_collections()
    assert known() is not None
    look_for_garbage_again()
    assert known() is None


def test_requests_of_many_connections_at_once_are_not_searched_for_garbage() -> None:
    leave_out_of_collections()
    collect_less_often()
    collections = [each["collections"] for each in gc.get_stats()]
    for _ in range(10):
        under_way = [[None] for _ in range(10_000)]
        under_way.clear()
    assert [each["collections"] for each in gc.get_stats()] == collections
