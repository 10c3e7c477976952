"""An upload builds no statement, nor does a job: what each transaction runs was made once."""

from collections import Counter

import pytest
from sqlalchemy import Connection
from sqlalchemy.sql import coercions
from sqlalchemy.sql.expression import Executable

from aggregator.protocol.batches import Batch
from aggregator.service.storage.batches.sums import Addition, accumulate
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import (
    AGGREGATION_JOBS,
    finish_aggregation_job,
    note_sending,
    store_request,
)
from aggregator.service.storage.jobs.answered_jobs import put_answered_job
from aggregator.service.storage.jobs.deferred_jobs import find_job
from aggregator.service.storage.jobs.job_shares import JobShare, put_job_shares
from aggregator.service.storage.reports.capacity import room_to_add
from aggregator.service.storage.reports.claims import reports_of_job
from aggregator.service.storage.reports.counters import Stage, count_reports
from aggregator.service.storage.reports.rejecting import reject_waiting
from aggregator.service.storage.reports.reports import put_reports, tasks_with_unclaimed_reports
from aggregator.service.storage.tasks.caller_tokens import valid_token_hashes
from aggregator.service.storage.tasks.hpke_keys import HpkeKey, list_hpke_keys, put_hpke_key
from aggregator.service.storage.tasks.tasks import get_public_task, get_task
from aggregator.service.storage.tasks.version import settings_version
from tests.support.engines import ON_SQLITE
from tests.support.store import (
    MAX_REPORTS,
    TASK_ID,
    adding,
    create_job,
    lease_job,
    new_reports,
    totals,
    unit,
    units,
    upload,
)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many expressions have been made of what."""
    counts: Counter[str] = Counter()
    real = coercions.expect

    def counted(role: object, element: object, *args: object, **kwargs: object) -> object:
        counts[getattr(role, "__name__", str(role))] += 1
        return real(role, element, *args, **kwargs)

    monkeypatch.setattr(coercions, "expect", counted)
    return counts


def test_an_upload_builds_no_statement(store: Database, built: Counter[str]) -> None:
    def upload(first: int) -> None:
        def put(tx: object) -> None:
            settings_version(tx)
            reports = new_reports(range(first, first + 3))
            assert put_reports(tx, TASK_ID, reports, 10**6, first_day=0) == [None] * 3
            count_reports(tx, TASK_ID, Stage.UPLOAD, Counter(invalid_message=1))

        store.run_sync("upload", put)

    upload(0)  # statements are compiled, and those of this kind of database made
    built.clear()
    upload(10)
    assert built.total() == 0, built


@ON_SQLITE
def test_the_usual_way_of_a_job_runs_statements_without_sqlalchemy(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed: list[object] = []
    real = Connection.execute

    def execute(connection: Connection, statement: Executable, *args: object) -> object:
        executed.append(statement)
        return real(connection, statement, *args)  # type: ignore[arg-type]  # as it was given

    keypair = HpkeKey(1, b"config", b"key")
    store.run_sync("keys", lambda tx: put_hpke_key(tx, keypair))
    monkeypatch.setattr(Connection, "execute", execute)

    def go(first: int) -> None:
        upload(store, range(first, first + 6))
        assert store.read_sync("waiting", tasks_with_unclaimed_reports) == [TASK_ID]
        assert store.read_sync("task", lambda tx: get_public_task(tx, TASK_ID)) is not None
        assert create_job(store, 6) is not None
        assert store.read_sync("due", AGGREGATION_JOBS.due) == {TASK_ID: 1}
        leased = lease_job(store)
        job, lease = leased.job.key, leased.lease
        ids = store.read_sync("read", lambda tx: reports_of_job(tx, job)).ids
        assert store.read_sync("keys", list_hpke_keys) == [keypair]
        store.run_sync("send", lambda tx: store_request(tx, lease, b"request", {}))

        def finish(tx: Transaction) -> None:
            room_to_add(tx, TASK_ID, {unit(5): Batch(unit(5), unit(5))}, MAX_REPORTS, len(ids))
            share = totals(ids)
            accumulate(tx, TASK_ID, [Addition(unit(5), adding(6), share)])
            put_job_shares(tx, TASK_ID, [JobShare(unit(5), ids[0] * 2, b"6", share)])
            finish_aggregation_job(tx, lease, ids, {})

        store.run_sync("finish", finish)
        digest = ids[1] * 2
        assert store.read_sync("find", lambda tx: find_job(tx, TASK_ID, digest)) is None
        store.run_sync("answer", lambda tx: put_answered_job(tx, TASK_ID, digest, b"answer"))
        assert store.read_sync("task", lambda tx: get_task(tx, TASK_ID)) is not None
        store.read_sync("tokens", lambda tx: valid_token_hashes(tx, TASK_ID, "helper"))

    go(0)
    go(10)  # whose bucket has reports already
    assert executed == []


def test_the_way_of_an_aggregation_job_builds_no_statement(
    store: Database, built: Counter[str]
) -> None:
    def go(first: int) -> None:
        upload(store, range(first, first + 6))
        built.clear()
        store.read_sync("waiting", tasks_with_unclaimed_reports)
        assert create_job(store, 5) is not None  # a part of the group, which is copied
        store.read_sync("due", AGGREGATION_JOBS.due)
        leased = lease_job(store)
        job, lease = leased.job.key, leased.lease
        ids = store.read_sync("read", lambda tx: reports_of_job(tx, job)).ids
        rejected, early = {ids[0]: "invalid_message"}, [ids[1]]
        store.run_sync("send", lambda tx: store_request(tx, lease, b"request", rejected, early))
        store.run_sync("again", lambda tx: note_sending(tx, lease))

        def finish(tx: Transaction) -> None:
            room_to_add(tx, TASK_ID, {unit(5): Batch(unit(5), unit(5))}, MAX_REPORTS, len(ids))
            share = totals(ids[2:])
            accumulate(tx, TASK_ID, [Addition(unit(5), adding(2), share)])
            put_job_shares(tx, TASK_ID, [JobShare(unit(5), bytes(32), b"2", share)])
            finish_aggregation_job(tx, lease, ids[2:], {})

        store.run_sync("finish", finish)

    go(0)
    store.run_sync("reject", lambda tx: reject_waiting(tx, TASK_ID, units(0, 10), "left"))
    go(10)
    assert built.total() == 0, built
