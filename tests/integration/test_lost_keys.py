"""The file with the keys of the leader's sums is broken: nothing is spent, and there is a way on.

By docs/operations/troubleshoot.md, "Collections".
"""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from anyio import from_thread, to_thread
from sqlalchemy import select

from aggregator.cli.service.health_checks import SumWatch
from aggregator.dap.ids import encode_base64url
from aggregator.dap.problems import BatchOverlap
from aggregator.protocol.batches import Batch
from aggregator.service.config import LeaderSettings
from aggregator.service.helper.aggregate_shares import AggregateShares
from aggregator.service.runtime import ServedTask
from aggregator.service.runtime.lost_sums import sum_faults
from aggregator.service.runtime.status import examine_aggregator
from aggregator.service.storage.batches import lost_keys
from aggregator.service.storage.batches.sums import WithoutKey, buckets_without_key, shard_row
from aggregator.service.storage.engine.tables import bucket_keys, tasks
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.aggregate_shares import StoredAggregateShare
from aggregator.service.storage.ledger.charges import list_ledger
from aggregator.service.storage.operator.job_lists import list_blocked_jobs
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.secrets.key_file import SLOT_SIZE
from aggregator.service.telemetry.health import Health
from aggregator.written_times import utc_text
from tests.support.commands import run_here
from tests.support.entropy import SeededEntropy
from tests.support.pair import LEASE_SECONDS, Pair, leader_file
from tests.support.tasks import LAPLACE, make_task

MEASUREMENTS = [0, 1, 1, 3, 3, 3]
HOUR = 3600


def changed(place: int) -> Callable[[bytes], bytes]:
    """Return what changes the byte at a place."""

    def change(keys: bytes) -> bytes:
        changed = bytearray(keys)
        changed[place] ^= 1
        return bytes(changed)

    return change


BROKEN: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda _: None,
    "old": lambda _: b"",
    "without its end": lambda keys: keys[:-1],
    "a byte of a key": changed(-1),
}
NAME = Crypter([b"?" * 32]).first.hex()


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """Return a pair with reports that are aggregated."""
    pair = Pair(tmp_path, make_task(privacy=LAPLACE))
    await pair.provision()
    await pair.upload(await pair.reports(MEASUREMENTS))
    await pair.work_until_idle()
    yield pair
    await pair.close()


async def later(pair: Pair) -> None:
    pair.clock.advance(LEASE_SECONDS)
    await pair.work_until_idle()


def reasons(pair: Pair) -> list[str | None]:
    found = pair.leader.database.read_sync("blocked", lambda tx: list_blocked_jobs(tx, 9))
    return [each.reason for each in found]


@pytest.mark.parametrize("name", ["leader", "helper"])
async def test_sums_without_keys_are_told_of_before_their_batch_is_asked_for(
    pair: Pair, tmp_path: Path, name: str
) -> None:
    service, file = getattr(pair, name), tmp_path / f"{name}.sqlite.keys"
    service.database.close()
    away = file.rename(tmp_path / "away")
    service.start()
    (fault,) = sum_faults(service.database)
    unit = pair.interval()
    start, end = (
        utc_text(each.to_seconds(pair.task.time_precision)) for each in (unit.start, unit.end)
    )
    assert fault.startswith(
        f"the keys of 1 sums are lost or damaged (task {pair.task.task_id} from "
        f"{start} to {end}): bring the key file {file} back"
    )
    watch = SumWatch(service.database)
    await watch.look()
    settings = LeaderSettings(database="unused", hpke_rotation_seconds=0)

    def health() -> Health:
        return examine_aggregator(
            settings, service.role, service.database, service.journal, lambda: watch.faults
        )

    assert (health().faults, health().obstacles) == ([fault], [])
    away.rename(file)
    await watch.look()
    assert health().is_ready


async def test_status_names_the_units_whose_sums_have_no_key(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "leader.sqlite.keys").unlink()
    done = await to_thread.run_sync(run_here, "status", "--config", leader_file(tmp_path))
    assert done.returncode == 1
    assert f"the keys of 1 sums are lost or damaged (task {pair.task.task_id} from " in done.stdout


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
async def test_a_batch_without_its_keys_is_no_release_of_the_helpers(
    pair: Pair, tmp_path: Path, change: Callable[[bytes], bytes | None]
) -> None:
    file = tmp_path / "leader.sqlite.keys"
    whole = file.read_bytes()
    pair.leader.database.close()
    broken = change(whole)
    file.unlink() if broken is None else file.write_bytes(broken)
    pair.leader.start()
    location = (await pair.ask()).headers["location"]
    await pair.work()
    (reason,) = reasons(pair)
    assert reason is not None
    assert "the keys of 1 of the batch's sums are lost or damaged" in reason
    assert "`prio store after-restore --trust-journal`" in reason
    for service in (pair.leader, pair.helper):
        assert await service.database.read("ledger", list_ledger) == []

    config = leader_file(tmp_path)
    done = await to_thread.run_sync(
        lambda: run_here("store", "after-restore", "--config", config, "--trust-journal")
    )
    assert (done.returncode, done.stderr) == (0, "1 sums had lost their key and were closed\n")
    await later(pair)
    answer = await pair.poll(location)
    assert answer.problem["type"] == BatchOverlap.type_uri
    pair.clock.advance(HOUR)
    await pair.upload(await pair.reports(MEASUREMENTS, pair.clock.now()))
    result = await pair.collect(pair.interval(pair.clock.now()))
    assert result.report_count == len(MEASUREMENTS)
    (entry,) = await pair.helper.database.read("ledger", list_ledger)
    assert entry.charge.cost is not None


async def test_a_byte_of_the_name_of_a_store_key_costs_nothing(pair: Pair, tmp_path: Path) -> None:
    file = tmp_path / "leader.sqlite.keys"
    pair.leader.database.close()
    file.write_bytes(changed(SLOT_SIZE)(file.read_bytes()))  # before it is the end of a mark
    pair.leader.start()
    assert (await pair.collect()).report_count == len(MEASUREMENTS)


def under_another_store_key(tx: Transaction) -> None:
    """Let the key of the only sum be under a store key that was taken away too early."""
    query = select(bucket_keys.c.bucket, bucket_keys.c.shard, bucket_keys.c.slot, tasks.c.task_id)
    found = tx.connection.execute(query.join(tasks, tasks.c.id == bucket_keys.c.task)).one()
    place = "bucket_keys", shard_row(found.task_id, found.bucket, found.shard), "key"
    key = tx.crypter.decrypt(*place, tx.keys.get(found.slot))
    tx.keys.replace(found.slot, Crypter([b"?" * 32]).encrypt(*place, key))


async def test_a_sum_under_a_store_key_that_is_missing_is_not_lost(
    pair: Pair, tmp_path: Path
) -> None:
    await pair.leader.database.run("lock", under_another_store_key)
    location = (await pair.ask()).headers["location"]
    await pair.work()
    (reason,) = reasons(pair)
    assert reason is not None
    assert reason.startswith(f"1 of the batch's sums are under the store key {NAME}, which")
    assert f"if no store key ever had that name, it was read from the key file {tmp_path}" in reason
    assert await pair.helper.database.read("ledger", list_ledger) == []

    restored = ("store", "after-restore", "--config", leader_file(tmp_path), "--trust-journal")
    done = await to_thread.run_sync(lambda: run_here(*restored))
    left, said = done.stderr.splitlines()
    assert left == "0 sums had lost their key and were closed"
    assert said.startswith(f"1 sums are under the store key {NAME}, which store_key does not have")
    config = leader_file(tmp_path).with_name("leader.key")
    config.write_text(f"{'A' * 43},{encode_base64url(b'?' * 32)}")
    found = await to_thread.run_sync(lambda: run_here(*restored))
    assert found.stderr == "0 sums had lost their key and were closed\n"

    pair.leader.database.close()
    pair.leader.store_keys = [bytes(32), b"?" * 32]
    pair.leader.start()
    await later(pair)
    assert pair.open((await pair.poll(location)).body).report_count == len(MEASUREMENTS)


async def test_a_sum_under_a_store_key_that_is_gone_is_closed_when_a_person_says_so(
    pair: Pair, tmp_path: Path
) -> None:
    await pair.leader.database.run("lock", under_another_store_key)
    location = (await pair.ask()).headers["location"]
    restored = ("store", "after-restore", "--config", leader_file(tmp_path), "--trust-journal")
    for wrong, why in (("0" * 8, "no sum that is not collected"), ("?", "must be 8 hexadecimal")):
        named = (*restored, "--lost-store-key", wrong)
        refused = await to_thread.run_sync(lambda named=named: run_here(*named))
        assert (refused.returncode, why in refused.stderr) == (2, True)
    done = await to_thread.run_sync(lambda: run_here(*restored, "--lost-store-key", NAME))
    assert (done.returncode, done.stderr) == (0, "1 sums had lost their key and were closed\n")
    await later(pair)
    assert (await pair.poll(location)).problem["type"] == BatchOverlap.type_uri


async def test_a_key_file_of_noise_is_named_and_not_many_store_keys(
    pair: Pair, tmp_path: Path
) -> None:
    for _ in range(4):
        pair.clock.advance(HOUR)
        await pair.upload(await pair.reports(MEASUREMENTS, pair.clock.now()))
    await pair.work_until_idle()
    file = tmp_path / "leader.sqlite.keys"
    pair.leader.database.close()
    file.write_bytes(SeededEntropy(b"noise").bytes(file.stat().st_size))
    pair.leader.start()
    (fault,) = sum_faults(pair.leader.database)
    assert fault.startswith("5 sums are under 5 store keys (")
    assert " and 2 more) which store_key does not have (task " in fault
    assert f"no store has so many, so the key file {file} is damaged: bring it back" in fault

    file.unlink()
    restored = ("store", "after-restore", "--config", leader_file(tmp_path), "--trust-journal")
    done = await to_thread.run_sync(lambda: run_here(*restored))
    assert (done.returncode, done.stderr) == (0, "5 sums had lost their key and were closed\n")


@pytest.mark.parametrize("name", ["leader", "helper"])
async def test_a_key_file_that_comes_back_late_is_as_if_it_had_never_gone(
    pair: Pair, tmp_path: Path, name: str
) -> None:
    file, service = tmp_path / f"{name}.sqlite.keys", getattr(pair, name)
    service.database.close()
    away = file.rename(tmp_path / "away")
    service.start()
    pair.clock.advance(HOUR)
    now = pair.clock.now()
    await pair.upload(await pair.reports(MEASUREMENTS, now))
    await pair.work()
    assert not file.exists()
    service.database.close()
    away.rename(file)
    service.start()
    await later(pair)
    for interval in (pair.interval(), pair.interval(now)):
        assert (await pair.collect(interval)).report_count == len(MEASUREMENTS)


async def test_a_helper_that_has_lost_its_keys_says_so_and_spends_nothing(
    pair: Pair, tmp_path: Path
) -> None:
    pair.helper.database.close()
    (tmp_path / "helper.sqlite.keys").unlink()
    pair.helper.start()
    location = (await pair.ask()).headers["location"]
    await pair.work()
    problem = (await pair.poll(location)).problem
    assert problem["detail"] == "the helper has lost the keys of 1 of the batch's sums"
    assert await pair.helper.database.read("ledger", list_ledger) == []

    config = leader_file(tmp_path)
    helpers = config.with_name("helper.toml")
    helpers.write_text(config.read_text().replace('"leader', '"helper'))
    (tmp_path / "helper.key").write_text("A" * 43)
    (tmp_path / "helper.key").chmod(0o600)
    done = await to_thread.run_sync(
        lambda: run_here("store", "after-restore", "--config", helpers, "--trust-journal")
    )
    assert done.returncode == 0, done
    again = (await pair.ask(pair.interval(units=2))).headers["location"]
    await later(pair)
    assert (await pair.poll(again)).problem["type"] == BatchOverlap.type_uri
    for service in (pair.leader, pair.helper):
        assert await service.database.read("ledger", list_ledger) == []


async def test_a_repeated_request_that_meets_its_own_release_is_answered_with_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request's commit overwrites the keys whose rows the second one's snapshot has."""
    answer, asked, looks = AggregateShares.answer, [], []

    async def noting(
        shares: AggregateShares, served: ServedTask, body: bytes, share_id: bytes | None = None
    ) -> StoredAggregateShare:
        asked.append((shares, served, body, share_id))
        return await answer(shares, served, body, share_id)

    def looking(
        tx: Transaction, task_id: bytes | None = None, batch: Batch | None = None
    ) -> WithoutKey:
        looks.append(tx)
        if len(looks) == 1:
            tx.connection.execute(select(bucket_keys)).all()  # the snapshot is taken
            from_thread.run(answer, *asked[0])
            assert buckets_without_key(tx, task_id, batch).lost
        return buckets_without_key(tx, task_id, batch)

    monkeypatch.setattr(AggregateShares, "answer", noting)
    monkeypatch.setattr(lost_keys, "buckets_without_key", looking)
    result = await pair.collect()
    assert result.report_count == len(MEASUREMENTS)
    assert len(looks) > 1
