"""HPKE keys change by age; private keys are destroyed when no report can need them."""

import contextlib
import shutil
from pathlib import Path

import anyio
import pytest
from sqlalchemy import select
from structlog.testing import capture_logs

from aggregator.dap.hpke import HpkeConfig
from aggregator.dap.messages import Report
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY
from aggregator.entropy import SystemEntropy
from aggregator.protocol.hpke_rotation import HpkeRotation
from aggregator.service.runtime import Runtime
from aggregator.service.runtime.key_rotation import SETTLING_SECONDS, KeyRotation, new_key
from aggregator.service.runtime.status import read_aggregator_health
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.tables import hpke_keys
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.tasks.hpke_keys import (
    CONFIG_IDS,
    list_hpke_configs,
    list_hpke_keys,
    retire_hpke_key,
)
from aggregator.service.storage.tasks.tasks import TaskRecord, end_task, put_task
from tests.support.clock import ManualClock
from tests.support.pair import Pair, Service, pair_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.raw_bytes import reading
from tests.support.reports import make_reports
from tests.support.rotation import rotate, rotation_of, settle

MEASUREMENTS = [0, 1, 1]
HOUR = 3600
MONTH, CACHE, WAIT = 30 * DAY, DAY, 14 * DAY  # as by default


pair = pair_of()


def faults_of(service: Service, rotation: HpkeRotation) -> list[str]:
    health = service.database.read_sync(
        "health", lambda tx: read_aggregator_health(tx, service.role, 10**9, rotation=rotation)
    )
    return list(health.faults)


async def advertised(service: Service) -> list[int]:
    return [config.id for config in (await service.runtime.configs()).configs]


async def opens_what_it_advertises_alone(service: Service) -> bool:
    return await opening(service) == {*await advertised(service)}


async def opening(service: Service) -> set[int]:
    return set(await service.runtime.keypairs())


def reports_to(pair: Pair, configs: tuple[HpkeConfig, HpkeConfig]) -> list[Report]:
    time = pair.task.time(pair.clock.now())
    return make_reports(pair.task, *configs, MEASUREMENTS, time, pair.client_entropy)


async def test_a_key_of_an_age_is_replaced_and_still_opens_what_clients_seal_to_it(
    pair: Pair,
) -> None:
    cached = await pair.configs()
    pair.clock.advance(MONTH - 1)
    assert await rotate(pair.leader) == 0
    pair.clock.advance(1)
    for service in (pair.leader, pair.helper):
        (old,) = await opening(service)
        assert await rotate(service) == 1
        assert await rotate(service) == 0
        (new,) = await advertised(service)
        assert new != old
        assert await opening(service) == {old, new}
    pair.clock.advance(2 * CACHE - 1)
    interval = pair.interval(pair.clock.now())
    for configs in (cached, await pair.configs()):
        assert (await pair.upload(reports_to(pair, configs))).status == ()
    pair.clock.advance(1)
    late = await pair.upload(reports_to(pair, cached))
    assert {DAP_18.report_error(each.error) for each in late.status} == {
        ReportError.OUTDATED_CONFIG
    }
    assert (await pair.collect(interval)).values == (2, 4, 0, 0)


async def test_the_leader_keeps_a_key_while_a_report_waits_that_may_need_it(
    pair: Pair, tmp_path: Path
) -> None:
    secret = stored_private_key(pair.leader)
    await pair.upload(await pair.reports(MEASUREMENTS))
    interval = pair.interval()
    pair.clock.advance(MONTH)
    assert await rotate(pair.leader) == 1
    pair.clock.advance(10 * DAY)
    assert await rotate(pair.leader) == 0
    assert secret in raw_bytes(tmp_path)
    assert (await pair.collect(interval)).values == (1, 2, 0, 0)
    await pair.upload(await pair.reports(MEASUREMENTS, pair.clock.now()))  # needs the new one only
    assert await rotate(pair.leader) == 1
    assert await opens_what_it_advertises_alone(pair.leader)
    await wait_until_gone(secret, tmp_path)


async def test_the_helper_keeps_a_key_for_reports_that_wait_and_for_open_windows(
    pair: Pair, tmp_path: Path
) -> None:
    secret = stored_private_key(pair.helper)
    cached = await pair.configs()
    pair.clock.advance(MONTH)
    assert await rotate(pair.helper) == 1
    pair.clock.advance(2 * CACHE - 100)
    await pair.upload(reports_to(pair, cached))
    interval = pair.interval(pair.clock.now())
    pair.clock.advance(WAIT)
    assert await rotate(pair.helper) == 0
    await pair.work_until_idle()  # the leader was away for so long
    pair.clock.advance(DAY)
    assert await rotate(pair.helper) == 0
    assert secret in raw_bytes(tmp_path)
    assert (await pair.collect(interval)).values == (1, 2, 0, 0)
    assert await rotate(pair.helper) == 1
    assert await opens_what_it_advertises_alone(pair.helper)
    await wait_until_gone(secret, tmp_path)


async def test_what_waits_for_ever_keeps_the_keys_of_its_time_and_no_later_ones(pair: Pair) -> None:
    await pair.upload(await pair.reports(MEASUREMENTS))
    await pair.work_until_idle()  # a window that nobody collects
    await pair.upload(await pair.reports([1]))  # waits for a worker that is away
    made = {service: await advertised(service) for service in (pair.leader, pair.helper)}
    for _ in range(4):
        pair.clock.advance(MONTH)
        for service, ids in made.items():
            await rotate(service)
            ids.extend(await advertised(service))
    for service, (first, _, _, *later) in made.items():
        assert await opening(service) == {first, *later}


async def test_a_task_that_cannot_be_read_stops_no_change_of_keys(pair: Pair) -> None:
    broken = TaskRecord(bytes(32), "helper", "no task", bytes(32))
    await pair.helper.database.run("spoil", lambda tx: put_task(tx, broken))
    made = await advertised(pair.helper)
    for _ in range(2):
        pair.clock.advance(MONTH)
        assert await rotate(pair.helper) == 1
        made += await advertised(pair.helper)
    await pair.helper.database.run("end", lambda tx: end_task(tx, bytes(32)))
    assert await rotate(pair.helper) == 1
    assert await opening(pair.helper) == {*made[1:]}


async def test_while_the_store_is_read_a_destroyed_key_needs_the_stores_key(
    pair: Pair, tmp_path: Path
) -> None:
    """What a reader keeps in the log is a ciphertext; it goes as soon as they end."""
    (key,) = await pair.helper.database.read("keys", list_hpke_keys)
    sealed = stored_private_key(pair.helper)
    await retired_and_not_needed(pair)
    with reading(tmp_path / "helper.sqlite"):
        assert await rotate(pair.helper) == 1
        assert await opens_what_it_advertises_alone(pair.helper)
        found = raw_bytes(tmp_path)
        assert sealed in found  # where this test would find a private key that is not encrypted
        assert key.private_key not in found
    await wait_until_gone(sealed, tmp_path)


@pytest.mark.parametrize("is_read", [False, True], ids=["alone", "with a reader"])
async def test_a_process_that_died_leaves_no_destroyed_key_to_one_that_only_reads(
    pair: Pair, tmp_path: Path, *, is_read: bool
) -> None:
    sealed = stored_private_key(pair.helper)
    await retired_and_not_needed(pair)
    copy = tmp_path / "copy"
    with reading(tmp_path / "helper.sqlite"):
        assert await rotate(pair.helper) == 1
        copy.mkdir()
        for file in ("helper.sqlite", "helper.sqlite-wal"):  # as the process left them
            shutil.copy(tmp_path / file, copy / file)
    assert sealed in raw_bytes(copy)
    with reading(copy / "helper.sqlite") if is_read else contextlib.nullcontext():
        successor = Database.open(f"sqlite:///{copy}/helper.sqlite", Crypter([bytes(32)]))
        keys = successor.read_sync("keys", list_hpke_configs)
        assert [key.config_id for key in keys] == await advertised(pair.helper)
    await wait_until_gone(sealed, copy)
    successor.close()


async def test_a_task_that_ended_keeps_no_key(pair: Pair) -> None:
    await pair.upload(await pair.reports(MEASUREMENTS))
    await pair.work_until_idle()
    pair.clock.advance(MONTH)
    assert await rotate(pair.helper) == 1
    pair.clock.advance(MONTH - DAY)
    assert await rotate(pair.helper) == 0
    task_id = pair.task.task_id.value
    await pair.helper.database.run("end", lambda tx: end_task(tx, task_id))
    assert await rotate(pair.helper) == 1
    assert await opens_what_it_advertises_alone(pair.helper)


async def test_a_key_that_a_command_retired_is_destroyed_by_the_service(pair: Pair) -> None:
    runtime = pair.leader.runtime
    (old,) = await advertised(pair.leader)
    await pair.leader.database.run("new", lambda tx: new_key(tx, runtime.entropy))
    await pair.leader.database.run("retire", lambda tx: retire_hpke_key(tx, old))
    pair.clock.advance(2 * CACHE)
    assert await rotate(pair.leader) == 0  # an upload may be on its way into the store
    pair.clock.advance(600)
    assert await rotate(pair.leader) == 1
    assert await opens_what_it_advertises_alone(pair.leader)


async def test_keys_that_were_made_too_fast_for_their_ids_go_on_once_one_is_free(
    pair: Pair,
) -> None:
    """Of 256 keys none is needed any more, and the 257th takes the place of one of them."""
    helper = pair.helper
    hourly = HpkeRotation(cache_seconds=HOUR, age_seconds=HOUR)
    running = ManualClock(0)
    rotation = KeyRotation(helper.role, helper.database, SystemEntropy(), hourly, running.now)
    while len(await opening(helper)) < CONFIG_IDS:
        pair.clock.advance(HOUR)
        assert await rotation.run_once() == 1
    pair.clock.advance(HOUR)
    with capture_logs() as lines:
        assert await rotation.run_once() == 0
    reason = "all 256 HPKE configuration ids are taken"
    assert {"event": "no hpke key could be made", "reason": reason, "log_level": "error"} in lines
    pair.clock.advance(HOUR)
    (fault,) = faults_of(helper, hourly)
    assert fault.startswith(
        "the newest HPKE key of a suite is 7,200 s old, twice what it may be (3,600 s)"
    )
    pair.clock.advance(60 * DAY)
    assert await settle(rotation, running) == CONFIG_IDS  # 255 destroyed and one made
    assert len(await opening(helper)) == 2
    assert faults_of(helper, hourly) == []


async def test_a_clock_a_year_ahead_for_a_moment_stops_no_change_of_keys(pair: Pair) -> None:
    for service in (pair.leader, pair.helper):
        running = ManualClock(0)
        rotation = rotation_of(service, running)
        pair.clock.advance(365 * DAY)
        assert await rotation.run_once() == 1
        made = await advertised(service)
        pair.clock.advance(-365 * DAY)
        assert await rotation.run_once() == 0
        for clock in (pair.clock, running):
            clock.advance(DAY + WAIT)
        assert await rotation.run_once() == 0  # but all dates are of now
        pair.clock.advance(MONTH - 1)
        assert await settle(rotation, running) in {0, 1}  # the first key, at the leader
        assert await advertised(service) == made
        pair.clock.advance(1)
        assert await rotation.run_once() >= 1
        (next_one,) = await advertised(service)
        assert next_one not in made
        pair.clock.advance(MONTH)
        await settle(rotation, running)
        assert await opening(service) == {next_one, *await advertised(service)}


async def test_a_clock_ahead_for_a_moment_costs_no_report_its_key(pair: Pair) -> None:
    """As after a start before the clock is set; the helper knows nothing yet of the reports."""
    cached = await pair.configs()
    first = {pair.leader: cached[0].id, pair.helper: cached[1].id}
    pair.clock.advance(MONTH)
    for service in (pair.leader, pair.helper):
        assert await rotate(service) == 1
    await pair.upload(reports_to(pair, cached))
    interval = pair.interval(pair.clock.now())
    for service in (pair.leader, pair.helper):
        running = ManualClock(0)
        rotation = rotation_of(service, running)
        pair.clock.advance(365 * DAY)
        for _ in range(2):
            await rotation.run_once()
            running.advance(SETTLING_SECONDS - 1)
        pair.clock.advance(-365 * DAY)
        await rotation.run_once()
        running.advance(SETTLING_SECONDS)
        await rotation.run_once()
        assert first[service] in await opening(service)
    assert (await pair.collect(interval)).values == (1, 2, 0, 0)


@pytest.mark.parametrize("seconds", [60, 2 * DAY], ids=["a moment", "two days"])
async def test_a_clock_at_1970_costs_no_report_its_key(pair: Pair, seconds: int) -> None:
    cached = await pair.configs()
    first = {pair.leader: cached[0].id, pair.helper: cached[1].id}
    pair.clock.advance(MONTH)
    running = ManualClock(0)
    rotations = [rotation_of(each, running) for each in (pair.leader, pair.helper)]
    for rotation in rotations:
        assert await rotation.run_once() == 1
    await pair.upload(reports_to(pair, cached))
    interval = pair.interval(pair.clock.now())
    right = pair.clock.now()
    for passed in (0, seconds):
        pair.clock.advance(1000 + passed - pair.clock.now())
        running.advance(passed)
        for rotation in rotations:
            assert await rotation.run_once() == 0
    pair.clock.advance(right + 2 * HOUR - pair.clock.now())
    for service, rotation in zip((pair.leader, pair.helper), rotations, strict=True):
        await rotation.run_once()
        assert first[service] in await opening(service)
    assert (await pair.collect(interval)).values == (1, 2, 0, 0)


async def test_configurations_are_answered_without_decrypting_a_private_key(pair: Pair) -> None:
    database = Database.open(pair.helper.url, Crypter([b"?" * 32]), pair.clock)
    runtime = Runtime(pair.helper.role, database, pair.clock, SystemEntropy())
    ids = [config.id for config in (await runtime.configs()).configs]
    assert ids == await advertised(pair.helper)
    database.close()


async def retired_and_not_needed(pair: Pair) -> None:
    """Let the helper's key be replaced, and time pass until nothing can need the old one."""
    pair.clock.advance(MONTH)
    assert await rotate(pair.helper) == 1
    pair.clock.advance(2 * CACHE + 600 + WAIT)


def stored_private_key(service: Service) -> bytes:
    """Return the ciphertext of the one private key, as it lies in the file."""

    def read(tx: Transaction) -> bytes:
        found: bytes = tx.connection.execute(select(hpke_keys.c.private_key)).scalar_one()
        return found

    return service.database.read_sync("ciphertext", read)


def raw_bytes(folder: Path) -> bytes:
    """Return what both stores and their logs hold, free pages included."""
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file())


async def wait_until_gone(secret: bytes, folder: Path) -> None:
    """Wait until the log was emptied, which happens soon after the commit."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while secret in raw_bytes(folder):  # noqa: ASYNC110  a file tells nobody
            await anyio.sleep(0.02)
