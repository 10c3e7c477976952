"""Bodies of reports in object storage: all is as in the database, whatever fails meanwhile."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from aggregator.errors import ConfigurationError, StoreError
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.backends import Unreachable, UnreadableBodies
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.objects import Objects, _Folder, objects_at
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregation_jobs import AGGREGATION_JOBS, set_reports_aside
from aggregator.service.storage.reports import bodies, giving_up
from aggregator.service.storage.reports.claims import reports_of_job
from aggregator.service.storage.reports.counters import DROPPED, Stage, report_counts
from aggregator.service.storage.reports.giving_up import give_up_unreadable
from aggregator.service.storage.reports.object_check import prove_waiting, settle_place
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.reports.waiting import waiting_buckets
from tests.support.clock import ManualClock
from tests.support.engines import ON_POSTGRESQL
from tests.support.patience import wait_until
from tests.support.store import (
    MAX_REPORTS,
    TASK_ID,
    bodies_left,
    body_of,
    create_job,
    finish_job,
    lease_job,
    make_store,
    new_reports,
    reports_in,
    rotate_all,
    stored,
    upload,
)

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bodies, "LEAST_BYTES", len(body_of(0)) + 1)  # more than one test's report
    return tmp_path / "objects"


@pytest.fixture
def store(tmp_path: Path, folder: Path, clock: ManualClock) -> Iterator[Database]:
    database = make_store(tmp_path, clock, objects=objects_at(f"file://{folder}"))
    yield database
    database.close()


def rows(store: Database) -> list[bytes]:
    def read(tx: Transaction) -> list[bytes]:
        bodies = (
            select(each.c.body).where(each.c.report_group > 0) for each in tables.report_bodies
        )
        return [bytes(body) for query in bodies for body in tx.connection.scalars(query)]

    return store.read_sync("rows", read)


def objects_in(folder: Path) -> int:
    return len(list(folder.iterdir())) if folder.exists() else 0


def test_large_groups_are_objects_and_small_ones_rows(
    store: Database, folder: Path, clock: ManualClock
) -> None:
    upload(store, range(50))
    upload(store, [50])
    assert objects_in(folder) == 1
    of_each = 16 + hashlib.sha256().digest_size  # an id and a digest
    assert sorted(map(len, rows(store))) == [len(body_of(50)), 50 * of_each]
    assert create_job(store) is not None
    leased = lease_job(store)
    found = reports_in(store, leased.job.key)
    assert [each.body for each in found] == [body_of(number) for number in range(51)]
    finish_job(store, leased)
    rotate_all(store, clock)
    assert bodies_left(store) == objects_in(folder) == 0


def test_more_objects_than_one_transaction_deletes_all_go(
    store: Database, folder: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MOST_DELETED", 3)
    for number in range(0, 20, 2):
        upload(store, [number, number + 1])
    create_job(store)
    finish_job(store, lease_job(store))
    assert objects_in(folder) == 10
    rotate_all(store, clock)
    assert bodies_left(store) == objects_in(folder) == 0


def test_a_transaction_that_is_not_committed_leaves_no_object(
    store: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(tx: Transaction) -> None:
        put_reports(tx, TASK_ID, new_reports(range(9)), MAX_REPORTS)
        raise tx.refuse(StoreError("no"))

    deleted: list[object] = []
    monkeypatch.setattr(Objects, "try_delete", lambda _, names: deleted.append(names))
    with pytest.raises(StoreError, match="no"):
        store.run_sync("fail", fail)
    assert objects_in(folder) == stored(store) == 0
    assert deleted == []  # nothing was put, so the storage is not asked


def test_a_process_that_ends_before_its_commit_leaves_no_report(
    tmp_path: Path, folder: Path, clock: ManualClock
) -> None:
    def stop(name: str, moment: str) -> None:
        if (name, moment) == ("upload", "before commit"):
            raise KeyboardInterrupt

    store = make_store(tmp_path, clock, stop, objects_at(f"file://{folder}"))
    with pytest.raises(KeyboardInterrupt):
        upload(store, range(9))
    assert objects_in(folder) == stored(store) == 0
    store.close()


def test_nothing_is_stored_while_object_storage_is_away(store: Database, folder: Path) -> None:
    folder.write_text("no folder")
    with pytest.raises(Unreachable, match="object storage folder"):
        upload(store, range(9))
    assert stored(store) == 0
    (fault,) = store.object_faults()
    assert fault.startswith("uploads are refused and jobs wait: object storage folder")
    folder.unlink()
    # Health is right again before the next upload, which may be hours away.
    wait_until(lambda: store.object_faults() == [] and objects_in(folder) == 0, "still a fault")
    upload(store, range(9))  # the same reports again
    assert (stored(store), objects_in(folder), store.object_faults()) == (9, 1, [])


def test_an_object_that_is_gone_is_a_body_that_is_gone(store: Database, folder: Path) -> None:
    upload(store, range(9))
    (file,) = folder.iterdir()
    file.unlink()
    job = create_job(store)
    assert job is not None
    with pytest.raises(UnreadableBodies, match="is not there, or not what was stored"):
        store.read_sync("read", lambda tx: reports_of_job(tx, job.key))


def test_a_place_that_has_become_empty_while_we_run_has_lost_no_report(
    store: Database, folder: Path, tmp_path: Path
) -> None:
    """A bucket deleted by mistake, or an unmounted disk: it answers that each object is gone."""
    upload(store, range(9))
    upload(store, range(10, 15))
    (lost, *_) = folder.iterdir()
    store.know_objects()
    there = set(folder.iterdir())
    job = create_job(store)
    assert job is not None
    folder.rename(tmp_path / "away")
    folder.mkdir()
    with pytest.raises(Unreachable, match=f"folder {folder}: has nothing any more of what was put"):
        reports_in(store, job.key)
    for _ in range(2):  # trying again does not make an empty place ours
        (fault,) = store.object_faults()
        assert "is it the same bucket" in fault
        store._objects._trying.result()
    store.know_objects()  # nor does the time to put another object there
    with pytest.raises(Unreachable, match="has nothing any more of what was put"):
        reports_in(store, job.key)
    # What came now would lie below the disk, once that is mounted again.
    with pytest.raises(Unreachable, match="has nothing any more of what was put"):
        upload(store, range(20, 29))
    assert objects_in(folder) == 0
    shutil.rmtree(folder)
    (tmp_path / "away").rename(folder)
    assert len(reports_in(store, job.key)) == 14
    upload(store, range(20, 29))
    (more,) = set(folder.iterdir()) - there
    assert store.object_faults() == []
    lost.unlink()
    with pytest.raises(UnreadableBodies, match="is not there, or not what was stored"):
        store.read_sync("read", lambda tx: reports_of_job(tx, job.key))
    assert store.object_faults() == []
    store.close()
    # What the store put to know the place by has gone with it.
    assert set(folder.iterdir()) < {*there, more}
    assert objects_in(folder) == 2


@pytest.mark.parametrize("is_mounted", [True, False])
def test_a_disk_that_comes_or_goes_during_an_upload_hides_no_report(
    store: Database,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_mounted: bool,
) -> None:
    upload(store, range(9))
    store.know_objects()
    away, below = tmp_path / "away", tmp_path / "below"
    put = _Folder.put
    puts: list[str] = []

    def unmount() -> None:
        folder.rename(away)
        folder.mkdir()

    def put_and_change(place: _Folder, name: str, content: bytes) -> None:
        put(place, name, content)
        puts.append(name)
        if is_mounted:
            unmount()
        else:
            folder.rename(below)
            away.rename(folder)

    if not is_mounted:
        unmount()
    monkeypatch.setattr(_Folder, "put", put_and_change)
    with pytest.raises(Unreachable, match="has nothing any more of what was put"):
        upload(store, range(20, 29))
    assert stored(store) == 9
    assert len(puts) == is_mounted  # nothing is written to the disk below
    monkeypatch.setattr(_Folder, "put", put)
    shutil.rmtree(folder)
    away.rename(folder)
    upload(store, range(20, 29))
    job = create_job(store)
    assert job is not None
    assert len(reports_in(store, job.key)) == 18


def test_a_bucket_whose_rule_deletes_what_is_old_is_still_known(
    store: Database, folder: Path
) -> None:
    upload(store, range(9))
    reports = set(folder.iterdir())
    store.know_objects()
    old = set(folder.iterdir())
    store.know_objects()
    (young,) = set(folder.iterdir()) - old
    assert set(folder.iterdir()) == {*reports, young}
    job = create_job(store)
    assert job is not None
    for each in reports:
        each.unlink()
    with pytest.raises(UnreadableBodies, match="is not there, or not what was stored"):
        store.read_sync("read", lambda tx: reports_of_job(tx, job.key))


@pytest.mark.parametrize("set_to", [None, "another folder"])
def test_a_leader_told_another_place_for_its_bodies_does_not_start_and_loses_none(
    store: Database, folder: Path, tmp_path: Path, clock: ManualClock, set_to: str | None
) -> None:
    upload(store, range(9))
    upload(store, [9])
    job = create_job(store)
    assert job is not None
    upload(store, range(10, 15))
    other = tmp_path / "another"
    elsewhere = None if set_to is None else objects_at(f"file://{other}")
    wrong = make_store(tmp_path, clock, objects=elsewhere)
    named = "is not set" if set_to is None else f"is folder {other}"
    with pytest.raises(
        ConfigurationError,
        match=f"report_bodies: {named}, and 14 reports that wait lie in folder {folder}",
    ):
        settle_place(wrong)
    # Nor does one that has started before, and would now find none.
    with pytest.raises(StoreError, match=f"report_bodies: {named}, .* lie in folder {folder}"):
        reports_in(wrong, job.key)
    if set_to is not None:
        with pytest.raises(StoreError, match=f"report_bodies: {named}"):
            upload(wrong, range(20, 30))
        assert objects_in(other) == 0
    wrong.close()
    settle_place(store)
    assert len(reports_in(store, job.key)) == 10


def test_a_leader_starts_beside_reports_that_it_knows_to_be_unreadable(
    store: Database, folder: Path
) -> None:
    """They wait for an operator, who may come tomorrow; nobody else's uploads wait with them."""
    upload(store, range(9))
    (file,) = folder.iterdir()
    file.unlink()
    with pytest.raises(ConfigurationError, match="has none of 1 objects with reports that wait"):
        prove_waiting(store)
    create_job(store)
    leased = lease_job(store)
    with pytest.raises(UnreadableBodies) as caught:
        reports_in(store, leased.job.key)
    groups = caught.value.groups
    store.run_sync("aside", lambda tx: set_reports_aside(tx, leased.lease, groups))
    prove_waiting(store)


@pytest.mark.parametrize("set_to", [None, "another folder"])
def test_bodies_may_lie_elsewhere_once_none_waits(
    store: Database, folder: Path, tmp_path: Path, clock: ManualClock, set_to: str | None
) -> None:
    upload(store, range(9))
    create_job(store)
    finish_job(store, lease_job(store))
    other = tmp_path / "another"
    elsewhere = None if set_to is None else objects_at(f"file://{other}")
    changed = make_store(tmp_path, clock, objects=elsewhere)
    settle_place(changed)
    upload(changed, range(10, 20))
    job = create_job(changed)
    assert job is not None
    assert len(reports_in(changed, job.key)) == 10
    assert objects_in(folder) == 1  # of no use; the place's own rule deletes it
    assert objects_in(other) == (set_to is not None)
    finish_job(changed, lease_job(changed))
    rotate_all(changed, clock)
    assert bodies_left(changed) == objects_in(other) == 0
    changed.close()


def test_a_place_that_has_lost_all_that_waits_is_refused_until_that_is_given_up(
    store: Database, folder: Path, tmp_path: Path
) -> None:
    """A disk that is not mounted: its folder is there and empty."""
    upload(store, range(9))
    upload(store, range(10, 15))
    prove_waiting(store)
    folder.rename(tmp_path / "away")
    with pytest.raises(ConfigurationError, match=f"folder {folder} has none of 2 objects"):
        prove_waiting(store)
    (tmp_path / "away").rename(folder)
    prove_waiting(store)
    next(folder.iterdir()).unlink()
    prove_waiting(store)  # one that is lost keeps nobody from serving
    looked = give_up_unreadable(store, only_look=True)
    assert give_up_unreadable(store) == looked
    (loss,) = looked.losses.values()
    assert sorted([looked.readable, loss.free]) == [5, 9]
    assert stored(store) == looked.readable
    again = give_up_unreadable(store)
    assert (again.readable, again.losses) == (looked.readable, {})


def test_the_place_is_asked_while_no_transaction_is_open(
    store: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking for many bodies takes minutes, and PostgreSQL ends a transaction that is idle then."""
    begun: list[str] = []

    def note(name: str, moment: str) -> None:
        if moment == "begin":
            begun.append(name)
        elif moment == "committed":
            begun.remove(name)

    upload(store, range(9))
    upload(store, range(10, 15))
    next(folder.iterdir()).unlink()
    asked: list[list[str]] = []
    get = _Folder.get

    def asking(place: _Folder, name: str, most: int) -> bytes | None:
        asked.append([*begun])
        return get(place, name, most)

    monkeypatch.setattr(_Folder, "get", asking)
    monkeypatch.setattr(store, "_on_transaction", note)
    prove_waiting(store)
    assert give_up_unreadable(store).readable in (5, 9)
    assert len(asked) > 4
    assert not any(asked)


def test_nothing_is_given_up_if_reports_come_while_their_place_is_asked(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their objects may lie in the old place, of a process that still runs."""
    upload(store, range(9))
    before, get = rows(store), _Folder.get

    def asking(place: _Folder, name: str, most: int) -> bytes | None:
        monkeypatch.setattr(_Folder, "get", get)
        upload(store, range(10, 15))
        return get(place, name, most)

    monkeypatch.setattr(_Folder, "get", asking)
    with pytest.raises(ConfigurationError, match="reports came meanwhile"):
        give_up_unreadable(store)
    assert set(before) < set(rows(store))


def test_bodies_that_were_copied_are_found_at_their_new_place(
    store: Database, folder: Path, tmp_path: Path, clock: ManualClock
) -> None:
    upload(store, range(9))
    other = tmp_path / "another"
    shutil.copytree(folder, other)
    moved = make_store(tmp_path, clock, objects=objects_at(f"file://{other}"))
    looked = give_up_unreadable(moved)
    assert (looked.readable, looked.losses) == (9, {})
    settle_place(moved)
    job = create_job(moved)
    assert job is not None
    assert len(reports_in(moved, job.key)) == 9
    moved.close()


@ON_POSTGRESQL
def test_no_worker_takes_a_job_whose_reports_are_being_given_up(
    tmp_path: Path, folder: Path, clock: ManualClock
) -> None:
    """It would ask the helper about reports whose ids are free a moment later."""
    taken: list[int] = []
    other = make_store(tmp_path, clock, objects=objects_at(f"file://{folder}"))

    def meanwhile(name: str, moment: str) -> None:
        if (name, moment) == ("give up bodies", "before commit"):
            leased = other.run_sync("lease", lambda tx: AGGREGATION_JOBS.lease(tx, 9, 60))
            taken.append(len(leased))

    store = make_store(tmp_path, clock, meanwhile, objects_at(f"file://{folder}"))
    upload(store, range(9))
    create_job(store)
    (file,) = folder.iterdir()
    file.unlink()
    (loss,) = give_up_unreadable(store, even_all=True).losses.values()
    assert (loss.free, taken) == (9, [0])
    store.close()
    other.close()


def test_many_groups_that_are_given_up_are_counted_once_for_each_task(
    store: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL takes longer each time that a transaction changes the same row."""
    for number in range(0, 12, 2):
        upload(store, [number, number + 1])
    for each in folder.iterdir():
        each.unlink()
    counted: list[object] = []
    for name in ("count_left", "count_reports"):
        count = getattr(giving_up, name)
        monkeypatch.setattr(
            giving_up, name, lambda *each, count=count: (counted.append(each), count(*each))
        )
    (loss,) = give_up_unreadable(store, even_all=True).losses.values()
    assert (loss.bodies, loss.free, len(counted)) == (6, 12, 2)
    counts = store.read_sync("c", lambda tx: report_counts(tx, TASK_ID, Stage.AGGREGATION))
    assert counts == {DROPPED: 12}
    assert store.read_sync("w", lambda tx: waiting_buckets(tx, TASK_ID)) == []
