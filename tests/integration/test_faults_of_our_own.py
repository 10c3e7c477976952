"""No accepted report is rejected for good because of a fault of our own: it is counted later."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import delete, insert, select

from aggregator.dap.hpke import HpkeConfig
from aggregator.dap.messages import Report
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY
from aggregator.entropy import SystemEntropy
from aggregator.protocol.reports import HELPER_MAX_AGE_SECONDS
from aggregator.service.runtime.key_rotation import new_key
from aggregator.service.runtime.status import read_aggregator_health
from aggregator.service.storage.engine.tables import aggregation_jobs, hpke_keys
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.operator.interventions import abandon_aggregation_job
from aggregator.service.storage.tasks.hpke_keys import retire_hpke_key
from aggregator.service.storage.tasks.version import settings_changed
from tests.support.between import Between
from tests.support.clock import ManualClock
from tests.support.entropy import SeededEntropy
from tests.support.pair import LEASE_SECONDS, NOW, Pair, Service, pair_of
from tests.support.reports import make_reports

ROUNDS, A_MINUTE = 5, 61

pair = pair_of()


def set_clock(service: Service, clock: ManualClock) -> None:
    service.clock = clock
    service.restart()


async def test_a_leader_whose_clock_is_years_ahead_for_one_job_counts_its_reports(
    pair: Pair,
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    set_clock(pair.leader, ManualClock(NOW + 2 * HELPER_MAX_AGE_SECONDS))
    await pair.work()
    set_clock(pair.leader, pair.clock)
    assert (await pair.collect()).report_count == 3
    assert pair.leader.counts(pair.task) == {"aggregated": 3}


def replace_key(service: Service, old: int) -> int:
    """Have a service make a key and retire its old one; return the id of the new one."""

    def replace(tx: Transaction) -> int:
        made = new_key(tx, SystemEntropy())
        retire_hpke_key(tx, old)
        return made

    return service.database.run_sync("replace", replace)


def take_key(service: Service, config_id: int) -> Mapping[str, Any]:
    """Take a key out of a service's store, as if it had been put back; return the key's row."""

    def take(tx: Transaction) -> Mapping[str, Any]:
        of_key = hpke_keys.c.config_id == config_id
        row = tx.connection.execute(select(hpke_keys).where(of_key)).mappings().one()
        tx.connection.execute(delete(hpke_keys).where(of_key))
        settings_changed(tx)
        return {**row}

    return service.database.run_sync("take", take)


def put_key(service: Service, row: Mapping[str, Any]) -> None:
    def put(tx: Transaction) -> None:
        tx.connection.execute(insert(hpke_keys).values(row))
        settings_changed(tx)

    service.database.run_sync("put", put)


async def leader_without_a_key(pair: Pair) -> Mapping[str, Any]:
    """Let the leader lose the key of three of six reports, and work; return the key's row."""
    of_old_key = await pair.reports([0, 1, 2])
    old = (await pair.configs())[0].id
    replace_key(pair.leader, old)
    await pair.upload([*of_old_key, *await pair.reports([3, 3, 3])])
    row = take_key(pair.leader, old)
    for _ in range(ROUNDS):
        pair.clock.advance(A_MINUTE)
        await pair.work()
    assert pair.leader.counts(pair.task) == {"aggregated": 3}  # which did not wait for the others
    return row


async def test_reports_whose_key_the_leader_lacks_wait_and_are_counted_when_it_is_back(
    pair: Pair,
) -> None:
    row = await leader_without_a_key(pair)
    faults = pair.leader.database.read_sync(
        "health", lambda tx: read_aggregator_health(tx, pair.leader.role, A_MINUTE)
    ).faults
    assert f"configuration ids: {row['config_id']})" in "".join(faults)
    put_key(pair.leader, row)
    assert (await pair.collect()).report_count == 6
    assert pair.leader.counts(pair.task) == {"aggregated": 6}


async def test_reports_whose_key_is_away_when_the_helper_finds_them_too_early_wait_for_both(
    pair: Pair, between: Between
) -> None:
    """Nobody has given them up."""
    set_clock(pair.helper, ManualClock(NOW - DAY))

    def lost(_request: httpx.Request, _answer: httpx.Response) -> httpx.Response:
        raise httpx.ReadError("the connection broke")

    await pair.upload(await pair.reports([0, 1, 2]))
    between.change = lost
    await pair.work()
    between.change = None
    pair.leader.restart()
    row = take_key(pair.leader, (await pair.configs())[0].id)
    pair.clock.advance(LEASE_SECONDS + 1)
    await pair.work()
    assert pair.leader.counts(pair.task) == {}
    put_key(pair.leader, row)
    set_clock(pair.helper, pair.clock)
    assert (await pair.collect()).report_count == 3
    assert pair.leader.counts(pair.task) == {"aggregated": 3}


async def test_reports_whose_key_never_comes_back_are_given_up_by_an_operator_alone(
    pair: Pair,
) -> None:
    await leader_without_a_key(pair)

    def drop(tx: Transaction) -> None:
        job = aggregation_jobs.c
        waiting = select(job.job_id).where(job.state == "created")
        job_id = tx.connection.execute(waiting).scalar_one()
        abandon_aggregation_job(tx, job_id, returned=False)

    pair.leader.database.run_sync("drop", drop)
    assert (await pair.collect()).report_count == 3
    assert pair.leader.counts(pair.task) == {"aggregated": 3, "dropped_by_operator": 3}


def copy_store(service: Service, source: Path, target: Path) -> None:
    """Copy a file while a service does not run; one that is closed leaves nothing in its log."""
    service.database.close()
    shutil.copy(source, target)
    service.start()


async def test_a_report_to_a_key_that_a_restored_leader_forgot_is_sealed_again_and_counted(
    pair: Pair, tmp_path: Path
) -> None:
    """The leader makes a new key after it was put back, and clients keep the old one for a day."""
    old, store, backup = (await pair.configs())[0].id, tmp_path / "leader.sqlite", tmp_path / "old"
    copy_store(pair.leader, store, backup)
    replace_key(pair.leader, old)
    cached = await pair.configs()
    copy_store(pair.leader, backup, store)
    replace_key(pair.leader, old)

    def sealed_to(configs: tuple[HpkeConfig, HpkeConfig]) -> list[Report]:
        time, entropy = pair.task.time(NOW), SeededEntropy(b"the same reports")
        return make_reports(pair.task, *configs, [0, 1, 2], time, entropy)

    refused = (await pair.upload(sealed_to(cached))).status
    errors = [DAP_18.report_error(each.error) for each in refused]
    assert errors == [ReportError.OUTDATED_CONFIG] * 3
    assert (await pair.upload(sealed_to(await pair.configs()))).status == ()
    assert (await pair.collect()).report_count == 3
    assert pair.leader.counts(pair.task) == {"aggregated": 3}
