"""Makes the reports of measurements: those of one task and time together, which is cheaper."""

import dataclasses
from collections.abc import Mapping, Sequence

from aggregator.client.contributions import Contribution
from aggregator.client.delivery import room_of
from aggregator.client.held_permits import SignedPermit
from aggregator.client.records import Entry, Record
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.protocol.permit_requests import Place
from aggregator.protocol.reports import prepare_reports
from aggregator.protocol.task import Task
from aggregator.vdaf.circuits.measurements import Measurement


@dataclasses.dataclass(frozen=True, slots=True)
class Put:
    """What is stored together or not at all, of one person.

    Attributes:
        parts: A measurement of each task.
        seconds: When it was measured, in seconds since the epoch.
        claim: What may have only one report of each of these tasks.
        contributions: What the person contributes by it.
        digest: Of what it was made of; deleted with the first report.
        secret: Of the person's permits, where the tasks need one.
        number: Which permit of the window it is.
        holder: Whose signed permits in the outbox it takes, where tasks need those; empty for those
            of nobody who is named.
        signed: Those permits, by the ids of the tasks.
    """

    parts: Sequence[tuple[Task, Measurement]] = dataclasses.field(repr=False)
    seconds: int
    claim: str | None = None
    contributions: Sequence[Contribution] = ()
    digest: bytes | None = dataclasses.field(default=None, repr=False)
    secret: bytes | None = dataclasses.field(default=None, repr=False)
    number: int = 0
    holder: str = ""
    signed: Mapping[bytes, SignedPermit] = dataclasses.field(default_factory=dict, repr=False)

    def place(self, task: Task) -> Place | None:
        """Return which signed permit its report of a task takes; None if that takes none."""
        if task.permits is None or not task.permits.is_signed:
            return None
        window = task.permit_window_at(task.time(self.seconds))
        return Place(task.permits.domain, window, self.number)

    def opening(self, task: Task) -> bytes | None:
        """Return the permit of its report of a task; None if that needs none.

        Raises `ParameterError` if it has none and needs one, or the other way round.
        """
        if self.secret is not None:
            return task.opening(self.secret, self.seconds, self.number)
        if task.task_id.value in self.signed:
            return self.signed[task.task_id.value].opening
        if task.permits is not None:
            raise ParameterError("permit: the task counts only reports with one: give the code")
        return None

    @property
    def unmade(self) -> Entry:
        """An entry by which an outbox tells whether it would take this; its records are empty."""
        records = [
            Record(b"", task.task_id.value, self.claim, 0, 0, b"", b"", b"", None, b"")
            for task, _ in self.parts
        ]
        return Entry(records, self.contributions)


def made(puts: Sequence[Put], now: int, entropy: Entropy) -> list[Entry]:
    """Return the entries of puts, with a record for each part, not sealed yet.

    Raises `ParameterError` if a measurement is out of range, or a permit is missing.
    """
    tasks: dict[bytes, Task] = {}
    parts: dict[tuple[bytes, int], list[tuple[int, int]]] = {}
    for place, put in enumerate(puts):
        for part, (task, _) in enumerate(put.parts):
            tasks[task.task_id.value] = task
            parts.setdefault((task.task_id.value, put.seconds), []).append((place, part))
    records: dict[tuple[int, int], Record] = {}
    for (task_id, seconds), places in parts.items():
        task = tasks[task_id]
        measurements = [puts[place].parts[part][1] for place, part in places]
        permits = [puts[place].opening(task) for place, _ in places]
        openings = [each for each in permits if each is not None]
        signatures: list[bytes] | None = None
        if task.issuer_keys is not None:
            signatures = [puts[place].signed[task_id].signature for place, _ in places]
        time = task.time(seconds)
        prepared = prepare_reports(task, measurements, time, entropy, openings, signatures)
        unsealed = bytes(room_of(task))
        signed = [None] * len(places) if signatures is None else signatures
        for each, signature, (place, part) in zip(prepared, signed, places, strict=True):
            records[place, part] = Record(
                key=each.metadata.report_id.value,
                task=task_id,
                claim=puts[place].claim,
                created=now,
                time=each.metadata.time.units,
                public_share=each.public_share,
                leader_share=each.leader_input_share,
                helper_share=each.helper_input_share,
                sealed_to=None,
                body=unsealed,
                opening=each.opening,
                signature=signature,
            )
    return [
        Entry(
            [records[place, part] for part in range(len(put.parts))],
            put.contributions,
            put.digest,
            [(put.holder, of) for task, _ in put.parts if (of := put.place(task)) is not None],
        )
        for place, put in enumerate(puts)
    ]
