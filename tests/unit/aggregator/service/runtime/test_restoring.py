"""What may have been released since a backup is closed and charged, and nothing else is."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.dap.profile import Role
from aggregator.dp.filters import Filter
from aggregator.errors import ParameterError
from aggregator.protocol.batches import Batch
from aggregator.protocol.groups import cost_of_a_person
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.runtime import charge_of
from aggregator.service.runtime.restoring import Presumed, close_without_keys, presume_released
from aggregator.service.storage.batches.closed import closed_batches, freeze, mark_collected
from aggregator.service.storage.batches.sums import open_buckets
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import BatchState, LedgerState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.charges import costs_in, list_ledger, releases_made, reserve
from aggregator.service.storage.ledger.populations import Population, put_population
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.tasks.tasks import TaskRecord, get_task, put_task
from tests.support.clock import ManualClock
from tests.support.commands import run_here, service_file
from tests.support.empty_store import upgraded, url_of
from tests.support.store import add_to_bucket, adding, body_of, report_id, totals, unit, units
from tests.support.tasks import LAPLACE, make_task

PRECISION = 100
MADE, BACKUP, NOW = 1000, 1250, 1999
"""Units 10, 12 and 19."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    upgraded(url_of(tmp_path / "store.sqlite"))
    with opened(tmp_path, MADE) as database:
        yield database


@contextmanager
def opened(directory: Path, now: int) -> Iterator[Database]:
    """The store of a directory at a time."""
    database = Database.open(
        url_of(directory / "store.sqlite"), Crypter([bytes(32)]), ManualClock(now)
    )
    try:
        yield database
    finally:
        database.close()


def with_task(
    store: Database,
    mode: str = "time_interval",
    interval: Mapping[str, int] | None = None,
    **privacy: str | int,
) -> Task:
    task = make_task(privacy={**LAPLACE, **privacy}, interval=interval, batch_mode=mode)
    record = TaskRecord(task.task_id.value, "leader", task_to_toml(task), bytes(32))
    store.run_sync("put", lambda tx: put_task(tx, record))
    return task


def put_bucket(store: Database, task: Task, bucket: bytes) -> None:
    store.run_sync(
        "add",
        lambda tx: add_to_bucket(tx, task.task_id.value, bucket, adding(1), totals([report_id(1)])),
    )


def presume(tmp_path: Path, role: Role = Role.LEADER, backup_time: int = BACKUP) -> Presumed:
    with opened(tmp_path, NOW) as restored:
        (presumed,) = restored.run_sync("p", lambda tx: presume_released(tx, role, backup_time, 0))
    return presumed


def states(store: Database, task: Task, end: int) -> list[BatchState | None]:
    closed = store.read_sync(
        "closed", lambda tx: closed_batches(tx, task.task_id.value, units(0, end))
    )
    return [closed.state(unit(each)) for each in range(end)]


def charged(store: Database) -> list[Batch]:
    entries = store.read_sync("ledger", list_ledger)
    return [each.batch for each in entries if each.state is LedgerState.PRESUMED]


def test_units_until_now_are_closed_and_charged_from_the_oldest_open_one_on(
    store: Database, tmp_path: Path
) -> None:
    task = with_task(store)
    put_bucket(store, task, unit(7))
    store.run_sync("c", lambda tx: mark_collected(tx, task.task_id.value, units(8, 10)))
    presumed = presume(tmp_path)
    assert states(store, task, 22) == [BatchState.COLLECTED] * 20 + [None] * 2
    assert charged(store) == [units(7, 8), *(units(n, n + 1) for n in range(10, 20))]
    assert presumed.charges == 11
    assert store.read_sync("open", lambda tx: open_buckets(tx, task.task_id.value)) == []


def test_a_batch_whose_collection_was_under_way_is_charged(store: Database, tmp_path: Path) -> None:
    task, batch = with_task(store), units(7, 9)
    put_bucket(store, task, unit(8))

    def begin(tx: Transaction) -> None:
        freeze(tx, task.task_id.value, batch)
        reserve(tx, task.task_id.value, batch, charge_of(task))

    store.run_sync("freeze", begin)
    presume(tmp_path)
    assert charged(store) == [batch, *(units(n, n + 1) for n in range(9, 20))]


def test_windows_whose_reports_may_all_have_come_late_are_charged_last(
    store: Database, tmp_path: Path
) -> None:
    task = with_task(store, window=2)
    for batch in (units(2, 4), units(8, 10)):
        store.run_sync("c", lambda tx, b=batch: mark_collected(tx, task.task_id.value, b))
    presume(tmp_path)
    starts = [12, 14, 16, 18, 10, 6, 4]
    assert charged(store) == [units(n, n + 2) for n in starts]


@pytest.mark.parametrize("begins", [0, 3])
def test_they_are_charged_from_the_beginning_of_the_tasks_interval(
    store: Database, tmp_path: Path, begins: int
) -> None:
    task = with_task(store, interval={"start": begins, "duration": 100})
    presume(tmp_path)
    assert charged(store)[8:] == [units(n, n + 1) for n in range(11, begins - 1, -1)]
    assert states(store, task, 20) == [BatchState.COLLECTED] * 20


def test_reports_that_wait_in_a_closed_unit_are_not_kept(store: Database, tmp_path: Path) -> None:
    task = with_task(store)
    reports = [StoredReport(report_id(1), unit(3), 0, body_of(1))]
    store.run_sync("up", lambda tx: put_reports(tx, task.task_id.value, reports, 100))
    assert presume(tmp_path).charges == 17


@pytest.mark.parametrize(("role", "end"), [(Role.LEADER, 18), (Role.HELPER, 24)])
def test_a_window_that_is_not_over_stays_open_at_the_leader(
    store: Database, tmp_path: Path, role: Role, end: int
) -> None:
    task = with_task(store, window=6)
    assert presume(tmp_path, role).closed == units(0, end)
    assert states(store, task, 26) == [BatchState.COLLECTED] * end + [None] * (26 - end)
    assert charged(store) == [units(n, n + 6) for n in range(12, end, 6)]


@pytest.mark.parametrize("limit", [{"max_releases": 3}, {"budget": "3/2"}])
def test_no_task_is_charged_for_more_than_its_limit(
    store: Database, tmp_path: Path, limit: Mapping[str, str | int]
) -> None:
    task = with_task(store, **limit)
    assert presume(tmp_path).charges == 3
    made = store.read_sync("made", lambda tx: releases_made(tx, task.task_id.value))
    assert made == 3


def test_a_task_whose_reports_name_no_batch_ends(store: Database, tmp_path: Path) -> None:
    task = with_task(store, "leader_selected", max_releases=5)
    bucket = (1).to_bytes(8, "big") + bytes(24)
    put_bucket(store, task, bucket)
    reports = [StoredReport(report_id(1), b"", 0, body_of(1))]
    store.run_sync("up", lambda tx: put_reports(tx, task.task_id.value, reports, 100))
    assert presume(tmp_path).charges == 5
    assert charged(store)[0] == Batch(bucket, bucket)
    stored = store.read_sync("task", lambda tx: get_task(tx, task.task_id.value))
    assert stored is not None
    assert stored.ended_at is not None


def test_without_a_limit_it_is_charged_for_what_its_populations_budget_pays(
    store: Database, tmp_path: Path
) -> None:
    task = with_task(store, "leader_selected", population="patients")
    limits = Population(Filter(epsilon=Fraction(2)))
    store.run_sync("limit", lambda tx: put_population(tx, "patients", limits))
    put_bucket(store, task, (1).to_bytes(8, "big") + bytes(24))
    assert presume(tmp_path).charges == 4
    spent = store.read_sync("spent", lambda tx: cost_of_a_person(costs_in(tx, "patients")))
    assert spent.epsilon == 2


@pytest.mark.parametrize("backup_time", [MADE - 1, NOW + 1])
def test_a_time_that_cannot_be_the_backups_is_refused(
    store: Database, tmp_path: Path, backup_time: int
) -> None:
    task = with_task(store)
    made, given = (
        f"{datetime.fromtimestamp(each, UTC):%Y-%m-%dT%H:%M:%SZ}" for each in (MADE, backup_time)
    )
    with pytest.raises(ParameterError, match=f"backup-time: must be from {made}.*not {given}"):
        presume(tmp_path, backup_time=backup_time)
    assert states(store, task, 3) == [None] * 3


def test_sums_whose_keys_did_not_come_back_are_closed_and_cost_nothing(tmp_path: Path) -> None:
    upgraded(url_of(tmp_path / "store.sqlite"))
    with opened(tmp_path, MADE) as store:
        task = with_task(store)
        put_bucket(store, task, unit(7))
    (tmp_path / "store.sqlite.keys").unlink()
    with opened(tmp_path, NOW) as restored:
        assert restored.run_sync("close", close_without_keys) == (1, {})
        put_bucket(restored, task, unit(8))
        found = states(restored, task, 10)
        assert [number for number, state in enumerate(found) if state is not None] == [7]
        assert restored.read_sync("ledger", list_ledger) == []


def test_the_command_says_what_it_closed(tmp_path: Path) -> None:
    file = service_file(tmp_path, "helper")
    done = run_here("store", "after-restore", "--config", file, "--backup-time", "2026-01-01")
    assert (done.returncode, done.stderr) == (0, "0 sums had lost their key and were closed\n")
    refused = run_here("store", "after-restore", "--config", file, "--backup-time", "2999-01-01")
    assert refused.returncode == 2
    assert "backup-time: must be from 1970-01-01T00:00Z" in refused.stderr
