"""An aggregator whose store and journal went back together learns it from the other.

By docs/operations/troubleshoot.md, "The journal of releases".
"""

import shutil
from pathlib import Path

import pytest

from aggregator.dap.ids import decode_base64url
from aggregator.dap.problems import SetBack
from aggregator.protocol.batches import Batch
from aggregator.protocol.witness import MOST_BATCHES, from_header, to_header
from aggregator.service.leader.collections import CollectionDriver
from aggregator.service.runtime.restoring import presume_released
from aggregator.service.runtime.witness import check_witness, released
from aggregator.service.storage.batches.selected import select_again
from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.charges import list_ledger
from aggregator.service.storage.operator.interventions import abandon_collection_job
from aggregator.service.storage.operator.job_lists import list_blocked_jobs
from aggregator.service.transport.interpretation import PeerUnreachable
from tests.support.pair import LEASE_SECONDS, Pair, Service, pair_of
from tests.support.store import units
from tests.support.tasks import LAPLACE, make_task

MEASUREMENTS = [0, 1, 1, 3, 3, 3]
HOUR = 3600


pair = pair_of(privacy=LAPLACE)


def files(folder: Path, service: Service) -> list[Path]:
    name = service.role.name.lower()
    return [folder / f"{name}.sqlite", folder / f"{name}.sqlite.journal"]


async def collected(pair: Pair) -> int:
    """Upload and collect the unit of now, and go on to the next."""
    await pair.upload(await pair.reports(MEASUREMENTS, pair.clock.now()))
    result = await pair.collect(pair.interval(pair.clock.now()))
    pair.clock.advance(HOUR)
    return result.report_count


async def set_back(pair: Pair, folder: Path, service: Service) -> None:
    """Release a batch, and set a party back to before, journal and all."""
    await collected(pair)
    service.database.close()
    for file in files(folder, service):
        shutil.copy2(file, file.with_suffix(".snapshot" + file.suffix))
    service.start()
    await collected(pair)
    service.database.close()
    for file in files(folder, service):
        shutil.copy2(file.with_suffix(".snapshot" + file.suffix), file)
    service.restart()


def restore(service: Service) -> None:
    """Do what `prio store after-restore --backup-time` does now, by the pair's clock."""
    service.database.run_sync(
        "close restored", lambda tx: presume_released(tx, service.role, tx.now, 60)
    )


@pytest.mark.parametrize("party", ["leader", "helper"])
async def test_who_was_set_back_with_its_journal_releases_nothing_until_it_is_put_right(
    pair: Pair, tmp_path: Path, party: str
) -> None:
    service: Service = getattr(pair, party)
    await set_back(pair, tmp_path, service)
    await pair.upload(await pair.reports(MEASUREMENTS, pair.clock.now()))
    await pair.work_until_idle()
    location = (await pair.ask(pair.interval(pair.clock.now()))).headers["location"]
    await pair.work()
    (job,) = pair.leader.database.read_sync("waiting", lambda tx: list_blocked_jobs(tx, 9))
    assert job.reason is not None
    assert SetBack.title in job.reason
    assert "`prio store after-restore --backup-time`" in job.reason
    assert (await pair.poll(location)).body == b""
    entries = await service.database.read("ledger", list_ledger)
    assert [each.state for each in entries if each.state is LedgerState.CHARGED] == [
        LedgerState.CHARGED
    ]

    restore(service)
    pair.clock.advance(HOUR)
    assert await collected(pair) == len(MEASUREMENTS)
    again = await service.database.read("ledger", list_ledger)
    assert sum(each.state is LedgerState.PRESUMED for each in again) > 0


async def test_a_collection_given_up_after_the_helper_released_is_not_taken_for_a_set_back(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object) -> None:
        raise PeerUnreachable("the answer was lost")

    await pair.upload(await pair.reports(MEASUREMENTS, pair.clock.now()))
    await pair.work_until_idle()
    with monkeypatch.context() as patch:
        patch.setattr(CollectionDriver, "_hear", lost)
        asked = await pair.ask(pair.interval(pair.clock.now()))
        await pair.work()
    job_id = decode_base64url(asked.headers["location"].rsplit("/", 1)[1])
    pair.leader.database.run_sync(
        "abandon", lambda tx: abandon_collection_job(tx, job_id, "{}", returned=True)
    )
    assert len(await pair.helper.database.read("ledger", list_ledger)) == 1
    assert await pair.leader.database.read("ledger", list_ledger) == []

    pair.clock.advance(HOUR)
    assert await collected(pair) == len(MEASUREMENTS)


async def test_a_selected_batch_that_may_be_selected_again_is_not_taken_for_a_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader's operator opened it again; another batch is asked for before it."""

    async def lost(*_: object) -> None:
        raise PeerUnreachable("the answer was lost")

    pair = Pair(tmp_path, make_task(batch_mode="leader_selected", min_batch_size=3))
    await pair.provision()
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.work_until_idle()
    with monkeypatch.context() as patch:
        patch.setattr(CollectionDriver, "_hear", lost)
        asked = await pair.ask()
        await pair.work()
    job_id = decode_base64url(asked.headers["location"].rsplit("/", 1)[1])
    task_id = pair.task.task_id.value
    (batch,) = await pair.helper.database.read("released", lambda tx: released(tx, pair.task))

    def open_again(tx: Transaction) -> None:
        abandon_collection_job(tx, job_id, "{}", returned=True)
        select_again(tx, task_id, batch)

    await pair.leader.database.run("open again", open_again)
    await pair.leader.database.run(
        "check", lambda tx: check_witness(tx, pair.task, [batch], "helper")
    )
    other = Batch(bytes(32), bytes(32))
    with pytest.raises(SetBack):
        await pair.leader.database.run(
            "check", lambda tx: check_witness(tx, pair.task, [other], "helper")
        )
    await pair.close()


async def test_a_pair_of_which_nobody_went_back_hears_of_no_fault(pair: Pair) -> None:
    for _ in range(3):
        assert await collected(pair) == len(MEASUREMENTS)
        pair.clock.advance(LEASE_SECONDS)


def test_a_header_of_another_program_says_nothing() -> None:
    batches = [units(n, n + 2) for n in range(MOST_BATCHES + 5)]
    assert from_header(to_header(batches)) == batches[:MOST_BATCHES]
    named = [Batch(b"\x07" * 32, b"\x07" * 32)] * MOST_BATCHES
    assert from_header(to_header(named)) == named
    for other in (None, "", "yes", "00", "00-zz", "02-01", "00-0011", "00-00," * 2000, "-,-"):
        assert [each for each in from_header(other) if each.first] == []
