"""An application's client: takes an answer at once, and sends its report until that is settled.

put      the report is made and stored
flush    sealed to keys of the day, STORED, and only then sent: the same bytes until there is
         an answer
settled  deleted from the outbox; its claim says what became of it

Further tasks of the same aggregators may have reports beside the task's own. Reports that are put
together are stored together or not at all.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from aggregator.client.batched_calls import BatchedCalls
from aggregator.client.delivery import Delivery, Pass, Reason, Settled, room_of
from aggregator.client.outbox import Outbox, Outcome, Record
from aggregator.client.sender import REPORTS_PER_REQUEST, Sender
from aggregator.client.window_claims import WindowClaim
from aggregator.clock import Clock, SystemClock
from aggregator.dap.times import DAY
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ParameterError
from aggregator.protocol.groups import check_kept
from aggregator.protocol.reports import prepare_reports
from aggregator.protocol.requirements import Floor, check_floor
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.vdaf.circuits.measurements import Measurement

MAX_AGE_SECONDS = 14 * DAY

Beside = tuple[Task, Settled]
"""A task whose reports go with another's, and the callback for their outcomes."""

Parts = Sequence[tuple[Task, Measurement]]
"""Measurements that are put together, each with its task."""

_Put = tuple[Callable[[int], Parts], str | None]
"""What is put at a time, and its claim."""

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
        floor: The least protection of a task that this client takes part in.
        max_age_seconds: How long a report may wait. If the leader declines it after that, and on
            several days, it is given up.
        reports_per_request: The most reports of one request.
        claim_at: Makes the stored claim from a claim and a time; the claim itself by default.
        windows_at: Makes the windows that a claim takes too, of all tasks that share the outbox.
        beside: Further tasks of the same aggregators. The caller keeps a person to one of a group.

    Raises:
        ParameterError: A task is below the floor, or the first is in a group: this client does not
            keep people to one place.
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
        floor: Floor | None = None,
        max_age_seconds: int = MAX_AGE_SECONDS,
        reports_per_request: int = REPORTS_PER_REQUEST,
        claim_at: Callable[[str, int], str] = lambda claim, _seconds: claim,
        windows_at: Callable[[str, int], Sequence[WindowClaim]] = lambda _claim, _seconds: (),
        beside: Sequence[Beside] = (),
    ) -> None:
        for each in (task, *(each for each, _ in beside)):
            check_floor(each, floor or Floor(), "this client")
        check_kept(task)
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

            sender = HttpSender()
            self._owned.append(sender.close)
        self._sender = sender
        self._claim_at, self._windows_at = claim_at, windows_at
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
        made = cls(task, waiting)
        made._owned.append(waiting.close)
        return made

    @property
    def clock_ahead(self) -> int | None:
        """Seconds by which this machine's clock was ahead of the last answer's."""
        return self._sender.clock_ahead

    def put(self, measurement: Measurement, *, claim: str | None = None) -> bytes:
        """Make a report and store it; return its id.

        Args:
            measurement: As the task's type requires.
            claim: What may have only one report, such as a person's number and a survey.

        Raises:
            ParameterError: The measurement is out of range.
            AlreadyAnswered: The claim has a report.
            OutboxFull: There is no room for it.
        """
        return self.put_together(partial(_parts_of, self.task, measurement), claim=claim)[0]

    def put_together(
        self, parts: Callable[[int], Parts], *, claim: str | None = None
    ) -> list[bytes]:
        """Make a report for each of several tasks, and store all or none; return their ids.

        `parts` takes the time of the reports, returns a measurement of each task, this reporter's
        or beside it, and raises nothing. Raises what `put` raises.
        """
        return self._puts.do((parts, claim))

    def put_many(
        self,
        measurements: Sequence[Measurement],
        claims: Sequence[str | None] | None = None,
        digests: Sequence[bytes] | None = None,
    ) -> list[bytes]:
        """Make and store a report of each measurement, all or none; cheaper than many `put`.

        A digest of each measurement is kept in the outbox while its report waits. Raises what `put`
        raises.
        """
        named = [None] * len(measurements) if claims is None else claims
        if len(named) != len(measurements):
            raise ParameterError(f"claims must be {len(measurements)}, not {len(named)}")
        puts = [
            (partial(_parts_of, self.task, each), claim)
            for each, claim in zip(measurements, named, strict=True)
        ]
        return [report for [report] in self._put_all(puts, digests)]

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

    async def aput(self, measurement: Measurement, *, claim: str | None = None) -> bytes:
        """`put`, in a thread."""
        from anyio.to_thread import run_sync

        return await run_sync(lambda: self.put(measurement, claim=claim))

    async def aflush(self, *, now: bool = False) -> Pass:
        """`flush`, in a thread."""
        from anyio.to_thread import run_sync

        return await run_sync(lambda: self.flush(now=now))

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

    def _put_all(
        self, puts: Sequence[_Put], digests: Sequence[bytes] | None = None
    ) -> list[list[bytes]]:
        """Make the reports of several puts, task by task, and store all or none.

        Digests are for puts of one task, one for each report.
        """
        now = self._clock.now()
        by_task: dict[bytes, list[tuple[int, Measurement, str | None]]] = {}
        tasks: dict[bytes, Task] = {}
        put = [(parts_at(now), claim) for parts_at, claim in puts]
        for place, (parts, claim) in enumerate(put):
            claimed = None if claim is None else self._claim_at(claim, now)
            for task, measurement in parts:
                tasks[task.task_id.value] = task
                by_task.setdefault(task.task_id.value, []).append((place, measurement, claimed))
        records: list[Record] = []
        made: list[dict[bytes, bytes]] = [{} for _ in puts]
        for key, given in by_task.items():
            of_task = self._records(tasks[key], [(each, claim) for _, each, claim in given], now)
            records += of_task
            for (place, _, _), record in zip(given, of_task, strict=True):
                made[place][key] = record.key
        windows = [
            window
            for _, claim in put
            if claim is not None
            for window in self._windows_at(claim, now)
        ]
        self._outbox.add(records, digests, windows)
        return [
            [ids[task.task_id.value] for task, _ in parts]
            for ids, (parts, _) in zip(made, put, strict=True)
        ]

    def _records(
        self, task: Task, given: Sequence[tuple[Measurement, str | None]], now: int
    ) -> list[Record]:
        prepared = prepare_reports(task, [each for each, _ in given], task.time(now), self._entropy)
        unsealed = bytes(room_of(task))
        return [
            Record(
                key=each.metadata.report_id.value,
                task=task.task_id.value,
                claim=claim,
                created=now,
                time=each.metadata.time.units,
                public_share=each.public_share,
                leader_share=each.leader_input_share,
                helper_share=each.helper_input_share,
                sealed_to=None,
                body=unsealed,
            )
            for each, (_, claim) in zip(prepared, given, strict=True)
        ]

    def _flush(self, tasks: Sequence[bytes], *, now: bool) -> Pass:
        """Send the reports of some tasks, until it is no use to go on."""
        done = Pass()
        for each in tasks:
            of_task = self._deliveries[each].flush(now=now)
            done.counted += of_task.counted
            done.late += of_task.late
            done.refused += of_task.refused
            done.reason = of_task.reason or done.reason
            if of_task.reason in _OF_ALL_TASKS:
                break
        done.waiting = self.waiting()
        return done

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


def _parts_of(task: Task, measurement: Measurement, _: int) -> Parts:
    return [(task, measurement)]
