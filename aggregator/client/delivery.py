"""One pass over an outbox: seals reports that are due, sends them, and settles those answered.

Only `outdated_config` may change the bytes of a report, and only if the aggregators' keys have
changed: then the same shares are sealed again, under the same id. So neither a lost answer, nor a
restart, nor a leader that lies about its keys counts anybody twice.
"""

import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from aggregator.client.outbox import Outbox, OutboxFull
from aggregator.client.passes import Pass, Reason, Settled, Settling, Turn
from aggregator.client.records import Outcome, Record, State
from aggregator.client.sender import Later, Refused, Sender, TooLarge
from aggregator.client.verdicts import (
    UNKNOWN_TASK,
    Verdict,
    declined,
    given_up,
    outcome_of,
    verdict_of,
)
from aggregator.clock import Clock
from aggregator.codec import DecodeError, Reader, decode, encode
from aggregator.dap.hpke import HpkeConfig, HpkeConfigList, seal
from aggregator.dap.hpke_suites import ENC_SIZES
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import ReportMetadata, UploadErrors, UploadRequest
from aggregator.dap.resources import path
from aggregator.dap.times import DAY, Time
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.protocol.permits import extensions_signed
from aggregator.protocol.reports import PreparedReport, report_sizes, seal_reports
from aggregator.protocol.task import Task

KEYS_SECONDS = DAY
"""How long keys are used before they are fetched again; aggregators take retired ones longer."""

_MOST_REQUEST_BYTES = 1_000_000
"""What proxies accept by default."""

_STATUS_SIZE = ReportId.size + 1
_MOST_CONFIG = 9 + max(ENC_SIZES)  # bytes of an encoded configuration
_ROW_HEADER = 4  # by how much what a row says of its fields' sizes may grow
_MOST_CONFIG_BYTES = 2**16 + 1
_LONGEST_WAIT = 3600
_EARLY_WAIT = 60


_Posted = Generator[tuple[Sequence[Record], dict[bytes, str]], None, bool]
"""Reports of each request and why some were refused; and whether the leader took any request."""


class Delivery:
    """Sends the reports of one task from an outbox; threads may share it.

        on_settled: Called for each report, after its outcome is stored.
        keys_of: The id of the task whose stored keys these reports are sealed to; it has the same
            aggregators. This task's by default.

    Attributes:
        group: How many reports go in one request now: fewer after one that was too large.
        quiet_until: When the next pass may send again, after one that could not go on.
        callback_fault: What `on_settled` raised in the last pass; None if nothing.
    """

    def __init__(
        self,
        task: Task,
        outbox: Outbox,
        entropy: Entropy,
        clock: Clock,
        sender: Sender,
        on_settled: Settled,
        max_age_seconds: int,
        group: int,
        keys_of: bytes | None = None,
    ) -> None:
        self.task = task
        self.group = group
        self.quiet_until = 0
        self.callback_fault: Exception | None = None
        self._id = task.task_id.value
        self._keys_of = self._id if keys_of is None else keys_of
        self._outbox = outbox
        self._entropy, self._clock, self._sender = entropy, clock, sender
        self._on_settled = on_settled
        self._max_age = max_age_seconds
        self._passing = threading.Lock()
        self._fetched: dict[str, bytes] = {}

    def flush(self, *, now: bool) -> Pass:
        """Send what is due, in groups, or with `now` everything."""
        with self._passing:
            done = Pass()
            settling = Settling(self._outbox, at_once=True)
            self.callback_fault = None
            # What a pass postpones may be due again before its end: it is not sent twice.
            keys = self._outbox.due_keys(self._id, None if now else self._clock.now())
            while keys and not done.is_cut:
                most = self._most
                if records := self._outbox.records(keys[:most]):
                    self._send_or_postpone(records, Turn(done, settling))
                keys = keys[most:]
            done.waiting = self._outbox.waiting(self._id)
            return done

    def deliver(self, records: Sequence[Record], settling: Settling) -> Pass:
        """Send records that were stored just now; the caller settles them."""
        with self._passing:
            done, most = Pass(), self._most
            self.callback_fault = None
            for start in range(0, len(records), most):
                self._send_or_postpone(records[start : start + most], Turn(done, settling))
                if done.is_cut:
                    break
            return done

    def _send_or_postpone(self, records: Sequence[Record], turn: Turn) -> None:
        done = turn.done
        try:
            self._send(records, turn)
        except Later as later:
            done.reason, done.is_cut = _named(later.reason), True
            left = [record for record in records if record.key not in turn.answered]
            # The rest would fare no better.
            self.quiet_until = self._postpone(left, later.wait)
        except OutboxFull:
            done.reason, done.is_cut = Reason.OUTBOX_FULL, True

    @property
    def _most(self) -> int:
        """How many reports one request carries now."""
        return min(self.group, max(1, _MOST_REQUEST_BYTES // room_of(self.task)))

    def _send(self, records: Sequence[Record], turn: Turn) -> None:
        """Send some reports, reseal those whose keys have gone, and settle."""
        # Reports are sealed only when they are sent, so to today's keys however long they waited.
        unsealed = [record for record in records if record.sealed_to is None]
        sealed = [record for record in records if record.sealed_to is not None]
        if unsealed:
            sealed += self._seal(unsealed, self._keys())
        outdated = self._conclude_all(sealed, turn)
        if not outdated:
            return
        fresh = self._fetched_keys()
        # A leader that calls the very keys it hands out outdated contradicts itself. Sealing
        # again would not help, and a second report could be counted twice.
        stuck = [record for record in outdated if record.sealed_to == fresh]
        again = self._seal([r for r in outdated if r.sealed_to != fresh], fresh)
        stuck += self._conclude_all(again, turn)
        if stuck:
            self._conclude(stuck, {each.key: Reason.OUTDATED_CONFIG for each in stuck}, turn)

    def _conclude_all(self, records: Sequence[Record], turn: Turn) -> list[Record]:
        """Send, conclude each answer before the next request; return those with old keys."""
        outdated = []
        for sent, errors in self._post(records):
            said = {record.key: verdict_of(errors.get(record.key, "")) for record in sent}
            gone = [record for record in sent if said[record.key] is Verdict.OUTDATED]
            concluded = [record for record in sent if said[record.key] is not Verdict.OUTDATED]
            self._conclude(concluded, errors, turn)
            outdated += gone
        return outdated

    def _conclude(self, records: Sequence[Record], errors: Mapping[bytes, str], turn: Turn) -> None:
        """Settle what the leader decided or declined on several days; let the rest wait."""
        done = turn.done
        turn.answered.update(record.key for record in records)
        now, ahead = self._clock.now(), self._sender.clock_ahead
        outcomes, waits = [], dict[int, list[Record]]()
        for record in records:
            error = errors.get(record.key, "")
            again = declined(record, now)
            outcome = outcome_of(error) or given_up(again, error, now, self._max_age, ahead)
            if outcome is not None:
                outcomes.append((record, outcome))
            else:
                done.reason = done.declined[record.key] = _named(error)
                is_early = verdict_of(error) is Verdict.EARLY
                waits.setdefault(_EARLY_WAIT if is_early else _LONGEST_WAIT, []).append(again)
        turn.settling.add(outcomes, lambda: self._tell(outcomes, done))
        for wait, left in waits.items():
            self._postpone(left, wait)

    def _tell(self, outcomes: Sequence[tuple[Record, Outcome]], done: Pass) -> None:
        for record, outcome in outcomes:
            done.outcomes[self._id, outcome] += 1
            done.counted += outcome.state is State.COUNTED
            done.late += outcome.state is State.LATE
            done.refused += outcome.state is State.REFUSED
            try:
                self._on_settled(record.key, record.claim, outcome)
            except Exception as error:  # noqa: BLE001  the application's: the others are told too
                self.callback_fault = error

    def _postpone(self, records: Sequence[Record], wait: int) -> int:
        """Retry in 2, 4, 8 ... seconds, an hour at most, or when the leader says; return when."""
        now, least = self._clock.now(), min(wait, DAY)
        due = [
            now + max(min(2 ** min(each.attempts + 1, 12), _LONGEST_WAIT), least)
            for each in records
        ]
        self._outbox.postpone(
            [replace(each, due=when) for each, when in zip(records, due, strict=True)]
        )
        return min(due, default=now + least)

    def _post(self, records: Sequence[Record]) -> _Posted:
        """Send reports; yield for each request the reasons of those refused.

        If a request is refused as a whole, the fault may be in one report, so each is sent alone; a
        request that is too large is sent in halves. Returns whether the leader took any request.
        """
        if not records:
            return True
        base = self.task.configuration.leader_aggregator_endpoint
        try:
            answer = self._sender.post(
                _url(base, path("reports", task_id=self.task.task_id)),
                UploadRequest.message,
                b"".join(self._sent(record) for record in records),
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
            self.group = min(self.group, len(records) // 2)
        except Refused as refused:
            if refused.reason == UNKNOWN_TASK or len(records) == 1:
                yield records, {record.key: refused.reason for record in records}
                if refused.reason == UNKNOWN_TASK:
                    raise Later(UNKNOWN_TASK, _EARLY_WAIT) from refused
                return False
            if not (yield from self._post_each([[record] for record in records])):
                # The fault is in none of them, and the rest would fare no better.
                raise Later(refused.reason, _LONGEST_WAIT) from refused
            return True
        else:
            named = self.task.profile.report_error
            yield records, {each.id.value: named(each.error).draft_name for each in statuses}
            return True
        return (yield from self._post_each([records[:size], records[size:]]))

    def _post_each(self, parts: Sequence[Sequence[Record]]) -> _Posted:
        is_any_taken = False
        for part in parts:
            is_any_taken |= yield from self._post(part)
        return is_any_taken

    def _keys(self) -> bytes:
        keys = self._outbox.keys(self._keys_of, self._clock.now() - KEYS_SECONDS)
        return self._fetched_keys() if keys is None else keys

    def _fetched_keys(self) -> bytes:
        """Fetch both aggregators' preferred configurations, and keep them."""
        configuration = self.task.configuration
        endpoints = (
            configuration.leader_aggregator_endpoint,
            configuration.helper_aggregator_endpoint,
        )
        found = self._fetched
        for endpoint in endpoints:
            if endpoint not in found:
                found = {**found, endpoint: self._fetched_config(endpoint)}
                self._fetched = found  # or if one is away, both would have to answer in a row
        self._fetched = {}
        keys = b"".join(found[endpoint] for endpoint in endpoints)
        self._outbox.put_keys(self._keys_of, keys, self._clock.now())
        return keys

    def _fetched_config(self, endpoint: str) -> bytes:
        url = _url(endpoint, path("hpke_config"))
        try:
            answer = self._sender.get(url, HpkeConfigList.message, _MOST_CONFIG_BYTES)
            config = decode(HpkeConfigList, answer).preferred()
            seal(config, b"", b"", b"", self._entropy)  # not every 32 bytes are a key
            return encode(config)
        except (DecodeError, ParameterError, Refused, TooLarge) as error:
            raise Later("not_an_aggregator") from error

    def sealed(self, records: Sequence[Record]) -> list[Record]:
        """Return unsealed records, which are stored nowhere yet, sealed to keys of the day.

        Raises `Later` if an aggregator does not give its keys now.
        """
        keys = self._keys()
        bodies = self._bodies(records, keys)
        return [
            replace(record, sealed_to=keys, body=body)
            for record, body in zip(records, bodies, strict=True)
        ]

    def _seal(self, records: Sequence[Record], keys: bytes) -> list[Record]:
        """Seal records and store them, before they can be sent; return those that still wait."""
        return self._outbox.seal(records, keys, self._bodies(records, keys))

    def _bodies(self, records: Sequence[Record], keys: bytes) -> list[bytes]:
        """Return the reports of records, sealed, with the padding that keeps their room."""
        prepared = [
            PreparedReport(
                ReportMetadata(
                    ReportId(record.key), Time(record.time), extensions_signed(record.signature)
                ),
                record.public_share,
                record.leader_share,
                record.helper_share,
                record.opening,
            )
            for record in records
        ]
        sealed = seal_reports(self.task, prepared, *_configs(keys), self._entropy)
        bodies = []
        for record, report in zip(records, sealed, strict=True):
            room = len(record.body) - _ROW_HEADER
            if record.sealed_to is not None:
                room = len(record.body) + len(record.sealed_to)
            bodies.append(encode(report).ljust(room - len(keys), b"\0"))
        return bodies

    def _sent(self, record: Record) -> bytes:
        """Return the report of a sealed record, without the padding."""
        encs = (len(config.public_key) for config in _configs(record.sealed_to or b""))
        return record.body[: report_sizes(self.task).report_of(*encs)]


def _named(reason: str) -> str:
    """Return a reason as a `Reason`, if it is one."""
    return next((each for each in Reason if each == reason), reason)


def room_of(task: Task) -> int:
    """Return the most bytes of a sealed report and the configurations it is sealed to.

    They are reserved when a report is put, so that sealing needs no more room in a full outbox.
    """
    return report_sizes(task).report + 2 * _MOST_CONFIG + _ROW_HEADER


@lru_cache(maxsize=16)
def _configs(keys: bytes) -> tuple[HpkeConfig, HpkeConfig]:
    """Return the leader's and the helper's configuration, which `keys` holds in that order."""
    reader = Reader(keys)
    return HpkeConfig.read(reader), HpkeConfig.read(reader)


def _url(base: str, resource: str) -> str:
    return base.removesuffix("/") + resource
