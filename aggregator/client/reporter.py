"""An application's client: takes an answer at once, and sends it until it is settled.

    put      the report is made and stored
    flush    sealed to keys of the day, STORED, and only then sent: the same bytes until there is
             an answer
    settled  deleted from the outbox; its claim says what became of it

Only `outdated_config` may change the bytes, and only if the aggregators' keys have changed: then
the same shares are sealed again, under the same id. So neither a lost answer nor a restart, nor a
leader that lies about its keys, counts anybody twice.
"""

import dataclasses
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Self

from aggregator.client.outbox import Outbox, OutboxFull, Outcome, Record, State
from aggregator.client.posting import Later, PlainPosting, Posting, Refused, TooLarge
from aggregator.clock import Clock, SystemClock
from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.hpke import HpkeConfig, HpkeConfigList, seal
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import ReportMetadata, UploadErrors, UploadRequest
from aggregator.dap.report_errors import ReportError
from aggregator.dap.resources import path
from aggregator.dap.times import DAY, Time
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ParameterError
from aggregator.protocol.floor import Floor, check_floor
from aggregator.protocol.reports import PreparedReport, prepare_reports, report_sizes, seal_report
from aggregator.protocol.task import Task, task_from_toml
from aggregator.vdaf.circuits.measurements import Measurement

REPORTS_PER_REQUEST = 200
MAX_AGE_SECONDS = 14 * DAY
KEYS_SECONDS = DAY
"""How long keys are used without asking again; aggregators take retired ones for longer."""

_MOST_REQUEST_BYTES = 1_000_000
"""What proxies take that were told nothing."""

_STATUS_SIZE = ReportId.size + 1
_MOST_CONFIG_BYTES = 2**16 + 1
_LONGEST_WAIT = 3600
_HEAD, _CIPHERTEXT_HEAD = ReportId.size + 8 + 2 + 4, 1 + 2 + 4
"""Bytes of a report beside its shares, and of each ciphertext beside its parts."""

_LATE = (ReportError.BATCH_COLLECTED, ReportError.REPORT_DROPPED, ReportError.TASK_EXPIRED)
_OUTDATED = (
    ReportError.OUTDATED_CONFIG.draft_name,
    ReportError.HPKE_UNKNOWN_CONFIG_ID.draft_name,
)
"""What a leader says, by its draft or its habit, of a report sealed to a key that it has not."""

_UNKNOWN_TASK = "unrecognizedTask"
"""A leader that is set up anew, or not yet, knows it tomorrow; the answer is there once."""

_EARLY = (ReportError.REPORT_TOO_EARLY, ReportError.TASK_NOT_STARTED)


class Reason(StrEnum):
    """Why reports still wait after a pass."""

    UNREACHABLE = "unreachable"
    BUSY = "busy"
    NOT_AN_AGGREGATOR = "not_an_aggregator"
    REPORT_TOO_EARLY = "report_too_early"
    TASK_NOT_STARTED = "task_not_started"
    UNRECOGNIZED_TASK = _UNKNOWN_TASK
    TOO_LARGE = "too_large"
    OUTDATED_CONFIG = "outdated_config"
    OUTBOX_FULL = "outbox_full"


@dataclasses.dataclass(slots=True)
class Pass:
    """What one pass over the outbox has done.

    Attributes:
        counted: Reports that the leader has.
        late: Those whose time is over.
        refused: Those that it does not take.
        waiting: Those that wait now.
        reason: Why some that were sent still wait; None if none does.
    """

    counted: int = 0
    late: int = 0
    refused: int = 0
    waiting: int = 0
    reason: Reason | None = None


@dataclasses.dataclass(slots=True, eq=False)
class _Put:
    """A measurement that is to be stored; afterwards its report's id, or why it has none."""

    measurement: Measurement = dataclasses.field(repr=False)
    claim: str | None
    key: bytes | None = None
    error: Exception | None = None


Settled = Callable[[bytes, str | None, Outcome], None]
"""Hears of a report's id, its claim and its outcome."""


class Reporter:
    """The client of one task, over an outbox that outlives it; threads may share it.

    Args:
        task: What is measured, and who aggregates it.
        outbox: Where reports wait.
        entropy: Where report ids, shares and HPKE keys come from.
        clock: What time it is.
        posting: Sends requests.
        on_settled: Called for each report, after its outcome is stored.
        floor: The least protection of a task that this client takes part in.
        max_age_seconds: How long a report may wait; then it is given up.
        reports_per_request: The most reports of one request.

    Raises:
        ParameterError: The task is below the floor.
    """

    def __init__(
        self,
        task: Task,
        outbox: Outbox,
        *,
        entropy: Entropy | None = None,
        clock: Clock | None = None,
        posting: Posting | None = None,
        on_settled: Settled = lambda _key, _claim, _outcome: None,
        floor: Floor | None = None,
        max_age_seconds: int = MAX_AGE_SECONDS,
        reports_per_request: int = REPORTS_PER_REQUEST,
    ) -> None:
        check_floor(task, floor or Floor(), "this client")
        if reports_per_request < 1:
            raise ParameterError(
                f"reports_per_request must be 1 or more, not {reports_per_request}"
            )
        self.task = task
        self.fault: Exception | None = None
        """What the last pass in the background, or `on_settled`, failed with; None if none did."""
        self._id = task.task_id.value
        self._outbox = outbox
        self._entropy = SystemEntropy() if entropy is None else entropy
        self._clock = SystemClock() if clock is None else clock
        self._owned: list[Callable[[], None]] = []
        if posting is None:
            posting = PlainPosting()
            self._owned.append(posting.close)
        self._posting = posting
        self._on_settled = on_settled
        self._max_age = max_age_seconds
        self._group = reports_per_request
        self._arriving: deque[_Put] = deque()
        self._putting, self._sending = threading.Lock(), threading.Lock()
        self._ended = threading.Event()
        self._callback_fault: Exception | None = None
        self._quiet_until = 0
        self._thread: threading.Thread | None = None

    @classmethod
    def open(cls, task_file: Path | str, outbox: Path | str) -> Self:
        """Return the client of a task file, with an outbox in a file.

        Raises:
            ParameterError, ConfigurationError, OSError: One of them cannot be used.
        """
        task = task_from_toml(Path(task_file).read_text("utf-8"))
        waiting = Outbox(outbox)
        made = cls(task, waiting)
        made._owned.append(waiting.close)
        return made

    @property
    def clock_ahead(self) -> int | None:
        """Seconds by which this machine's clock was ahead of the last answer's."""
        return self._posting.clock_ahead

    def put(self, measurement: Measurement, *, claim: str | None = None) -> bytes:
        """Make a report and store it; return its id.

        Args:
            measurement: As the task's type requires.
            claim: Of what only one report is taken, such as a person's number and a survey.

        Raises:
            ParameterError: The measurement is out of range.
            AlreadyAnswered: The claim has a report.
            OutboxFull: There is no room for it.
        """
        # Who waits for its turn is served by whoever has it: many at once cost little each.
        own = _Put(measurement, claim)
        self._arriving.append(own)
        with self._putting:
            while own.key is None and own.error is None:
                self._put_arrived()
        if own.error is not None:
            raise own.error
        assert own.key is not None  # noqa: S101  one of the two is there
        return own.key

    def put_many(
        self, measurements: Sequence[Measurement], claims: Sequence[str | None] | None = None
    ) -> list[bytes]:
        """Make and store a report of each measurement, all or none, at far less cost for each.

        Raises:
            ParameterError, AlreadyAnswered, OutboxFull: As `put`.
        """
        named = [None] * len(measurements) if claims is None else claims
        if len(named) != len(measurements):
            raise ParameterError(f"claims must be {len(measurements)}, not {len(named)}")
        now = self._clock.now()
        prepared = prepare_reports(self.task, measurements, self.task.time(now), self._entropy)
        unsealed = bytes(self._report_size)
        self._outbox.add(
            [
                Record(
                    key=each.metadata.report_id.value,
                    task=self._id,
                    claim=claim,
                    created=now,
                    time=each.metadata.time.units,
                    public_share=each.public_share,
                    leader_share=each.leader_input_share,
                    helper_share=each.helper_input_share,
                    sealed_to=None,
                    body=unsealed,
                )
                for each, claim in zip(prepared, named, strict=True)
            ]
        )
        return [each.metadata.report_id.value for each in prepared]

    def claimed(self, claim: str) -> Outcome | None:
        """Return what became of a claim; None if it has no report."""
        return self._outbox.claimed(self._id, claim)

    def waiting(self) -> int:
        """Return how many reports wait."""
        return self._outbox.waiting(self._id)

    def flush(self, *, now: bool = False) -> Pass:
        """Send what is due, in groups.

        Args:
            now: Also what would wait for longer.
        """
        with self._sending:
            done = Pass()
            started = self._clock.now()
            old = self._outbox.expire(
                self._id, started - self._max_age, Outcome(State.LATE, "too_old")
            )
            self._callback_fault = None
            self._tell([(record, Outcome(State.LATE, "too_old")) for record in old], done)
            seen: set[bytes] = set()
            answered: set[bytes] = set()
            while records := self._turn(None if now else started, seen):
                seen |= {record.key for record in records}
                try:
                    self._send(records, done, answered)
                except Later as later:
                    done.reason = Reason(later.reason)
                    left = [record for record in records if record.key not in answered]
                    # The rest would fare no better.
                    self._quiet_until = self._postpone(left, later.wait)
                    break
                except OutboxFull:
                    done.reason = Reason.OUTBOX_FULL
                    break
            done.waiting = self.waiting()
            return done

    async def aput(self, measurement: Measurement, *, claim: str | None = None) -> bytes:
        """`put`, in a thread."""
        from anyio.to_thread import run_sync

        return await run_sync(lambda: self.put(measurement, claim=claim))

    async def aflush(self, *, now: bool = False) -> Pass:
        """`flush`, in a thread."""
        from anyio.to_thread import run_sync

        return await run_sync(lambda: self.flush(now=now))

    def start(self, seconds: float = 1.0) -> None:
        """Send from now on in a thread of its own, looking every so many seconds."""
        if self._thread is None:
            self._ended.clear()
            self._thread = threading.Thread(target=self._run, args=(seconds,), daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Send no more; what waits stays in the outbox."""
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

    def _put_arrived(self) -> None:
        """Store what arrived, in one group, or each alone if one of them cannot be stored."""
        group: list[_Put] = []
        while self._arriving and len(group) < self._group:
            group.append(self._arriving.popleft())
        try:
            keys = self.put_many([each.measurement for each in group], [e.claim for e in group])
        except Exception as error:  # noqa: BLE001  whatever it is, its caller hears of it
            if len(group) == 1:
                group[0].error = error
                return
            for each in group:
                try:
                    [each.key] = self.put_many([each.measurement], [each.claim])
                except Exception as its_own:  # noqa: BLE001  so with each
                    each.error = its_own
            return
        for each, key in zip(group, keys, strict=True):
            each.key = key

    def _run(self, seconds: float) -> None:
        while not self._ended.wait(seconds):
            try:
                due = self._outbox.next_due(self._id)
                if due is not None and max(due, self._quiet_until) <= self._clock.now():
                    self._quiet_until = 0
                    self.flush()
                self.fault = self._callback_fault
            except Exception as error:  # noqa: BLE001  such as a disk that is gone: it may come back
                self.fault = error

    def _turn(self, now: int | None, seen: set[bytes]) -> list[Record]:
        most = min(self._group, max(1, _MOST_REQUEST_BYTES // self._report_size))
        records = self._outbox.due(self._id, now, most + len(seen))
        return [record for record in records if record.key not in seen][:most]

    def _send(self, records: Sequence[Record], done: Pass, answered: set[bytes]) -> None:
        """Send some reports, seal those again that were sealed to keys that have gone, settle."""
        # Not before they are sent: keys of today, however long a report has waited.
        unsealed = [record for record in records if record.sealed_to is None]
        sealed = [record for record in records if record.sealed_to is not None]
        if unsealed:
            sealed += self._seal(unsealed, self._keys())
        outdated = self._conclude_all(sealed, done, answered)
        if not outdated:
            return
        fresh = self._fetched_keys()
        # A leader that calls the keys outdated which it hands out contradicts itself. Other bytes
        # for it would be worth nothing to us, and another report could be counted twice.
        stuck = [record for record in outdated if record.sealed_to == fresh]
        again = self._seal([r for r in outdated if r.sealed_to != fresh], fresh)
        stuck += self._conclude_all(again, done, answered)
        if stuck:
            answered |= {record.key for record in stuck}
            done.reason = Reason.OUTDATED_CONFIG
            self._postpone(stuck, _LONGEST_WAIT)

    def _conclude_all(
        self, records: Sequence[Record], done: Pass, answered: set[bytes]
    ) -> list[Record]:
        """Send, conclude each answer before the next request; return those with old keys."""
        outdated = []
        for sent, errors in self._post(records):
            gone = [record for record in sent if errors.get(record.key) in _OUTDATED]
            concluded = [record for record in sent if record not in gone]
            self._conclude(concluded, errors, done)
            answered |= {record.key for record in concluded}
            outdated += gone
        return outdated

    def _conclude(self, records: Sequence[Record], errors: dict[bytes, str], done: Pass) -> None:
        outcomes, early = [], []
        for record in records:
            error = errors.get(record.key)
            if error is None or error == ReportError.REPORT_REPLAYED.draft_name:
                outcomes.append((record, Outcome(State.COUNTED)))
            elif error in {each.draft_name for each in _LATE}:
                outcomes.append((record, Outcome(State.LATE, error)))
            elif error in {each.draft_name for each in _EARLY}:
                done.reason = Reason(error)
                early.append(record)
            else:
                outcomes.append((record, Outcome(State.REFUSED, error)))
        self._outbox.settle(outcomes)
        self._postpone(early, 60)
        self._tell(outcomes, done)

    def _tell(self, outcomes: Sequence[tuple[Record, Outcome]], done: Pass) -> None:
        for record, outcome in outcomes:
            done.counted += outcome.state is State.COUNTED
            done.late += outcome.state is State.LATE
            done.refused += outcome.state is State.REFUSED
            try:
                self._on_settled(record.key, record.claim, outcome)
            except Exception as error:  # noqa: BLE001  the application's: the others are told too
                self._callback_fault = error

    def _postpone(self, records: Sequence[Record], wait: int) -> int:
        """Try again in 2, 4, 8 ... seconds, an hour at most, or as the leader says; return when."""
        now = self._clock.now()
        due = [
            now + max(min(2 ** min(r.attempts + 1, 12), _LONGEST_WAIT), min(wait, DAY))
            for r in records
        ]
        self._outbox.postpone(records, due)
        return min(due, default=now)

    def _post(
        self, records: Sequence[Record]
    ) -> Iterator[tuple[Sequence[Record], dict[bytes, str]]]:
        """Send reports; yield for each request why each was refused that was.

        A request that is refused whole says nothing of each report, so each goes alone; one that
        is too large goes in halves.
        """
        if not records:
            return
        base = self.task.configuration.leader_aggregator_endpoint
        try:
            answer = self._posting.post(
                _url(base, path("reports", task_id=self.task.task_id)),
                UploadRequest.message,
                b"".join(record.body for record in records),
                UploadErrors.message,
                len(records) * _STATUS_SIZE,
            )
            statuses = decode(UploadErrors, answer).status
        except DecodeError as error:
            raise Later("not_an_aggregator") from error
        except TooLarge as error:
            if len(records) == 1:
                raise Later("too_large", _LONGEST_WAIT) from error
            size = -(-len(records) // 2)
            self._group = min(self._group, len(records) // 2)
        except Refused as refused:
            if refused.reason == _UNKNOWN_TASK:
                raise Later(_UNKNOWN_TASK, 60) from refused
            if len(records) == 1:
                yield records, {records[0].key: refused.reason}
                return
            size = 1
        else:
            named = self.task.profile.report_error
            yield records, {each.id.value: named(each.error).draft_name for each in statuses}
            return
        for start in range(0, len(records), size):
            yield from self._post(records[start : start + size])

    def _keys(self) -> bytes:
        keys = self._outbox.keys(self._id, self._clock.now() - KEYS_SECONDS)
        return self._fetched_keys() if keys is None else keys

    def _fetched_keys(self) -> bytes:
        """Fetch both aggregators' preferred configurations, and keep them."""
        configuration = self.task.configuration
        found = []
        for base in (
            configuration.leader_aggregator_endpoint,
            configuration.helper_aggregator_endpoint,
        ):
            try:
                answer = self._posting.get(
                    _url(base, path("hpke_config")), HpkeConfigList.message, _MOST_CONFIG_BYTES
                )
                config = decode(HpkeConfigList, answer).preferred()
                seal(config, b"", b"", b"", self._entropy)  # not any 32 bytes are a key
                found.append(encode(config))
            except (DecodeError, ParameterError, Refused, TooLarge) as error:
                raise Later("not_an_aggregator") from error
        keys = b"".join(found)
        self._outbox.put_keys(self._id, keys, self._clock.now())
        return keys

    def _seal(self, records: Sequence[Record], keys: bytes) -> list[Record]:
        """Seal records and store them, before they can be sent; return those that still wait."""
        bodies = []
        for record in records:
            prepared = PreparedReport(
                ReportMetadata(ReportId(record.key), Time(record.time)),
                record.public_share,
                record.leader_share,
                record.helper_share,
            )
            bodies.append(self._sealed(prepared, keys))
        return self._outbox.seal(records, keys, bodies)

    def _sealed(self, prepared: PreparedReport, keys: bytes) -> bytes:
        half = len(keys) // 2
        leader, helper = (decode(HpkeConfig, each) for each in (keys[:half], keys[half:]))
        return encode(seal_report(self.task, prepared, leader, helper, self._entropy))

    @property
    def _report_size(self) -> int:
        """Bytes of a sealed report; they are taken at once, so that sealing needs no more room."""
        sizes = report_sizes(self.task)
        ciphertexts = (
            2 * (_CIPHERTEXT_HEAD + sizes.enc) + sizes.leader_payload + sizes.helper_payload
        )
        return _HEAD + sizes.public_share + ciphertexts


def _url(base: str, resource: str) -> str:
    return base.removesuffix("/") + resource
