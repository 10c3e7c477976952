"""What verified reports add to each bucket, whatever became of some of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aggregator.dap.times import Time
from aggregator.errors import ReportRejected
from aggregator.protocol.batches import BatchTotals
from aggregator.protocol.verified import Verified
from aggregator.vdaf.aggregation_parameter import NO_PARAMETER
from aggregator.vdaf.prio3 import OutShares
from field import Vector
from tests.support.tasks import make_task

TASK = make_task()
FIELD = TASK.prio3.field
WIDTH = TASK.prio3.output_len


@given(st.lists(st.tuples(st.integers(10, 13), st.sampled_from(["counts", "fails", "refused"]))))
def test_each_bucket_has_the_sum_and_the_totals_of_its_reports_that_count(
    drawn: list[tuple[int, str]],
) -> None:
    ids = [number.to_bytes(16, "big") for number in range(len(drawn))]
    rows = [[number + 1] * WIDTH for number in range(len(drawn))]
    shares = Vector.from_ints(FIELD, rows) if rows else Vector.zeros(FIELD, (0, WIDTH))
    failed = {n: ReportRejected("fails") for n, (_, how) in enumerate(drawn) if how == "fails"}
    refused = [ids[n] for n, (_, how) in enumerate(drawn) if how == "refused"]
    times = np.array([time for time, _ in drawn], np.uint64)
    verified = Verified(TASK, NO_PARAMETER, (), ids, times, OutShares(shares, failed))
    found = verified.bucket_shares(refused)
    wanted: dict[bytes, list[int]] = {}
    for place, (time, how) in enumerate(drawn):
        if how == "counts":
            wanted.setdefault(TASK.batching.bucket(Time(time)), []).append(place)
    assert [each.bucket for each in found] == sorted(wanted)
    for each in found:
        places = wanted[each.bucket]
        assert each.agg_share.to_ints() == [sum(place + 1 for place in places)] * WIDTH
        assert each.totals == BatchTotals.of(
            [ids[place] for place in places], [drawn[place][0] for place in places]
        )
