"""An application's client: takes an answer at once, and sends its report until that is settled.

put      the report is made and stored
flush    sealed to keys of the day, STORED, and only then sent: the same bytes until there is
         an answer
settled  deleted from the outbox; its claim says what became of it

Further tasks of the same aggregators may have reports beside the task's own. Reports that are put
together are stored together or not at all.
"""

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

from aggregator.client.batched_calls import BatchedCalls
from aggregator.client.contributions import Contribution, check_person, claim_of
from aggregator.client.delivery import Delivery
from aggregator.client.held_permits import SignedPermit, held, is_gone
from aggregator.client.making import Put, made
from aggregator.client.outbox import AlreadyAnswered, Outbox
from aggregator.client.passes import Pass, Reason, Settled, Settling
from aggregator.client.records import Entry, Outcome, Record
from aggregator.client.sender import REPORTS_PER_REQUEST, Sender
from aggregator.clock import Clock, SystemClock
from aggregator.dap.times import DAY
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ParameterError
from aggregator.protocol.groups import check_kept
from aggregator.protocol.in_band import headers_of
from aggregator.protocol.permit_codes import name_of, secret_of
from aggregator.protocol.requirements import Requirements, check_requirements
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.vdaf.circuits.measurements import Measurement

MAX_AGE_SECONDS = 14 * DAY

NO_AGE = 2**62
"""Seconds after which a report is given up: whoever calls again decides that, or the leader."""

Beside = tuple[Task, Settled]
"""A task whose reports go with another's, and the callback for their outcomes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """What `put_new` has stored: the records by task, and the puts that were not new."""

    by_task: Mapping[bytes, Sequence[Record]]
    before: Sequence[Put]


_OF_ALL_TASKS = (Reason.UNREACHABLE, Reason.BUSY, Reason.NOT_AN_AGGREGATOR)
"""Reasons that hold for all tasks of the same aggregators: the pass ends there."""


class Reporter:
    """The client of one task, over an outbox that outlives it; threads may share it.

    Args:
        task: What is measured, and who aggregates it.
        outbox: Where reports wait.
        entropy: Where report ids, shares and HPKE keys come from.
        clock: What time it is.
        sender: Sends requests.
        on_settled: Called for each report, after its outcome is stored.
        requirements: What this client requires of a task before it takes part.
        max_age_seconds: How long a report may wait. If the leader declines it after that, and on
            several days, it is given up.
        reports_per_request: The most reports of one request.
        beside: Further tasks of the same aggregators. The caller keeps a person to one of a group.
        keeps_places: Whether the caller keeps each person to one place of the first task's group,
            too. If not, the outbox does, of persons that are named.

    Raises:
        ParameterError: A task protects too little.
    """

    def __init__(
        self,
        task: Task,
        outbox: Outbox,
        *,
        entropy: Entropy | None = None,
        clock: Clock | None = None,
        sender: Sender | None = None,
        on_settled: Settled = lambda _key, _claim, _outcome: None,
        requirements: Requirements | None = None,
        max_age_seconds: int = MAX_AGE_SECONDS,
        reports_per_request: int = REPORTS_PER_REQUEST,
        beside: Sequence[Beside] = (),
        keeps_places: bool = False,
    ) -> None:
        for each in (task, *(each for each, _ in beside)):
            check_requirements(each, requirements or Requirements(), "this client")
        if reports_per_request < 1:
            raise ParameterError(
                f"reports_per_request must be 1 or more, not {reports_per_request}"
            )
        self.task = task
        self.fault: Exception | None = None
        """The error of the last background pass, or of `on_settled`; None if there was none."""
        self._id = task.task_id.value
        self._outbox = outbox
        self._entropy = SystemEntropy() if entropy is None else entropy
        self._clock = SystemClock() if clock is None else clock
        self._owned: list[Callable[[], None]] = []
        if sender is None:
            from aggregator.client.stdlib_sender import HttpSender

            sender = HttpSender(headers=headers_of(task))
            self._owned.append(sender.close)
        self._sender = sender
        self._keeps_places = keeps_places
        self._deliveries = {
            each.task_id.value: Delivery(
                each,
                outbox,
                self._entropy,
                self._clock,
                sender,
                told,
                max_age_seconds,
                reports_per_request,
                self._id,
            )
            for each, told in ((task, on_settled), *beside)
        }
        # A thread stores the reports of all threads that wait: many at once cost little each.
        self._puts = BatchedCalls(self._put_all, REPORTS_PER_REQUEST)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def open(cls, task_file: Path | str, outbox: Path | str) -> Self:
        """Return the client of a task file, with an outbox in a file.

        Raises `ParameterError`, `ConfigurationError` or OSError if one of them cannot be used.
        """
        task = task_from_toml(Path(task_file).read_text("utf-8"))
        waiting = Outbox(outbox)
        try:
            reporter = cls(task, waiting)
        except BaseException:
            waiting.close()
            raise
        reporter._owned.append(waiting.close)
        return reporter

    @property
    def clock_ahead(self) -> int | None:
        """Seconds by which this machine's clock was ahead of the last answer's."""
        return self._sender.clock_ahead

    def put(
        self,
        measurement: Measurement,
        *,
        claim: str | None = None,
        person: str | None = None,
        seconds: int | None = None,
        permit: str | None = None,
        number: int = 0,
    ) -> bytes:
        """Make a report and store it; return its id.

        Args:
            measurement: As the task's type requires.
            claim: What may have only one report, such as a person's number and a survey.
            person: Whose report it is: nobody makes more than the task allows one person, over all
                tasks that ask the same.
            seconds: When it was measured, in seconds since the epoch; now by default.
            permit: The code of the person's link, if the task counts only reports with a permit.
                The aggregators count each permit once, whatever device it is used on; so nothing is
                counted here, and no person need be named.
                Where permits are signed, the one that a `PermitStore` has got is taken instead:
                of `person`, if one is named.
            number: Which report of the window it is, where the task allows a person several.

        Raises:
            ParameterError: The measurement is out of range. Or the task is in a group, of which a
                person is in one place, and no person is named. Or a permit is missing, or is none.
            AlreadyAnswered: The claim has a report, or the person as many as the task allows.
            OutboxFull: There is no room for it.
        """
        return self._puts.do(self._put_of(measurement, claim, person, seconds, permit, number))[0]

    def put_many(
        self,
        measurements: Sequence[Measurement],
        claims: Sequence[str | None] | None = None,
        *,
        person: str | None = None,
        seconds: int | None = None,
    ) -> list[bytes]:
        """Make and store a report of each measurement, all or none; cheaper than many `put`.

        Takes and raises what `put` does; all measurements are of one person if one is named.
        """
        named = [None] * len(measurements) if claims is None else claims
        if len(named) != len(measurements):
            raise ParameterError(f"claims must be {len(measurements)}, not {len(named)}")
        puts = [
            self._put_of(each, claim, person, seconds)
            for each, claim in zip(measurements, named, strict=True)
        ]
        return [report for [report] in self._put_all(puts)]

    def put_together(self, put: Put) -> list[bytes]:
        """Make a report for each part of a put, and store all or none; return their ids.

        Each task is this reporter's or beside it. Raises what `put` raises.
        """
        return self._puts.do(put)

    def claimed(self, claim: str, task: Task | None = None) -> Outcome | None:
        """Return what became of a claim, of `task` if one is given; None if it has no report."""
        return self._outbox.claimed((task or self.task).task_id.value, claim)

    def waiting(self) -> int:
        """Return how many reports wait."""
        return sum(count for task, count, _ in self._outbox.tasks() if task in self._deliveries)

    def flush(self, *, now: bool = False) -> Pass:
        """Send what is due, in groups, or with `now` everything."""
        waiting = [task for task, _, _ in self._outbox.tasks()]
        beside = [each for each in waiting if each in self._deliveries and each != self._id]
        return self._flush([self._id, *beside], now=now)

    async def aput(
        self, measurement: Measurement, *, claim: str | None = None, person: str | None = None
    ) -> bytes:
        """`put`, in a thread."""
        from asyncio import to_thread

        return await to_thread(self.put, measurement, claim=claim, person=person)

    async def aflush(self, *, now: bool = False) -> Pass:
        """`flush`, in a thread."""
        from asyncio import to_thread

        return await to_thread(self.flush, now=now)

    def start(self, seconds: float = 1.0) -> None:
        """Send from now on in a background thread, with a pass every `seconds`."""
        if self._thread is None:
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, args=(seconds,), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop sending; reports that wait stay in the outbox."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def close(self) -> None:
        """Stop, and close the connections; the outbox too, if `open` opened it."""
        self.stop()
        for close in self._owned:
            close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def put_new(self, puts: Sequence[Put]) -> Stored:
        """Make, seal and store those puts that are new, for `deliver`.

        Raises:
            Later: An aggregator does not give its keys now; nothing was stored.
            ParameterError, OutboxFull: As `put`.
        """
        refusals = self._outbox.refusals([put.unmade for put in puts])
        before = [put for put, reason in zip(puts, refusals, strict=True) if reason is not None]
        new = [put for put, reason in zip(puts, refusals, strict=True) if reason is None]
        entries = self._sealed(self._made(new))
        by_task: dict[bytes, list[Record]] = {}
        # Another row here, or another process, may have been quicker.
        for put, entry, is_stored in zip(new, entries, self._outbox.add_new(entries), strict=True):
            if not is_stored:
                before.append(put)
                continue
            for record in entry.records:
                by_task.setdefault(record.task, []).append(record)
        return Stored(by_task, before)

    def deliver(self, by_task: Mapping[bytes, Sequence[Record]]) -> Pass:
        """Send records that were stored just now, and settle all of them in one transaction."""
        passes, settling = list[Pass](), Settling(self._outbox, at_once=False)
        try:
            for task, records in by_task.items():
                passes.append(self._deliveries[task].deliver(records, settling))
                if passes[-1].reason in _OF_ALL_TASKS:
                    break
        finally:
            settling.settle()
        return self._sum_of(passes)

    def _put_of(
        self,
        measurement: Measurement,
        claim: str | None,
        person: str | None,
        seconds: int | None,
        permit: str | None = None,
        number: int = 0,
    ) -> Put:
        time = self._clock.now() if seconds is None else seconds
        if permit is not None:
            secret = secret_of(permit)
            named = claim_of(self.task, name_of(secret), time, number) if claim is None else claim
            return Put([(self.task, measurement)], time, named, secret=secret, number=number)
        if self.task.issuer_keys is not None:
            if person is not None:
                check_person(person)
                claim = claim_of(self.task, person, time, number) if claim is None else claim
            parts = [(self.task, measurement)]
            return Put(parts, time, claim, number=number, holder=person or "")
        put = Put([(self.task, measurement)], time, claim)
        group = None if self._keeps_places else self.task.policy.group
        if person is None:
            if group is not None:
                check_kept(self.task)
            return put
        check_person(person)
        contributed = Contribution.of(self.task, person, time)
        return replace(put, contributions=[replace(contributed, group=group)])

    def _put_all(self, puts: Sequence[Put]) -> list[list[bytes]]:
        """Make the reports of several puts, and store all or none; return their ids."""
        entries = self._made(puts)
        self._outbox.add(entries)
        return [[record.key for record in entry.records] for entry in entries]

    def _made(self, puts: Sequence[Put]) -> list[Entry]:
        """Make the reports of puts, with the signed permits that the outbox holds for them."""
        permitted = [self._with_permits(put) for put in puts]
        return made(permitted, self._clock.now(), self._entropy)

    def _with_permits(self, put: Put) -> Put:
        """Return a put with its signed permits, if its tasks need some; refuse it without."""
        signed: dict[bytes, SignedPermit] = {}
        for task, _ in put.parts:
            place = put.place(task)
            if place is not None:
                found = self._outbox.within(partial(held, holder=put.holder, place=place))
                if found is None:
                    if self._outbox.within(partial(is_gone, holder=put.holder, place=place)):
                        raise AlreadyAnswered(
                            "the permit of this window was used, or another device has it"
                        )
                    raise ParameterError(
                        "permit: the outbox holds none of this window that was not used: get "
                        "permits from the issuer first (PermitStore.refresh)"
                    )
                signed[task.task_id.value] = found
        return replace(put, signed=signed) if signed else put

    def _sealed(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return entries with sealed records, task by task."""
        by_task: dict[bytes, list[Record]] = {}
        for entry in entries:
            for record in entry.records:
                by_task.setdefault(record.task, []).append(record)
        sealed = {
            record.key: record
            for task, records in by_task.items()
            for record in self._deliveries[task].sealed(records)
        }
        return [
            replace(entry, records=[sealed[record.key] for record in entry.records])
            for entry in entries
        ]

    def _sum_of(self, passes: Sequence[Pass]) -> Pass:
        done = Pass()
        for each in passes:
            done.add(each)
        done.waiting = self.waiting()
        return done

    def _flush(self, tasks: Sequence[bytes], *, now: bool) -> Pass:
        """Send the reports of some tasks, until it is no use to go on."""
        passes = list[Pass]()
        for each in tasks:
            passes.append(self._deliveries[each].flush(now=now))
            if passes[-1].reason in _OF_ALL_TASKS:
                break
        return self._sum_of(passes)

    def _run(self, seconds: float) -> None:
        while not self._ended.wait(seconds):
            try:
                now = self._clock.now()
                due = [
                    task
                    for task, _, when in self._outbox.tasks()
                    if task in self._deliveries
                    and max(when, self._deliveries[task].quiet_until) <= now
                ]
                for task in due:
                    self._deliveries[task].quiet_until = 0
                if due:
                    self._flush(due, now=False)
                faults = [each.callback_fault for each in self._deliveries.values()]
                self.fault = next((fault for fault in faults if fault is not None), None)
            except Exception as error:  # noqa: BLE001  such as a disk that is gone: it may come back
                self.fault = error
