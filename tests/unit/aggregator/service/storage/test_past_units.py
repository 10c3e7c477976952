"""A stranger who opens a unit of the past with each report is stopped, and nobody else is."""

import pytest
from sqlalchemy import func, select

from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY
from aggregator.service.storage.batches.closed import mark_collected
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.tables import waiting_reports
from aggregator.service.storage.jobs.aggregation_jobs import finish_aggregation_job
from aggregator.service.storage.reports import past_units
from aggregator.service.storage.reports.counters import PAST_UNITS, STORED, Stage, report_counts
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.tasks.garbage import collect_garbage
from tests.support.balance import check_books
from tests.support.store import (
    MAX_REPORTS,
    TASK_ID,
    aggregate,
    create_job,
    lease_job,
    new_reports,
    report_id,
    units,
    upload,
)

MOST = 4
NOW = 100


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_units, "MOST_UNITS", MOST)


def send(store: Database, number: int, time: int) -> ReportError | None:
    """Upload one report of a unit; return why it was refused."""
    (error,) = store.run_sync(
        "upload",
        lambda tx: put_reports(
            tx,
            TASK_ID,
            new_reports([number], time),
            MAX_REPORTS,
            past_before=units(NOW, NOW + 1).first,
        ),
    )
    return error


def test_units_of_the_past_are_bounded_and_current_and_open_ones_are_not(
    store: Database,
) -> None:
    upload(store, [90], time=0)
    aggregate(store, [91])  # of unit 5: only its sum is left
    assert [send(store, 10 + n, 10 + n) for n in range(2)] == [None] * 2
    dropped = ReportError.REPORT_DROPPED
    assert [send(store, 20 + n, 20 + n) for n in range(3)] == [dropped] * 3
    assert send(store, 30, 5) is None
    assert send(store, 31, 10) is None
    assert [send(store, 40 + n, NOW + n) for n in range(10)] == [None] * 10
    assert send(store, 90, 0) is ReportError.REPORT_REPLAYED
    counts = store.read_sync("counts", lambda tx: report_counts(tx, TASK_ID, Stage.UPLOAD))
    assert (counts[STORED], counts[PAST_UNITS]) == (16, 3)


def test_a_unit_that_was_collected_makes_room_for_another(store: Database) -> None:
    for number in range(MOST):
        aggregate(store, [number], number)
    assert send(store, 50, 50) is ReportError.REPORT_DROPPED
    store.run_sync("collect", lambda tx: mark_collected(tx, TASK_ID, units(0, 1)))
    assert send(store, 50, 50) is None


def test_units_of_the_past_of_which_nothing_was_counted_leave_nothing(store: Database) -> None:
    """A stranger's reports are rejected when they are aggregated, and room is made for more."""
    for number in range(3 * MOST):
        assert send(store, number, number) is None
        create_job(store)
        leased = lease_job(store)
        wrong = {report_id(number): "hpke_decrypt_error"}
        store.run_sync(
            "reject", lambda tx, of=leased, r=wrong: finish_aggregation_job(tx, of.lease, [], r)
        )
    assert count(store) == 3 * MOST
    send(store, 90, 90)
    while store.run_sync("garbage", lambda tx: collect_garbage(tx, DAY)):
        pass
    assert count(store) == 1
    store.run_sync("books", lambda tx: check_books(tx, TASK_ID))


def count(store: Database) -> int:
    """Return how many rows there are of reports that wait."""
    rows = select(func.count()).select_from(waiting_reports)
    return store.read_sync("rows", lambda tx: int(tx.connection.execute(rows).scalar_one()))
