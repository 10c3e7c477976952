"""A service's store is looked at in the background, and what is said of it says how old it is."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import pytest
from anyio import to_thread
from structlog.testing import capture_logs

from aggregator.errors import StoreError
from aggregator.service.telemetry import probe as probes
from aggregator.service.telemetry.health import Health
from aggregator.service.telemetry.probe import (
    LEAST_PAUSE_SECONDS,
    MOST_PAUSE_SECONDS,
    SHARE,
    STALE_SECONDS,
    Probe,
)

READY = Health([], {"role": "leader"}, [])
STALLED = Health(["5 reports wait"], {"role": "leader"}, [], ["5 reports wait"])


class Store:
    """A store that says what it is told to, after as long as it is told to take."""

    def __init__(self) -> None:
        self.now = 0.0
        self.seconds = 0.0
        self.looks = 0
        self.says: Callable[[], Health] = lambda: READY
        self.probe = Probe(self._examine, lambda: self.now)

    def _examine(self) -> Health:
        self.looks += 1
        said = self.says()
        self.now += self.seconds
        return said


def age(health: Health) -> object:
    return health.document["seen_seconds"]


def test_a_monitor_that_asks_every_five_minutes_gets_the_state_of_now() -> None:
    store = Store()
    for _ in range(60):
        store.now += store.probe.look()
    store.says = lambda: STALLED
    store.now += store.probe.look()
    assert store.probe.latest().faults == ["5 reports wait"]


def test_who_asks_looks_at_nothing_and_a_thousand_askers_neither() -> None:
    store = Store()
    store.probe.look()
    assert all(store.probe.latest().is_ready for _ in range(1000))
    assert store.looks == 1


def test_before_the_first_look_a_service_is_not_ready() -> None:
    assert Store().probe.latest().faults == ["the store has not answered yet"]


def test_what_was_seen_is_as_old_as_the_beginning_of_its_look() -> None:
    store = Store()
    store.seconds = 12.0
    store.probe.look()
    assert age(store.probe.latest()) == 12


@pytest.mark.parametrize("seconds", [0.0, 0.03, 0.04, 1.0, 10.0])
def test_looks_take_a_small_share_of_the_time_and_their_pauses_make_nothing_stale(
    seconds: float,
) -> None:
    store = Store()
    store.seconds = seconds
    for _ in range(10):
        pause = store.probe.look()
        assert LEAST_PAUSE_SECONDS <= pause <= MOST_PAUSE_SECONDS
        assert pause >= 0.999 * seconds / SHARE or pause == MOST_PAUSE_SECONDS
        # At most as old as just before the next look finishes:
        store.now += pause + seconds
        assert store.probe.latest().is_ready
        store.now -= seconds
    store.seconds = STALE_SECONDS
    store.probe.look()
    store.now += 1
    assert not store.probe.latest().is_ready


def test_a_store_that_is_gone_is_a_fault_and_so_is_our_own_without_its_words() -> None:
    store = Store()

    def fail(error: Exception) -> Health:
        raise error

    store.says = lambda: fail(StoreError("the store is damaged"))
    store.probe.look()
    assert store.probe.latest().faults == ["the store is damaged"]
    store.says = lambda: fail(ValueError("secret"))
    with capture_logs() as logs:
        store.probe.look()
    (fault,) = store.probe.latest().faults
    assert fault == "the store cannot be examined: ValueError, see the log"
    assert logs[0]["log_level"] == "error"
    store.says = lambda: READY
    store.probe.look()
    assert store.probe.latest().is_ready


class Hanging:
    """A store whose second look hangs until it is let go."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0
        self.hangs, self.may_go = threading.Event(), threading.Event()
        self.probe = Probe(self._examine, lambda: self.now)

    def _examine(self) -> Health:
        self.looks += 1
        if self.looks == 2:
            self.hangs.set()
            self.may_go.wait(60)
        return READY if self.looks == 1 else STALLED


@contextmanager
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        for name in ("LEAST_PAUSE_SECONDS", "MOST_PAUSE_SECONDS", "_LEAVING_SECONDS"):
            changed.setattr(probes, name, 0.01)
        yield


async def test_a_store_that_hangs_is_a_fault_soon_and_none_when_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, stop = Hanging(), anyio.Event()
    store.probe.look()
    with quick(monkeypatch):
        async with anyio.create_task_group() as group:
            group.start_soon(store.probe.watch, stop)
            await to_thread.run_sync(store.hangs.wait, 60)
            assert store.probe.latest().is_ready
            store.now = 31.0
            (fault,) = store.probe.latest().faults
            assert fault == (
                "the last look at the store is 31 s old, "
                "and the store has not answered another for 31 s"
            )
            store.may_go.set()
            while store.probe.latest().faults != ["5 reports wait"]:  # noqa: ASYNC110  a thread looks
                await anyio.sleep(0.01)
            stop.set()
    ended = store.looks
    await anyio.sleep(0.1)
    assert store.looks == ended


async def test_a_look_that_hangs_keeps_no_service_from_stopping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, stop = Hanging(), anyio.Event()
    store.probe.look()
    try:
        with quick(monkeypatch):
            async with anyio.create_task_group() as group:
                group.start_soon(store.probe.watch, stop)
                await to_thread.run_sync(store.hangs.wait, 60)
                stop.set()
    finally:
        store.may_go.set()
