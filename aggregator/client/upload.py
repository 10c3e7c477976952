"""For scripts and notebooks that have all measurements: makes their reports and sends them.

`Client` waits until they are settled; `AsyncClient` does so in a thread. Both are a `Reporter` over
an outbox, which is in memory unless a file is given.

Source: DAP, "HPKE Configuration Request", "Uploading Reports" and "Client Behavior".
"""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Self

from aggregator.client import bulk
from aggregator.client.bulk import Uploaded
from aggregator.client.delivery import room_of
from aggregator.client.making import Put
from aggregator.client.outbox import Outbox
from aggregator.client.records import Outcome, State
from aggregator.client.reporter import NO_AGE, Reporter
from aggregator.client.sender import REPORTS_PER_REQUEST, Sender
from aggregator.clock import Clock, SystemClock
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError, PeerError
from aggregator.protocol.groups import check_kept
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from aggregator.vdaf.circuits.measurements import Measurement


class UploadError(PeerError):
    """Some reports could not be sent, or were not answered."""


@dataclasses.dataclass(frozen=True, slots=True)
class UploadSummary:
    """The outcome of an upload.

    Attributes:
        accepted: How many reports the leader counts.
        refused: How many it does not, by the draft's name of the reason.
    """

    accepted: int
    refused: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many reports were sent."""
        return self.accepted + sum(self.refused.values())


class _Uploads:
    """What `Client` and `AsyncClient` are both made of."""

    def __init__(
        self,
        task: Task,
        outbox: Outbox | None = None,
        *,
        sender: Sender | None = None,
        entropy: Entropy | None = None,
        clock: Clock | None = None,
        requirements: Requirements | None = None,
        keeps_places: bool = False,
        reports_per_request: int = REPORTS_PER_REQUEST,
    ) -> None:
        self._task, self._keeps_places = task, keeps_places
        self._clock = SystemClock() if clock is None else clock
        self._outbox = Outbox(None) if outbox is None else outbox
        self._owns_outbox = outbox is None
        try:
            self._reporter = Reporter(
                task,
                self._outbox,
                entropy=entropy,
                clock=self._clock,
                sender=sender,
                requirements=requirements,
                max_age_seconds=NO_AGE,
                reports_per_request=reports_per_request,
                keeps_places=keeps_places,
            )
        except BaseException:
            self._close_outbox()
            raise

    def close(self) -> None:
        """Close the connections, and the outbox if it is in memory."""
        self._reporter.close()
        self._close_outbox()

    def _upload(
        self,
        measurements: Sequence[Measurement],
        person: str | None,
        time: float | datetime | None,
        progress: Callable[[int], None],
    ) -> UploadSummary:
        if person is None and not self._keeps_places:
            check_kept(self._task)
        seconds = self._clock.now() if time is None else _seconds(time)
        bulk.check_range(self._task, measurements)
        of_others = measurements if person is None else ()
        if person is not None:
            self._reporter.put_many(measurements, person=person, seconds=seconds)
        puts = (Put([(self._task, each)], seconds) for each in of_others)
        groups = bulk.groups_of(puts, room_of(self._task))
        try:
            done = bulk.upload(self._reporter, self._outbox, groups, settled=progress)
        finally:  # also at Ctrl-C: what is uploaded next is not to bring it along
            if self._owns_outbox:
                self._forget()
        return self._summary(done, len(measurements))

    def _close_outbox(self) -> None:
        if self._owns_outbox:
            self._outbox.close()

    def _summary(self, done: Uploaded, sent: int) -> UploadSummary:
        accepted, refused = bulk.told_apart(done.of(self._task.task_id.value))
        settled = accepted + refused.total()
        if self._owns_outbox:
            refused += Counter(done.declined.values())  # nobody sends them again
        if done.reason is not None:
            raise UploadError(
                f"{done.reason}: the first {settled} of {sent} reports are settled; some of the "
                "next may be counted, too"
            )
        return UploadSummary(accepted, dict(refused))

    def _forget(self) -> None:
        waiting = self._outbox.due(self._task.task_id.value, None)
        self._outbox.settle([(record, Outcome(State.REFUSED)) for record in waiting])


class Client(_Uploads):
    """Uploads measurements of one task.

    Args:
        task: What is measured, and who aggregates it.
        outbox: Where reports wait, and where is kept what persons have sent; memory by default.
        sender: Sends the requests; over HTTP without a proxy by default.
        entropy: Where report ids, shares and HPKE keys come from.
        clock: What time a report is of.
        requirements: What the client requires of a task before it takes part.
        keeps_places: Whether the caller keeps each person to one place of the task's group.
        reports_per_request: The most reports of one request.

    Raises:
        ParameterError: The task protects too little.
    """

    def upload(
        self,
        measurements: Sequence[Measurement],
        *,
        person: str | None = None,
        time: float | datetime | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> UploadSummary:
        """Upload a report for each measurement, and what waits in the outbox.

        Args:
            measurements: Integers or lists of integers, as the task's type requires.
            person: Whose measurements these are. Over all uploads with an outbox, nobody makes more
                reports than the task allows one person. If not given, each measurement is of a
                different person.
            time: Time of the reports, in seconds since the epoch or with a time zone, rounded down
                to the task's precision; now by default.
            progress: Called with the number of reports that have been settled since.

        Raises:
            AlreadyAnswered: The person would have more reports than the task allows; none is sent.
            ParameterError: A measurement is out of range; the message names the limit. Or the time
                has no zone. Or the task is in a group, and nothing keeps people to one place of it.
                Nothing is sent.
            UploadError: An aggregator could not be reached or refused a request; `progress` told
                how many reports were settled.

        After an error, or Ctrl-C, what was not settled waits in the outbox and goes with the next
        upload; if the outbox is in memory, it is forgotten.
        """
        return self._upload(measurements, person, time, progress)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(_Uploads):
    """`Client`, whose uploads run in a thread. Takes what `Client` takes."""

    async def upload(
        self,
        measurements: Sequence[Measurement],
        *,
        person: str | None = None,
        time: float | datetime | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> UploadSummary:
        """See `Client.upload`; `progress` is called in the thread."""
        return await asyncio.to_thread(self._upload, measurements, person, time, progress)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


def _seconds(time: float | datetime) -> int:
    if not isinstance(time, datetime):
        return int(time)
    if time.tzinfo is None:
        raise ParameterError("time: needs a time zone, such as datetime.UTC")
    return int(time.timestamp())
