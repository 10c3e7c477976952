"""An upload that resumes where it was interrupted: its reports stay in a file until it is over.

Each measurement claims its place in a list, or that of its person in a window, and its report is
made once. A second call with the same measurements sends the same bytes for reports that are not
settled, and makes those that are missing. The outcome of each stays in the file; nothing about the
measurement does.

While a report of a list waits, a digest of its measurement lies beside it, so that a different list
of the same length is not mistaken for the first one. The digest needs no key: a reader of the file
has both shares and so the measurement anyway. It is deleted with them: a measurement has few
possible values, so anyone could hash them all, and a key in the same file would be no secret.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from aggregator.client import bulk
from aggregator.client.bulk import Uploaded
from aggregator.client.contributions import Contribution, claim_of
from aggregator.client.delivery import room_of
from aggregator.client.making import Put
from aggregator.client.outbox import Outbox
from aggregator.client.reporter import Reporter
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits.measurements import Measurement


def upload_list(
    reporter: Reporter,
    outbox: Outbox,
    measurements: Sequence[Measurement],
    seconds: int,
    *,
    settled: Callable[[int], None] = lambda _: None,
) -> Uploaded:
    """Make the reports that the outbox lacks, and send those that wait there.

    Args:
        reporter: The client of the task that the measurements are of.
        outbox: Its outbox.
        measurements: All of them, in the same order each time.
        seconds: The time of reports that are made now, in seconds since the epoch.
        settled: Called with the number of measurements that have been settled since.

    Raises:
        ParameterError: The outbox has more reports of the task than there are measurements, or a
            report of another measurement than the one now in its place. Or a measurement is out
            of range. Nothing is sent.
        ConfigurationError, OutboxFull: The outbox cannot be used, or its disk is full.
    """
    task = reporter.task
    task_id = task.task_id.value
    made = outbox.outcomes(task_id).total()
    if made > len(measurements):
        raise ParameterError(
            f"state: {outbox.path} has {made} reports of this task, more than the "
            f"{len(measurements)} measurements: give the same ones, or another file"
        )
    for place, digest in outbox.digests(task_id).items():
        if _digest(measurements[int(place)]) != digest:
            raise ParameterError(
                f"state: the report that waits in {outbox.path} for measurement {int(place) + 1} "
                "is of another measurement: give the same ones, in their order, or another file"
            )
    bulk.check_range(task, measurements)

    puts = (
        Put([(task, each)], seconds, claim=str(place), digest=_digest(each))
        for place, each in enumerate(measurements)
    )
    return bulk.upload(reporter, outbox, bulk.groups_of(puts, room_of(task)), settled=settled)


def upload_of_persons(
    reporter: Reporter,
    outbox: Outbox,
    measurements: Sequence[Measurement],
    persons: Sequence[str],
    seconds: int,
    *,
    settled: Callable[[int], None] = lambda _: None,
) -> Uploaded:
    """Make the reports of persons that the outbox lacks, and send those that wait there.

    Each measurement is of the person at its place, in any order. Those of persons who have made as
    many reports as the task allows are left out. Takes and raises what `upload_list` does.
    """
    task = reporter.task
    bulk.check_range(task, measurements)

    def puts() -> Iterator[Put]:
        counted = Counter[str]()
        for measurement, person in zip(measurements, persons, strict=True):
            claim = claim_of(task, person, seconds, counted[person])
            counted[person] += 1
            contributed = replace(Contribution.of(task, person, seconds), group=task.policy.group)
            yield Put([(task, measurement)], seconds, claim, [contributed])

    groups = bulk.groups_of(puts(), room_of(task))
    return bulk.upload(reporter, outbox, groups, settled=settled)


def _digest(measurement: Measurement) -> bytes:
    same = measurement if isinstance(measurement, int) else [*measurement]
    return hashlib.sha256(json.dumps(same).encode()).digest()
