"""A stranger opens a unit of the past with each report, and the leader lets all of them in."""

import pytest

from aggregator.dap.times import DAY
from aggregator.service.leader import upload_group
from aggregator.service.storage.reports import past_units
from aggregator.service.storage.reports.counters import PAST_UNITS
from tests.support.pair import NOW, Pair
from tests.support.tasks import TIME_PRECISION

MOST = 3
SENT = 7


async def test_a_helper_bounds_units_of_the_past_whatever_its_leader_lets_in(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past_units, "MOST_UNITS", MOST)
    monkeypatch.setattr(upload_group, "past_before", lambda *_: b"")
    long_ago, waited = NOW - 30 * DAY, NOW - 10 * DAY
    for number in range(SENT):
        for since in (long_ago, waited):
            await pair.upload(await pair.reports([1], since + number * TIME_PRECISION))
    await pair.upload(await pair.reports([0, 1]))
    await pair.work_until_idle()
    dropped = SENT - MOST
    at_helper = {"aggregated": MOST + SENT + 2, PAST_UNITS: dropped}
    assert pair.helper.counts(pair.task) == at_helper
    assert pair.leader.counts(pair.task) == {
        "aggregated": MOST + SENT + 2,
        "report_dropped": dropped,
    }
    assert (await pair.collect()).report_count == 2
    waiting = pair.interval(waited, SENT)
    assert (await pair.collect(waiting)).report_count == SENT
