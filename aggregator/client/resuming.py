"""An upload that resumes where it was interrupted: its reports stay in a file until it is over.

Each measurement claims its place, and its report is made once. A second call with the same
measurements sends the same bytes for reports that are not settled, and makes those that are
missing. The outcome of each place stays in the file; nothing about the measurement does.

While a report waits, a digest of its measurement lies beside it, so that a different list of the
same length is not mistaken for the first one. The digest needs no key: a reader of the file has
both shares and so the measurement anyway. It is deleted with them: a measurement has few possible
values, so anyone could hash them all, and a key in the same file would be no secret.
"""

import dataclasses
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from aggregator.client.outbox import AlreadyAnswered, Outbox, Outcome, State
from aggregator.client.reporter import Reporter
from aggregator.client.sender import Sender
from aggregator.clock import Clock, SystemClock
from aggregator.errors import ParameterError
from aggregator.protocol.requirements import Floor
from aggregator.protocol.task import Task
from aggregator.vdaf.circuits.measurements import Measurement

ATTEMPTS = 5
"""How many times a call tries to send waiting reports, with 2, 4, 8 and 16 seconds in between."""

_AT_ONCE = 1000
_MOST_BYTES = 2**40
_WAITING = Outcome(State.WAITING)
_PATIENCE_SECONDS = 10 * 366 * 86_400  # the leader decides whether a report is too old


def upload_from(
    file: Path,
    task: Task,
    measurements: Sequence[Measurement],
    *,
    seconds: int | None = None,
    per_request: int,
    floor: Floor | None = None,
    sender: Sender | None = None,
    clock: Clock | None = None,
    sleep: Callable[[float], None] = time.sleep,
    settled: Callable[[int], None] = lambda _: None,
) -> tuple[Counter[Outcome], str | None]:
    """Make the reports that `file` lacks, and send those that wait there.

    Args:
        file: Where they wait; made if it is missing.
        task: Whose reports they are.
        measurements: All of them, in the same order each time.
        seconds: The time of reports that are made now; the clock's if not given.
        per_request: The most reports of one request.
        floor: The least protection of a task that this client takes part in.
        sender: Sends requests.
        clock: What time it is.
        sleep: Waits between two tries.
        settled: Called with the number of measurements settled so far, before anything is sent and
            after each try.

    Returns:
        What became of all measurements, in this call or before, and why some still wait.

    Raises:
        ParameterError: The file has more reports of the task than there are measurements, or a
            report of another measurement than the one now in its place. Or a measurement is out
            of range, and none is sent. Or the task is below the floor.
        ConfigurationError, OutboxFull: The file cannot be used, or its disk is full.
    """
    clock = SystemClock() if clock is None else clock
    making = clock if seconds is None else _At(seconds)
    task_id = task.task_id.value
    with closing(Outbox(file, _MOST_BYTES)) as outbox:
        made = outbox.outcomes(task_id).total()
        if made > len(measurements):
            raise ParameterError(
                f"resume: {file} has {made} reports of this task, more than the "
                f"{len(measurements)} measurements: give the same ones, or another file"
            )
        for place, digest in outbox.digests(task_id).items():
            if _digest(measurements[int(place)]) != digest:
                raise ParameterError(
                    f"resume: the report that waits in {file} for measurement {int(place) + 1} is "
                    "of another measurement: give the same ones, in their order, or another file"
                )
        with closing(Reporter(task, outbox, clock=making, sender=sender, floor=floor)) as maker:
            for start in range(made, len(measurements), _AT_ONCE):
                some = measurements[start : start + _AT_ONCE]
                places = [str(start + place) for place in range(len(some))]
                maker.put_many(some, places, [_digest(each) for each in some])
        reporter = _reporter_of(task, outbox, per_request, floor, sender, clock)
        reason = _sent(
            reporter, sleep, lambda: settled(len(measurements) - outbox.waiting(task_id))
        )
        return outbox.outcomes(task_id), reason


@dataclasses.dataclass(frozen=True, slots=True)
class OnlyReport:
    """The one report that a claim has: its time, in seconds since the epoch, and what it says."""

    claim: str
    seconds: int
    measurement: Measurement


@dataclasses.dataclass(frozen=True, slots=True)
class Sent:
    """What became of reports of which each claim has one.

    Attributes:
        before: What became of those that an earlier call settled, whatever is measured now.
        outcomes: Of all others.
        reason: Why some still wait; None if none does.
    """

    before: Counter[Outcome]
    outcomes: Counter[Outcome]
    reason: str | None


def upload_once(
    file: Path,
    task: Task,
    reports: Sequence[OnlyReport],
    *,
    per_request: int,
    floor: Floor | None = None,
    sender: Sender | None = None,
    clock: Clock | None = None,
    sleep: Callable[[float], None] = time.sleep,
    settled: Callable[[int], None] = lambda _: None,
) -> Sent:
    """Make the reports whose claims have none in `file`, and send those that wait there.

    A claim is remembered for ever, and its first report is the one that is sent. Takes what
    `upload_from` takes; `file` may have claims of other reports, whose reports are sent too.

    Raises:
        ParameterError: A measurement is out of range, and nothing is sent. Or the task is below
            the floor.
        ConfigurationError, OutboxFull: The file cannot be used, or its disk is full.
    """
    clock = SystemClock() if clock is None else clock
    task_id = task.task_id.value
    with closing(Outbox(file, _MOST_BYTES)) as outbox:
        known = outbox.claims(task_id)
        missing: dict[int, dict[str, Measurement]] = {}
        for each in reports:
            if each.claim not in known:
                missing.setdefault(each.seconds, {})[each.claim] = each.measurement
        for seconds, made in sorted(missing.items()):
            maker = Reporter(task, outbox, clock=_At(seconds), sender=sender, floor=floor)
            with closing(maker):
                pairs = [*made.items()]
                for start in range(0, len(pairs), _AT_ONCE):
                    _put_missing(maker, outbox, dict(pairs[start : start + _AT_ONCE]))
        found = [(each.claim, known.get(each.claim, _WAITING)) for each in reports]
        waiting = [claim for claim, outcome in found if outcome == _WAITING]
        before = Counter(outcome for _, outcome in found if outcome != _WAITING)
        reporter = _reporter_of(task, outbox, per_request, floor, sender, clock)
        reason = _sent(
            reporter, sleep, lambda: settled(max(0, len(waiting) - outbox.waiting(task_id)))
        )
        known = outbox.claims(task_id)
        outcomes = Counter(known[claim] for claim in waiting)
        return Sent(before, outcomes, reason)


def _put_missing(maker: Reporter, outbox: Outbox, made: dict[str, Measurement]) -> None:
    """Put measurements by their claims, except where another call gave a claim a report first."""
    while made:
        try:
            maker.put_many([*made.values()], [*made])
        except AlreadyAnswered:
            known = outbox.claims(maker.task.task_id.value)
            made = {claim: each for claim, each in made.items() if claim not in known}
        else:
            break


def _reporter_of(
    task: Task,
    outbox: Outbox,
    per_request: int,
    floor: Floor | None,
    sender: Sender | None,
    clock: Clock,
) -> Reporter:
    """Return what sends an outbox's reports, however old they are."""
    return Reporter(
        task,
        outbox,
        clock=clock,
        sender=sender,
        floor=floor,
        max_age_seconds=_PATIENCE_SECONDS,
        reports_per_request=per_request,
    )


def _sent(sender: Reporter, sleep: Callable[[float], None], show: Callable[[], None]) -> str | None:
    """Send what waits; return why some still does, after as many tries as a call makes."""
    reason = None
    with closing(sender):
        show()
        for attempt in range(1, ATTEMPTS + 1):
            reason = sender.flush(now=True).reason
            show()
            if reason is None or attempt == ATTEMPTS:
                break
            sleep(2**attempt)
    return reason


def _digest(measurement: Measurement) -> bytes:
    same = measurement if isinstance(measurement, int) else [*measurement]
    return hashlib.sha256(json.dumps(same).encode()).digest()


class _At:
    """A clock that stands still."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def now(self) -> int:
        """Return its time."""
        return self._seconds
