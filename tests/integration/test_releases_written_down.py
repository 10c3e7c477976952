"""No share leaves that is not in the journal, and a restored pair releases no report again."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.ledger.charges import list_ledger
from tests.support.empty_store import copy_store, remove_store
from tests.support.pair import LEASE_SECONDS, Pair
from tests.support.tasks import LAPLACE, make_task

pytestmark = pytest.mark.usefixtures("engine")

MEASUREMENTS = [0, 1, 1, 3, 3, 3]


async def test_a_share_leaves_when_its_release_is_written_down(tmp_path: Path) -> None:
    pair = Pair(tmp_path, make_task(privacy=LAPLACE))
    await pair.provision()
    await pair.upload(await pair.reports(MEASUREMENTS))
    await pair.work_until_idle()
    journals = [tmp_path / f"{name}.sqlite.journal" for name in ("leader", "helper")]
    before = [journal.read_bytes() for journal in journals]
    location = (await pair.ask()).headers["location"]
    lost = [journal.rename(tmp_path / f"{journal.name}.away") for journal in journals]
    await pair.work()
    # The helper has drawn its noise, and keeps the share.
    (entry,) = await pair.helper.database.read("ledger", list_ledger)
    assert entry.state is LedgerState.CHARGED
    (entry,) = await pair.leader.database.read("ledger", list_ledger)
    assert entry.state is LedgerState.RESERVED
    lost[1].rename(journals[1])
    pair.clock.advance(LEASE_SECONDS)
    await pair.work_until_idle()
    (entry,) = await pair.leader.database.read("ledger", list_ledger)
    assert entry.state is LedgerState.CHARGED
    with capture_logs() as logs:
        assert (await pair.poll(location)).status == 503
    (line,) = [each for each in logs if each["log_level"] == "error"]
    assert "exc_info" not in line
    assert line["reason"].startswith(f"the journal of releases {journals[0]}: ")
    lost[0].rename(journals[0])
    answer = await pair.poll(location)
    assert pair.open(answer.body).report_count == len(MEASUREMENTS)
    assert [journal.read_bytes().count(b"\n") for journal in journals] == [
        content.count(b"\n") + 1 for content in before
    ]
    await pair.close()


@pytest.mark.parametrize("mode", ["time_interval", "leader_selected"])
async def test_a_pair_restored_from_before_a_release_does_not_repeat_it(
    tmp_path: Path, mode: str
) -> None:
    task = make_task(privacy=LAPLACE, batch_mode=mode, min_batch_size=len(MEASUREMENTS))
    pair = Pair(tmp_path, task)
    await pair.provision()
    stores = [tmp_path / f"{name}.sqlite" for name in ("leader", "helper")]
    reports = await pair.reports(MEASUREMENTS)

    def stopped() -> None:
        for service in (pair.leader, pair.helper):
            service.database.close()

    stopped()
    for store in stores:
        copy_store(store, store.with_name(f"backup-{store.name}"))
    pair.leader.start()
    pair.helper.start()
    await pair.upload(reports)
    await pair.work_until_idle()
    await pair.collect()
    stopped()
    for store in stores:
        remove_store(store)
        copy_store(store.with_name(f"backup-{store.name}"), store)
    pair.leader.start()
    pair.helper.start()
    assert len((await pair.upload(reports)).status) == len(reports)
    await pair.work_until_idle()
    asked = await pair.ask()
    if asked.status == 201:
        await pair.work_until_idle()
        asked = await pair.poll(asked.headers["location"])
    assert asked.problem
    for service in (pair.leader, pair.helper):
        (entry,) = await service.database.read("ledger", list_ledger)
        assert entry.state is LedgerState.CHARGED
    await pair.close()
