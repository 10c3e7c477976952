"""Uploads many measurements: makes and stores the next group of reports while one is sent.

No byte of a report leaves before the transaction that stores its group is on disk. The outbox holds
a few groups at most, besides what an earlier call left: if a leader is away, or declines as many
reports as two groups have, nothing more is made.
"""

import dataclasses
import functools
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from typing import TypeVar

from aggregator.client.making import Put
from aggregator.client.outbox import Outbox
from aggregator.client.passes import Pass, Reason
from aggregator.client.records import Outcome, Record, State
from aggregator.client.reporter import Reporter, Stored
from aggregator.client.sender import Later
from aggregator.protocol.task import Task
from aggregator.vdaf.circuits.measurements import Measurement, MeasurementError

PEOPLE_AT_ONCE = 1000
"""How many people's reports are stored by one transaction, and settled by one."""

ATTEMPTS = 8
"""How often a call tries before it gives up, if nothing is settled in between."""

_LONGEST_PAUSE = 8
"""Seconds between two tries; with shorter ones at first, that is half a minute in all."""

_MOST_BYTES = 2**26
"""How large the reports of one transaction may be together."""

PASSING = (Reason.UNREACHABLE, Reason.BUSY, Reason.NOT_AN_AGGREGATOR)
"""Reasons that may be gone in half a minute."""

_T = TypeVar("_T")
_R = TypeVar("_R")

Counts = Counter[tuple[bytes, Outcome | None]]
"""Numbers of reports, by the id of their task and what became of them."""


@dataclasses.dataclass(slots=True)
class Uploaded:
    """What became of an upload.

    Attributes:
        outcomes: Of reports that this call made, or that waited when it began.
        before: Of what was left out, as the person has answered before; the outcome is None if they
            answered in another task.
        waiting: How many reports wait, by the id of their task.
        unmade: How many of the group that was to follow are new, but were not made.
        declined: Why those wait that the leader would not take now, by their ids.
        reason: Why the call ended before everything was made and sent; None if it did not.
    """

    outcomes: Counts = dataclasses.field(default_factory=Counter)
    before: Counts = dataclasses.field(default_factory=Counter)
    waiting: Counter[bytes] = dataclasses.field(default_factory=Counter)
    unmade: Counter[bytes] = dataclasses.field(default_factory=Counter)
    declined: dict[bytes, str] = dataclasses.field(default_factory=dict)
    reason: str | None = None

    @property
    def counted(self) -> int:
        """How many reports the leader counts that this call made, or that waited."""
        return told_apart(self.of(*(task for task, _ in self.outcomes)))[0]

    def of(self, *tasks: bytes) -> Counter[Outcome | None]:
        """Return how many reports of some tasks had each outcome."""
        return _of(self.outcomes, tasks)

    def before_of(self, *tasks: bytes) -> Counter[Outcome | None]:
        """Return the same of an earlier call's reports."""
        return _of(self.before, tasks)


def upload(
    reporter: Reporter,
    outbox: Outbox,
    groups: Iterable[Sequence[Put]],
    *,
    settled: Callable[[int], None] = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], object] | None = None,
) -> Uploaded:
    """Make what is new in each group, and send it, and what waited before.

    Args:
        reporter: Makes and sends the reports.
        outbox: Its outbox.
        groups: What is stored together, made when its turn comes, in a thread.
        settled: Called with the number of reports that have been settled or left out since.
        tell: Called before it is tried again, with the reason why it has to be.
        sleep: Waits so many seconds between two tries, by default until the call is interrupted.

    Raises:
        ParameterError: A measurement is out of range; the groups before it were sent.
        ConfigurationError, OutboxFull: The outbox cannot be used, or its disk is full.
    """
    call = _Call(reporter, outbox, settled, tell, sleep)
    if reporter.waiting():
        flush = functools.partial(reporter.flush, now=True)
        call.send(flush, flush)
    if call.found.reason is not None:
        return call.found_in_all()
    with closing(
        _made_ahead(call.store, groups, call.is_over)
    ) as ahead:  # nothing is made after the last sent
        for stored in ahead:
            if stored is None:
                break
            call.leave_out(stored.before)
            call.send_group(stored)
            if call.found.reason is not None:
                break
    return call.found_in_all()


def told_apart(outcomes: Counter[Outcome | None]) -> tuple[int, Counter[str]]:
    """Return how many reports are counted, and how many are not, by the draft's name of the reason.

    Those of people who have answered in another task are neither.
    """
    counted, refused = 0, Counter[str]()
    for outcome, count in outcomes.items():
        if outcome is None:
            continue
        if outcome.state is State.COUNTED:
            counted += count
        elif outcome.state is not State.WAITING:
            refused[outcome.reason] += count  # some may be late here and refused there
    return counted, refused


def check_range(task: Task, measurements: Sequence[Measurement]) -> None:
    """Refuse measurements of which one is out of range, without the memory of all encodings.

    Raises:
        MeasurementError: The message names its place, from 0, and the limit.
    """
    for start in range(0, len(measurements), PEOPLE_AT_ONCE):
        try:
            task.prio3.circuit.encode(measurements[start : start + PEOPLE_AT_ONCE])
        except MeasurementError as error:
            raise error.moved_by(start) from None


def groups_of(people: Iterable[_T], room: int) -> Iterator[Sequence[_T]]:
    """Yield people in groups that are stored together; `room` are the bytes of one of them."""
    size = max(1, min(PEOPLE_AT_ONCE, _MOST_BYTES // room))
    rest = iter(people)
    while group := [*itertools.islice(rest, size)]:
        yield group


class _Call:
    """One upload: what it has found so far."""

    def __init__(
        self,
        reporter: Reporter,
        outbox: Outbox,
        settled: Callable[[int], None],
        tell: Callable[[str], None],
        sleep: Callable[[float], object] | None,
    ) -> None:
        self.found = Uploaded()
        self.is_over = threading.Event()
        self._reporter, self._outbox = reporter, outbox
        self._settled = settled
        self._tell = tell
        self._sleep = self.is_over.wait if sleep is None else sleep
        self._waited = outbox.waiting_claims()
        self._left = self._largest = 0

    def found_in_all(self) -> Uploaded:
        """Return what was found, with what waits now."""
        waiting = self._outbox.waiting_keys()
        self.found.waiting = Counter(waiting.values())
        declined = self.found.declined
        self.found.declined = {key: why for key, why in declined.items() if key in waiting}
        return self.found

    def send(self, all_of_it: Callable[[], Pass], rest: Callable[[], Pass]) -> None:
        """Send it, and the rest again while a pass is cut; set the reason if that does not help."""
        done, attempt = all_of_it(), 1
        self._note(done)
        while done.is_cut:
            if attempt == ATTEMPTS or done.reason not in PASSING:
                self.found.reason = done.reason
                return
            self._tell(done.reason)
            self._pause(attempt)
            done = rest()
            self._note(done)
            attempt = 1 if done.settled else attempt + 1

    def send_group(self, stored: Stored) -> None:
        """Send a group, unless the leader has declined as many reports as two groups have."""
        made = sum(map(len, stored.by_task.values()))
        self._largest = max(self._largest, made + sum(len(put.parts) for put in stored.before))
        if self._left >= 2 * self._largest > 0 and self.found.declined:
            self.found.reason = next(reversed(self.found.declined.values()))
            return
        settled = self.found.outcomes.total()
        self.send(
            lambda: self._reporter.deliver(stored.by_task),
            lambda: self._reporter.deliver(self._rest_of(stored)),
        )
        self._left += made - (self.found.outcomes.total() - settled)

    def store(self, group: Sequence[Put]) -> Stored | None:
        """Return what was stored; None, with the reason set, if an aggregator gave no keys."""
        reason = ""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._reporter.put_new(group)
            except Later as later:
                reason = later.reason
            if attempt < ATTEMPTS:
                self._tell(reason)
                self._pause(attempt)
            if self.is_over.is_set():
                return None
        refusals = self._outbox.refusals([put.unmade for put in group])
        new = (put for put, why in zip(group, refusals, strict=True) if why is None)
        self.found.unmade.update(task.task_id.value for put in new for task, _ in put.parts)
        self.found.reason = reason
        return None

    def _rest_of(self, stored: Stored) -> dict[bytes, list[Record]]:
        """Return the records of a group that still wait, in the order they were sent in before."""
        return {
            task: self._outbox.records([record.key for record in records])
            for task, records in stored.by_task.items()
        }

    def leave_out(self, before: Sequence[Put]) -> None:
        """Note what became of puts that are not new."""
        left_out = list[tuple[bytes, str | None]]()
        for put in before:
            for task, _ in put.parts:
                claim = (task.task_id.value, put.claim)
                if claim in self._waited:  # it is among the outcomes, or waits: once
                    self._waited.remove(claim)
                else:
                    left_out.append(claim)
        for (task_id, _), outcome in zip(left_out, self._outbox.claimed_all(left_out), strict=True):
            self.found.before[task_id, outcome] += 1
        self._settled(len(left_out))

    def _note(self, done: Pass) -> None:
        self.found.outcomes += done.outcomes
        self.found.declined |= done.declined
        self._settled(done.settled)

    def _pause(self, attempt: int) -> None:
        self._sleep(min(2.0 ** (attempt - 1), _LONGEST_PAUSE))


def _made_ahead(
    make: Callable[[_T], _R], given: Iterable[_T], is_over: threading.Event
) -> Generator[_R, None, None]:
    """Yield what is made of each thing given; the next is taken and made meanwhile, in a thread.

    `is_over` is set at the end, which waits for the thread.
    """
    rest = iter(given)

    def make_next() -> list[_R]:
        return [make(each) for each in itertools.islice(rest, 1)]

    with ThreadPoolExecutor(1, "making") as maker:
        # With the context of the caller: what numpy is told to overlook holds in a thread by it.
        try:
            ahead = maker.submit(copy_context().run, make_next)
            while made := ahead.result():
                ahead = maker.submit(copy_context().run, make_next)
                yield from made
        finally:
            is_over.set()  # also at Ctrl-C: the thread may be asking for keys for minutes


def _of(counts: Counts, tasks: Sequence[bytes]) -> Counter[Outcome | None]:
    found = Counter[Outcome | None]()
    for (task, outcome), count in counts.items():
        if task in tasks:
            found[outcome] += count
    return found
