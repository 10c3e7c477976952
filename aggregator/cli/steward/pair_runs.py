"""Runs an audit of a running pair: uploads reports that we know, and collects them.

Everything is in one folder: the task's files, and in `audit.json` the windows of each audit.
Reports are made from a window's seed, so they can be made again: to repeat an interrupted upload,
which changes nothing, and to compute both un-noised aggregate shares. Results are kept in the
folder as well, so a repeated command continues where the last one ended.
"""

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Self

import anyio
import httpx
import numpy as np
from typing_extensions import override

from aggregator.cli.files import read_task
from aggregator.client import Outbox, Reporter, UploadError, bulk
from aggregator.client.sender import Sender
from aggregator.collector.collect import TaskCollector
from aggregator.collector.results.result import open_agg_shares
from aggregator.dap.hpke import HpkeKeypair
from aggregator.dap.messages import CollectionJobReq, CollectionJobResp, TimeIntervalQuery
from aggregator.dap.profile import Role
from aggregator.dap.times import Interval
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ParameterError, PeerError
from aggregator.protocol.provisioning import read_provision
from aggregator.protocol.reports import prepare_reports
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from aggregator.service.config import read_text
from aggregator.steward.audit.noise_table import LARGEST, Integers
from aggregator.steward.audit.pair_audit import Mistake, Releases
from aggregator.vdaf.circuits import Circuit, Histogram
from aggregator.vdaf.circuits.measurements import Measurement
from field import Vector, lift

STATE = "audit.json"
_STATE_VERSION = 1
LARGEST_UPLOAD = 2**25
"""The most bytes of the leader's shares of one window, which are sent in one request."""

_SEED_SIZE = 32
_PARTIES = ("leader", "helper")


class AuditError(PeerError):
    """An aggregator's answer leaves nothing to test."""


@dataclasses.dataclass(frozen=True, slots=True)
class Released:
    """What was collected of a window: for each bucket, the noise of leader, helper and result.

    `report_count` is what the leader says. `mistakes` are reports that a share does not hold
    exactly once.
    """

    noise: tuple[list[int], list[int], list[int]]
    report_count: int
    mistakes: tuple[Mistake, ...]


@dataclasses.dataclass(slots=True)
class Window:
    """One unit of the task's time, and its reports, which are made from a seed."""

    unit: int
    reports: int
    seed: bytes
    released: Released | None = None

    @property
    def interval(self) -> Interval:
        """The interval that is collected."""
        return Interval.of(self.unit, 1)

    def measurements(self, circuit: Circuit) -> list[Measurement]:
        """Return each report's measurement: a bucket, or one of the two furthest measurements."""
        entropy = ReplayedEntropy(self.seed + b"measurements")
        draws = [int.from_bytes(entropy.bytes(16)) for _ in range(self.reports)]
        if isinstance(circuit, Histogram):
            return [draw % circuit.output_len for draw in draws]
        furthest = circuit.furthest_measurements()
        return [furthest[draw % 2] for draw in draws]


class ReplayedEntropy(Entropy):
    """Entropy replayed from a seed, for reports about nobody: SHAKE-256 of seed and counter."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._calls = 0

    @override
    def bytes(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        self._calls += 1
        return hashlib.shake_256(self._seed + self._calls.to_bytes(8)).digest(size)


@dataclasses.dataclass(slots=True)
class PairAudit:
    """An audit in its folder: the task, made for the purpose, and the windows of each audit.

    The last audit may be under way.
    """

    folder: Path
    task: Task
    token: str = dataclasses.field(repr=False)
    audits: list[list[Window]]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read an audit's folder, or raise `ParameterError`."""
        task = read_task(folder / "task.toml")
        text = read_text(folder / "collector.toml")
        token = read_provision(text, Role.COLLECTOR).secrets.collector_token
        state = folder / STATE
        try:
            audits = _read_state(read_text(state)) if state.exists() else []
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ParameterError(
                f"{state}: not version {_STATE_VERSION} of an audit's state; name another folder"
            ) from None
        return cls(folder, task, str(token), audits)

    def begin(self, windows: int, reports: int, now: int, *, anew: bool = False) -> list[Window]:
        """Return the windows of the audit under way, or new ones: the latest that have ended.

        With `anew`, the one under way is abandoned. Times are seconds since the epoch. Raises
        `ParameterError` if the reports of a window are too few or too many.
        """
        last = self.audits[-1] if self.audits and not anew else []
        if any(window.released is None for window in last):
            return last
        if not self.task.min_batch_size <= reports <= self.task.max_reports:
            raise ParameterError(
                f"reports: must be from {self.task.min_batch_size} to {self.task.max_reports}, "
                f"the task's min_batch_size and max_reports, not {reports}"
            )
        size = self.task.prio3.input_share_size(0)
        if reports * size > LARGEST_UPLOAD:
            raise ParameterError(
                f"reports: {LARGEST_UPLOAD // size} of this length go in one request, not {reports}"
            )
        used = {window.unit for audit in self.audits for window in audit}
        unit, units = self.task.time(now).units - 1, list[int]()
        while len(units) < windows:
            if unit not in used:
                units.append(unit)
            unit -= 1
        entropy = SystemEntropy()
        self.audits.append(
            [Window(each, reports, entropy.bytes(_SEED_SIZE)) for each in reversed(units)]
        )
        self.save()
        return self.audits[-1]

    def last(self) -> list[Window]:
        """Return the windows of the last audit that was completed, or raise `ParameterError`."""
        for audit in reversed(self.audits):
            if all(window.released is not None for window in audit):
                return audit
        raise ParameterError("last: no audit in the folder has ended")

    async def run(
        self,
        windows: list[Window],
        keypair: HpkeKeypair,
        http: httpx.AsyncClient,
        sender: Sender,
        timeout_seconds: float,
        progress: Callable[[], None],
    ) -> None:
        """Upload the reports of all windows with `sender`, and collect each with `http`.

        `progress` is called after each step.

        Raises `PeerError` if an aggregator could not be reached, refused, or was not ready in time;
        `UploadError` if the leader takes no reports of the task.
        The work done so far is kept.
        """
        missing = [window for window in windows if window.released is None]
        for window in missing:
            await anyio.to_thread.run_sync(self._upload, window, sender)
            progress()
        collector = TaskCollector(self.task, keypair, self.token, http)

        async def collect(window: Window) -> None:
            request = CollectionJobReq(TimeIntervalQuery(window.interval))
            sealed = await collector.collect_sealed(request, timeout_seconds)
            window.released = await anyio.to_thread.run_sync(self._open, window, keypair, sealed)
            self.save()
            progress()

        async with anyio.create_task_group() as group:
            for window in missing:
                group.start_soon(collect, window)

    def save(self) -> None:
        """Write the state, completely or not at all."""
        draft = self.folder / f"{STATE}.new"
        audits = [[_to_document(window) for window in audit] for audit in self.audits]
        draft.write_text(
            json.dumps({"version": _STATE_VERSION, "audits": audits}), encoding="utf-8"
        )
        draft.replace(self.folder / STATE)

    def _upload(self, window: Window, sender: Sender) -> None:
        measurements = window.measurements(self.task.prio3.circuit)
        no_requirements = Requirements(
            any_epsilon=True, max_delta=None
        )  # the measurements are about nobody
        seconds = window.unit * self.task.time_precision
        with closing(Outbox(None)) as outbox:
            entropy = ReplayedEntropy(window.seed)
            reporter = Reporter(
                self.task, outbox, entropy=entropy, sender=sender, requirements=no_requirements
            )
            reporter.put_many(measurements, seconds=seconds)  # made at once, as `_out_shares` does
            found = bulk.upload(reporter, outbox, ())
        if found.reason is not None:
            is_away = found.reason in bulk.PASSING
            raise (PeerError if is_away else UploadError)(f"the leader: {found.reason}")
        _, refused = bulk.told_apart(found.of(self.task.task_id.value))
        refused += Counter(found.declined.values())
        for reason, count in refused.items():
            raise AuditError(f"the leader refused {count} reports: {reason}")

    def _open(self, window: Window, keypair: HpkeKeypair, sealed: CollectionJobResp) -> Released:
        request = CollectionJobReq(TimeIntervalQuery(window.interval))
        opened = open_agg_shares(self.task, keypair, request, sealed)
        noise, mistakes = list[Vector](), list[Mistake]()
        for party, share, known in zip(_PARTIES, opened, self._out_shares(window), strict=True):
            rest = share - self.task.prio3.agg_update(self.task.prio3.agg_init(), known)
            found = _mistake(rest, known)
            if found is not None:
                index, times, rest = found
                what = "not at all" if times == 0 else f"{times} times"
                text = f"report {index + 1} of unit {window.unit} is {what} in the {party}'s share"
                mistakes.append(Mistake(party, text))
            noise.append(rest)
        leader, helper = noise
        series = (lift(leader), lift(helper), lift(leader + helper))
        return Released(series, sealed.report_count, tuple(mistakes))

    def _out_shares(self, window: Window) -> list[Vector]:
        """Return both aggregators' out shares of a window's reports, shape (reports, buckets)."""
        prio3 = self.task.prio3
        measurements = window.measurements(prio3.circuit)
        time = Interval.of(window.unit, 1).start
        prepared = prepare_reports(self.task, measurements, time, ReplayedEntropy(window.seed))
        nonces = [each.metadata.report_id.value for each in prepared]
        public_shares = [each.public_share for each in prepared]
        input_shares = (
            [each.leader_input_share for each in prepared],
            [each.helper_input_share for each in prepared],
        )
        # Out shares do not depend on the verification key, which is the aggregators' secret.
        verify_key = bytes(prio3.verify_key_size)
        return [
            prio3.verify_init(
                verify_key, self.task.ctx, agg_id, nonces, public_shares, shares
            ).state.out_shares
            for agg_id, shares in enumerate(input_shares)
        ]


def releases_of(windows: list[Window]) -> Releases:
    """Return the results of windows, or raise `ParameterError`."""
    released = [window.released for window in windows if window.released is not None]
    if len(released) != len(windows):
        raise ParameterError("audit: a window was not collected; run this without --last")
    leader, helper, total = (
        _clipped([each.noise[series] for each in released]) for series in range(3)
    )
    return Releases(
        leader,
        helper,
        total,
        tuple(each.report_count for each in released),
        tuple(window.reports for window in windows),
        tuple(mistake for each in released for mistake in each.mistakes),
    )


def _mistake(rest: Vector, out_shares: Vector) -> tuple[int, int, Vector] | None:
    """Return the report that is missing from a share or in it twice, if any.

    `rest` is the share minus the sum of the out shares, which have a row for each report.
    Returns the report's index, how often the share holds it, and the share's noise; None if the
    share holds each report once, or if no single report explains the difference.
    """
    if _is_noise(rest):
        return None
    for index in range(out_shares.shape[0]):
        row = out_shares[index]
        for times, noise in ((0, rest + row), (2, rest - row)):
            if _is_noise(noise):
                return index, times, noise
    return None


def _is_noise(rest: Vector) -> bool:
    """Return whether most numbers are small; residues that look random have no small ones."""
    numbers = lift(rest)
    return 2 * sum(abs(number) < LARGEST for number in numbers) > len(numbers)


def _clipped(rows: list[list[int]]) -> Integers:
    return np.array([[max(-LARGEST, min(LARGEST, x)) for x in row] for row in rows], np.int64)


def _to_document(window: Window) -> dict[str, object]:
    released = None if window.released is None else dataclasses.asdict(window.released)
    return {
        "unit": window.unit,
        "reports": window.reports,
        "seed": window.seed.hex(),
        "released": released,
    }


def _read_state(text: str) -> list[list[Window]]:
    document = json.loads(text)
    if document["version"] != _STATE_VERSION:
        raise ValueError(document["version"])
    return [[_from_document(window) for window in audit] for audit in document["audits"]]


def _from_document(document: dict[str, object]) -> Window:
    window = Window(
        int(str(document["unit"])),
        int(str(document["reports"])),
        bytes.fromhex(str(document["seed"])),
    )
    released = document["released"]
    if isinstance(released, dict):
        leader, helper, total = released["noise"]
        mistakes = tuple(Mistake(**each) for each in released["mistakes"])
        window.released = Released((leader, helper, total), released["report_count"], mistakes)
    return window
