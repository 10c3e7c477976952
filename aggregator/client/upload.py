"""Uploads measurements: fetches both HPKE configurations, shards, seals and sends reports.

Source: DAP, "HPKE Configuration Request", "Uploading Reports" and "Client Behavior".
"""

import dataclasses
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing
from contextvars import copy_context
from datetime import datetime
from typing import TypeAlias

import anyio.to_thread
import httpx

from aggregator.client.contributions import Contributions
from aggregator.client.sender import REPORTS_PER_REQUEST
from aggregator.client.verdicts import Verdict, verdict_of
from aggregator.clock import Clock, SystemClock
from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.hpke import HpkeConfig, HpkeConfigList
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import UploadErrors, UploadRequest
from aggregator.dap.report_errors import AnyReportError
from aggregator.dap.resources import media_type, path
from aggregator.dap.times import Time
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ParameterError, PeerError
from aggregator.protocol.groups import check_kept
from aggregator.protocol.reports import PreparedReport, prepare_reports, seal_report
from aggregator.protocol.requirements import Floor, check_floor
from aggregator.protocol.task import Task
from aggregator.service.transport.peer import Peer
from aggregator.vdaf.circuits.measurements import Measurement

_STATUS_SIZE = ReportId.size + 1
"""Bytes of an answer per refused report."""

UPLOAD_ATTEMPTS = 8
"""How often one request of reports is sent, within half a minute. Giving up midway is costly: the
rest cannot be uploaded without knowing which measurements are settled."""

UPLOAD_SECONDS = 300.0
"""How long all these attempts may take."""


class UploadError(PeerError):
    """An aggregator answered with something that a client cannot use."""


@dataclasses.dataclass(frozen=True, slots=True)
class UploadSummary:
    """The outcome of an upload: how many reports the leader has, and refused, by reason."""

    accepted: int
    refused: Mapping[AnyReportError, int]

    @property
    def total(self) -> int:
        """How many reports were sent."""
        return self.accepted + sum(self.refused.values())


_Configs: TypeAlias = tuple[HpkeConfig, HpkeConfig]
"""The leader's and the helper's."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Request:
    """Reports, and one body of them sealed to both configurations."""

    reports: Sequence[PreparedReport]
    configs: _Configs
    body: bytes


class Client:
    """Uploads measurements of one task.

    Args:
        task: What is measured, and who aggregates it.
        http: Sends the requests.
        entropy: Where report ids, shares and HPKE keys come from.
        clock: What time a report is of.
        contributions: Counts the reports of the one person whose measurements these are, and
            enforces the task's bounds; None if the caller does, or if each measurement is of a
            different person.
        floor: The least protection of the tasks that the client takes part in.
        keeps_places: Whether the caller keeps each person to one place of the task's group.

    Raises:
        ParameterError: The task is below the floor, or in a group and nothing keeps people to one
            place of it; nothing is sent.
    """

    def __init__(
        self,
        task: Task,
        http: httpx.AsyncClient,
        entropy: Entropy | None = None,
        clock: Clock | None = None,
        *,
        contributions: Contributions | None = None,
        floor: Floor | None = None,
        keeps_places: bool = False,
    ) -> None:
        check_floor(task, floor or Floor(), "this client")
        if contributions is None and not keeps_places:
            check_kept(task)
        configuration = task.configuration
        self._contributions = contributions
        self._task = task
        leader = configuration.leader_aggregator_endpoint
        self._leader = Peer(http, leader, name="the leader")
        self._helper = Peer(http, configuration.helper_aggregator_endpoint, name="the helper")
        self._uploads = Peer(
            http,
            leader,
            name="the leader",
            attempts=UPLOAD_ATTEMPTS,
            seconds=UPLOAD_SECONDS,
            only_problems_refuse=True,
        )
        self._entropy = SystemEntropy() if entropy is None else entropy
        self._clock = SystemClock() if clock is None else clock
        self._configs: _Configs | None = None

    async def ready(self) -> None:
        """Fetch both aggregators' configurations, for callers that count persons before uploading.

        Raises `PeerError` if one of them could not be reached.
        """
        await self._hpke_configs()

    async def upload(
        self,
        measurements: Sequence[Measurement],
        *,
        time: float | datetime | None = None,
        reports_per_request: int = REPORTS_PER_REQUEST,
        progress: Callable[[int], None] = lambda _: None,
    ) -> UploadSummary:
        """Upload a report for each measurement.

        Args:
            measurements: Integers or lists of integers, as the task's type requires.
            time: Time of the reports, in seconds since the epoch or with a time zone, rounded down
                to the task's precision; now by default.
            reports_per_request: The most reports per request.
            progress: Called after each request with the number of reports that it settled.

        Raises:
            TooManyReports: One person would have more reports than the task allows; none is sent.
            ParameterError: A measurement is out of range; the message names its index and the
                limit. Or the time has no zone.
            PeerError: An aggregator could not be reached or refused a request. Earlier requests
                were settled; `progress` told how many reports.
        """
        seconds = self._clock.now() if time is None else _seconds(time)
        await self._count(measurements, seconds)
        report_time = self._task.time(seconds)
        accepted = 0
        refused: Counter[AnyReportError] = Counter()
        chunks = [
            measurements[start : start + reports_per_request]
            for start in range(0, len(measurements), reports_per_request)
        ]
        async with aclosing(self._requests(chunks, report_time)) as requests:
            async for request in requests:
                errors = await self._settle(request)
                refused.update(errors.values())
                accepted += len(request.reports) - len(errors)
                progress(len(request.reports))
        return UploadSummary(accepted, dict(refused))

    async def _requests(
        self, chunks: Iterable[Sequence[Measurement]], time: Time
    ) -> AsyncGenerator[_Request, None]:
        """Yield a request for each chunk; the next is sharded and sealed while one is sent."""
        with ThreadPoolExecutor(1, "sealing") as sealing:
            ahead: Future[_Request] | None = None
            for chunk in chunks:
                configs = await self._hpke_configs()
                # With the context of the caller, as anyio gives it to its threads.
                work = copy_context().run
                following = sealing.submit(work, self._prepared, chunk, time, configs)
                if ahead is not None:
                    yield await anyio.to_thread.run_sync(ahead.result)
                ahead = following
            if ahead is not None:
                yield await anyio.to_thread.run_sync(ahead.result)

    async def _count(self, measurements: Sequence[Measurement], seconds: int) -> None:
        """Count the reports of one person before any is sent.

        What cannot be sent is not counted: measurements out of range, or anything while the
        aggregators' configurations are missing.
        """
        if self._contributions is None or not measurements:
            return
        await anyio.to_thread.run_sync(self._task.prio3.circuit.encode, measurements)
        await self._hpke_configs()
        await anyio.to_thread.run_sync(
            self._contributions.count, self._task, len(measurements), seconds
        )

    async def _settle(self, request: _Request) -> dict[ReportId, AnyReportError]:
        """Send reports; reseal and resend those sealed under an outdated configuration."""
        errors = await self._send(request)
        outdated = [
            report
            for report in request.reports
            if _verdict(errors.get(report.metadata.report_id)) is Verdict.OUTDATED
        ]
        if not outdated:
            return errors
        # Keep ids and shares: with a new report, a leader that lies about the configuration could
        # count one measurement twice.
        if self._configs is request.configs:
            self._configs = None
        for report in outdated:
            del errors[report.metadata.report_id]
        resealed = await anyio.to_thread.run_sync(
            self._sealed, outdated, await self._hpke_configs()
        )
        return errors | await self._send(resealed)

    async def _send(self, request: _Request) -> dict[ReportId, AnyReportError]:
        """Send reports; return why the leader does not count some, now or at all."""
        answer = await self._uploads.send(
            path("reports", task_id=self._task.task_id),
            media_type(UploadRequest.message),
            request.body,
            limit=len(request.reports) * _STATUS_SIZE,
            carrying=UploadErrors,
        )
        try:
            statuses = decode(UploadErrors, answer.carried(UploadErrors.message)).status
        except DecodeError as error:
            raise UploadError(f"the leader's list of refused reports: {error}") from error
        sent = {report.metadata.report_id for report in request.reports}
        named = self._task.profile.report_error
        errors = {status.id: named(status.error) for status in statuses if status.id in sent}
        # What it has already came with an earlier request, whose answer was lost.
        return {id_: e for id_, e in errors.items() if _verdict(e) is not Verdict.COUNTED}

    def _prepared(
        self, measurements: Sequence[Measurement], time: Time, configs: _Configs
    ) -> _Request:
        return self._sealed(prepare_reports(self._task, measurements, time, self._entropy), configs)

    def _sealed(self, reports: Sequence[PreparedReport], configs: _Configs) -> _Request:
        sealed = (seal_report(self._task, report, *configs, self._entropy) for report in reports)
        return _Request(reports, configs, encode(UploadRequest(tuple(sealed))))

    async def _hpke_configs(self) -> _Configs:
        if self._configs is None:
            self._configs = (
                await _fetch_config("leader", self._leader),
                await _fetch_config("helper", self._helper),
            )
        return self._configs


def _verdict(error: AnyReportError | None) -> Verdict:
    return verdict_of("" if error is None else error.draft_name)


def _seconds(time: float | datetime) -> int:
    if not isinstance(time, datetime):
        return int(time)
    if time.tzinfo is None:
        raise ParameterError("time: needs a time zone, such as datetime.UTC")
    return int(time.timestamp())


async def _fetch_config(name: str, aggregator: Peer) -> HpkeConfig:
    answer = await aggregator.get(path("hpke_config"), carrying=HpkeConfigList)
    try:
        return decode(HpkeConfigList, answer.carried(HpkeConfigList.message)).preferred()
    except DecodeError as error:
        raise UploadError(f"the {name}'s HPKE configurations: {error}") from error
