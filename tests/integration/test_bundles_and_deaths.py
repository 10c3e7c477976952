"""Either aggregator dies at a commit, or is set back: a bundle is counted once, and may come again.

A bundle is too small at first and fails; then it is handed in again with more reports.
"""

from pathlib import Path

import pytest

from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.ledger.charges import list_ledger
from tests.integration.test_crashes import Killer
from tests.support.balance import check_books
from tests.support.bundles import SIZE, Site, dropped, sums
from tests.support.empty_store import copy_store, remove_store
from tests.support.transactions import WRITES

pytestmark = pytest.mark.usefixtures("engine")

MOMENTS = ("before commit", "committed")
UPLOADS = ("create collection job", "upload", "note upload", "close collection job")
JOBS = (
    "create aggregation jobs",
    "lease aggregation jobs",
    "store aggregation request",
    "finish aggregation job",
)
IN_THE_FIRST = {
    "leader": (*UPLOADS, *JOBS, "lease collection jobs", "freeze batch"),
    "helper": ("commit aggregation job",),
}
"""The writes while the bundle fails."""
IN_THE_SECOND = {
    "leader": (*UPLOADS, *JOBS, "freeze batch", "release batch"),
    "helper": ("commit aggregation job", "release batch"),
}
"""The writes while it is counted: ids are bound to another batch."""
OF_DELETING = {"leader": ("delete collection job",)}
DEATHS = [
    pytest.param(when, role, name, moment, id=f"{when}, {role}, {name}, {moment}")
    for when, writes in (
        ("the first", IN_THE_FIRST),
        ("the second", IN_THE_SECOND),
        ("deleted", OF_DELETING),
    )
    for role, names in writes.items()
    for name in names
    for moment in MOMENTS
]


def test_every_write_is_tried() -> None:
    tried = {*IN_THE_SECOND["leader"], *IN_THE_FIRST["leader"]}
    assert {*WRITES["leader"]} - tried == {"delete leftovers"}


@pytest.mark.slow
@pytest.mark.parametrize(("when", "role", "transaction", "moment"), DEATHS)
async def test_whenever_a_service_dies_a_bundle_that_comes_again_counts_once(
    tmp_path: Path, when: str, role: str, transaction: str, moment: str
) -> None:
    site = await Site.of(tmp_path, job_size=3)
    victim = site.pair.leader if role == "leader" else site.pair.helper
    killer = Killer(transaction, moment)
    reports = await site.pair.reports([1] * SIZE)
    if when == "the first":
        victim.on_moment = killer
    first = await site.begin()
    assert await site.hand_in(first, reports[:3]) == []
    if when == "deleted":
        await site.work()
        victim.on_moment = killer
        assert await site.delete(first) in (200, 404)  # the answer of the first may be lost
    else:
        assert await site.failure(first) == "invalidBatchSize"
    if when == "the second":
        victim.on_moment = killer
    second = await site.begin()
    assert await site.hand_in(second, reports) == []
    result = await site.result(second)
    assert killer.is_spent
    assert (result.report_count, result.values) == (SIZE, (SIZE,))
    third = await site.begin()
    assert await site.hand_in(third, reports) == ["report_replayed"] * SIZE
    for service in (site.pair.leader, site.pair.helper):
        assert await dropped(service) == [True, False]
        assert await sums(service) == 0
        (entry,) = await service.database.read("ledger", list_ledger)
        assert entry.state is LedgerState.CHARGED
    task_id = site.pair.task.task_id.value
    await site.pair.leader.database.read(
        "books", lambda tx: check_books(tx, task_id, again=3, dropped=3)
    )
    await site.pair.close()


@pytest.mark.parametrize("set_back", [("leader",), ("helper",), ("leader", "helper")])
async def test_a_pair_that_is_set_back_releases_no_report_of_a_bundle_again(
    tmp_path: Path, set_back: tuple[str, ...]
) -> None:
    """At the time of the backup the reports were free."""
    site = await Site.of(tmp_path)
    pair, reports = site.pair, await site.pair.reports([1] * SIZE)
    first = await site.begin()
    assert await site.hand_in(first, reports[:3]) == []
    assert await site.failure(first) == "invalidBatchSize"

    services = [getattr(pair, name) for name in set_back]
    stores = [tmp_path / f"{name}.sqlite" for name in set_back]
    for service, store in zip(services, stores, strict=True):
        service.database.close()
        copy_store(store, store.with_name(f"backup-{store.name}"))
        service.start()
    second = await site.begin()
    assert await site.hand_in(second, reports) == []
    assert (await site.result(second)).report_count == SIZE
    for service, store in zip(services, stores, strict=True):
        service.database.close()
        remove_store(store)
        copy_store(store.with_name(f"backup-{store.name}"), store)
        service.start()

    asked = await site.try_to_begin()
    if asked.status == 201:
        third = asked.headers["location"]
        await site.hand_in(third, reports)
        answer = await site.collect(third)
        assert answer.status != 200
        assert answer.problem or answer.status == 202
    for service in (pair.leader, pair.helper):
        assert len(await service.database.read("ledger", list_ledger)) == 1
    await pair.close()


async def test_a_helper_that_is_set_back_counts_what_was_not_released(tmp_path: Path) -> None:
    site = await Site.of(tmp_path)
    reports = await site.pair.reports([1] * SIZE)
    store, helper = tmp_path / "helper.sqlite", site.pair.helper
    first = await site.begin()
    assert await site.hand_in(first, reports[:2]) == []
    await site.work()
    helper.database.close()
    copy_store(store, tmp_path / "backup.sqlite")
    helper.start()
    assert await site.hand_in(first, reports[2:]) == []
    await site.work()
    helper.database.close()
    remove_store(store)
    copy_store(tmp_path / "backup.sqlite", store)
    helper.start()
    assert await site.failure(first) == "invalidBatchSize"
    second = await site.begin()
    assert await site.hand_in(second, reports) == []
    assert (await site.result(second)).report_count == SIZE
    assert await dropped(site.pair.leader) == await dropped(helper) == [True, False]
    await site.pair.close()
