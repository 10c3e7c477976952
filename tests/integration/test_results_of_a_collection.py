"""From uploaded answers to what is concluded of them, by both ways into `aggregator.results`."""

import json
from pathlib import Path

from aggregator.collector.documents import result_document
from aggregator.results import Batch, compare, median
from tests.support.pair import NOW, Pair
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

LABELS = ["0 to 15 min", "to 30", "to 60", "to 120"]
EDGES = [0, 15, 30, 60, 120]
# All intervals below are of seeded noise; of fresh noise each holds with 95 % probability.


async def test_two_windows_are_collected_read_and_compared(tmp_path: Path) -> None:
    task = make_task(privacy=LAPLACE)
    pair = Pair(tmp_path, task)
    await pair.provision()
    later = NOW + TIME_PRECISION
    await pair.upload(await pair.reports([0] * 80 + [1] * 10 + [2] * 10))
    pair.clock.advance(TIME_PRECISION)
    await pair.upload(await pair.reports([0] * 10 + [1] * 10 + [3] * 60, later))
    pair.clock.advance(TIME_PRECISION)
    first = await pair.collect()
    second = await pair.collect(pair.interval(later))
    await pair.close()

    quick = Batch.of_result(task, first, LABELS, unit="visits")
    slow = Batch.of_document(task, json.loads(json.dumps(result_document(task, second))), LABELS)
    assert (quick.start, quick.end) == (first.interval.start.units * TIME_PRECISION, slow.start)
    assert (quick.report_count, slow.report_count) == (100, 80)
    assert quick[LABELS[0]].value == first.values[0]
    assert 80 in quick[LABELS[0]].interval()
    assert 90 in (quick[LABELS[0]] + slow[LABELS[0]]).interval()

    shares = compare(quick.share(LABELS[0]), slow.share(LABELS[0]))
    assert shares.is_larger is True
    assert (80 / 100 - 10 / 80) in shares.interval
    waits = [median(batch.shown, EDGES, batch.report_count) for batch in (quick, slow)]
    assert waits[0].interval().low == 0
    assert 15 < waits[1].estimate <= waits[1].interval().high == 120

    # The same collection as a document and as a result is the same noise.
    again = Batch.of_document(task, result_document(task, first), LABELS)
    assert not (quick[LABELS[1]] - again[LABELS[1]]).terms
