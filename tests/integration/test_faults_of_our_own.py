"""No accepted report is rejected for good because of a fault of our own: it is counted later."""

from aggregator.protocol.reports import HELPER_MAX_AGE_SECONDS
from aggregator.service.storage.reports.counters import Stage, report_counts
from tests.support.clock import ManualClock
from tests.support.pair import NOW, Pair, Service, pair_of

pair = pair_of()


def counts(pair: Pair) -> dict[str, int]:
    """Return what became of the reports at the leader's aggregation."""
    return pair.leader.database.read_sync(
        "counts", lambda tx: report_counts(tx, pair.task.task_id.value, Stage.AGGREGATION)
    )


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
    assert counts(pair) == {"aggregated": 3}
