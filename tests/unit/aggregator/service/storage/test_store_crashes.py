"""A crash between, before or in the middle of any two transactions changes nothing in the end."""

import contextlib
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import func, select

import tests.support.store_world
from aggregator.service.storage.batches.sums import summarize_batch
from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.engine.tables import bucket_shares
from aggregator.service.storage.ledger.charges import list_ledger
from aggregator.service.storage.reports.counters import AGGREGATED, Stage, report_counts
from tests.support.clock import ManualClock
from tests.support.empty_store import copy_store
from tests.support.store import TASK_ID, checksum, stored_in
from tests.support.store_world import BATCH, IDS, READS, REPORTS, World, make_world

ROOT = Path(tests.support.store_world.__file__).parents[2]


class Crash(BaseException):
    """The process is gone."""


LEFT = select(func.count()).select_from(bucket_shares)


def deaths(engine: str, moments: list[tuple[str, str]]) -> list[int]:
    """Return the numbers of the moments at which to crash.

    What is rolled back leaves what the transaction before it had committed, so a crash as one
    begins shows nothing more. On SQLite, each transaction is cut off before its commit and after
    it. On PostgreSQL, where nothing is left to do after a commit, of each kind of transaction that
    writes only the last one is cut off: a crash there takes four times as long.
    """
    if engine == "sqlite":
        ends = {"before commit", "committed"}
        return [number for number, (_, moment) in enumerate(moments) if moment in ends]
    last = {
        name: number
        for number, (name, moment) in enumerate(moments)
        if moment == "before commit" and not name.startswith(READS)
    }
    return list(last.values())


@pytest.fixture(scope="module")
def template(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: ARG001  set up
    folder = tmp_path_factory.mktemp("template")
    make_world(folder)
    return folder


@pytest.fixture
def fresh(template: Path, tmp_path: Path) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        for store in ("leader", "helper"):
            copy_store(*(stored_in(folder / store) for folder in (template, tmp_path / name)))
        return tmp_path / name

    return copy


def check(world: World) -> None:
    """Run the world to its end, and check what must hold whatever happened before."""
    result = world.run()
    assert world.run() == result
    assert len(world.shown) == 2
    assert result.leader_share.split()[:2] == [b"leader", b"%d" % REPORTS]
    assert result.helper_share.split()[:2] == [b"helper", b"%d" % REPORTS]
    for store in (world.leader, world.helper):
        batch = store.read_sync("sum", lambda tx: summarize_batch(tx, TASK_ID, BATCH))
        assert (batch.report_count, batch.checksum) == (REPORTS, checksum(IDS))
        (entry,) = store.read_sync("ledger", list_ledger)
        assert entry.state is LedgerState.CHARGED
        left = store.read_sync("left", lambda tx: tx.connection.execute(LEFT).scalar_one())
        assert left == 0
    counts = world.leader.read_sync(
        "counts", lambda tx: report_counts(tx, TASK_ID, Stage.AGGREGATION)
    )
    assert counts == {AGGREGATED: REPORTS}


def moments_of_a_run(folder: Path) -> list[tuple[str, str]]:
    moments: list[tuple[str, str]] = []
    world = World(folder, ManualClock(0), lambda *moment: moments.append(moment))
    world.run()
    world.close()
    return moments


def crash_after(number: int) -> Callable[[str, str], None]:
    """Return a hook that crashes when `number` moments have passed."""
    left = iter(range(number))

    def crash(_name: str, _moment: str) -> None:
        if next(left, None) is None:
            raise Crash

    return crash


@pytest.mark.slow
def test_a_crash_at_any_moment_of_any_transaction_changes_nothing(
    fresh: Callable[[str], Path], engine: str
) -> None:
    moments = moments_of_a_run(fresh("whole"))
    assert len({name for name, _ in moments}) > 10
    numbers = deaths(engine, moments)
    names = {moments[number][0] for number in numbers}
    assert {"upload", "store request", "finish job", "freeze", "delete leftovers"} < names
    for number in numbers:
        moment = moments[number]
        folder, clock = fresh(f"crash {number}"), ManualClock(0)
        dying = World(folder, clock, crash_after(number))
        with pytest.raises(Crash):
            dying.run()
        dying.close()
        successor = World(folder, clock, lambda *_: None)
        successor.shown = dying.shown
        try:
            check(successor)
        except BaseException as error:
            error.add_note(f"after a crash at {moment}, number {number}")
            raise
        successor.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_repeated_crashes_change_nothing(fresh: Callable[[str], Path], seed: int) -> None:
    moments = len(moments_of_a_run(fresh("whole")))
    folder, clock, chance = fresh("crashes"), ManualClock(0), random.Random(seed)  # noqa: S311  picks moments
    shown: set[bytes] = set()
    for _ in range(10):
        world = World(folder, clock, crash_after(chance.randrange(moments)))
        world.shown = shown
        with contextlib.suppress(Crash):
            world.run()
        world.close()
    world = World(folder, clock, lambda *_: None)
    world.shown = shown
    check(world)
    world.close()


@pytest.mark.slow
def test_a_process_killed_in_the_middle_changes_nothing(fresh: Callable[[str], Path]) -> None:
    moments = moments_of_a_run(fresh("whole"))
    wanted = [
        ("finish job", "before commit"),
        ("release", "committed"),
        ("finish collection", "begin"),
    ]
    for name in wanted:
        number = moments.index(name)
        folder = fresh(f"killed {number}")
        killed = subprocess.run(  # noqa: S603  our own module
            [sys.executable, "-m", "tests.support.store_world", str(folder), str(number), "0"],
            cwd=ROOT,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL
        successor = World(folder, ManualClock(1000), lambda *_: None)
        check(successor)
        successor.close()
