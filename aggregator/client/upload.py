"""Uploads measurements: fetches both HPKE configurations, shards, seals and sends reports.

Source: DAP, "HPKE Configuration Request", "Uploading Reports" and "Client Behavior".
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import anyio.to_thread
import httpx

from aggregator.client.contributions import Contributions
from aggregator.clock import Clock, SystemClock
from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.hpke import HpkeConfig, HpkeConfigList
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import UploadErrors, UploadRequest
from aggregator.dap.report_errors import ReportError
from aggregator.dap.resources import media_type, path
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import PeerError
from aggregator.protocol.floor import Floor, check_floor
from aggregator.protocol.reports import PreparedReport, prepare_reports, seal_report
from aggregator.protocol.task import Task
from aggregator.transport.peer import Peer
from aggregator.vdaf.circuits.measurements import Measurement

REPORTS_PER_REQUEST = 200

_STATUS_SIZE = ReportId.size + 1
"""Bytes of an answer per refused report."""

UPLOAD_ATTEMPTS = 8
"""How often one request of reports is sent, within half a minute: a client that gave up midway
could not upload the rest without knowing which measurements are settled."""

UPLOAD_SECONDS = 300.0
"""How long all these attempts may take."""


class UploadError(PeerError):
    """An aggregator answered with something that a client cannot use."""


@dataclasses.dataclass(frozen=True, slots=True)
class UploadSummary:
    """The outcome of an upload.

    Attributes:
        accepted: Reports that the leader stored.
        refused: Reports that it refused, by reason.
    """

    accepted: int
    refused: Mapping[ReportError, int]

    @property
    def total(self) -> int:
        """How many reports were sent."""
        return self.accepted + sum(self.refused.values())


class Client:
    """Uploads measurements of one task.

    Args:
        task: What is measured, and who aggregates it.
        http: Sends the requests.
        entropy: Where report ids, shares and HPKE keys come from.
        clock: What time a report is of.
        contributions: Counts the reports of the one person whose measurements these are, and holds
            them to the task's bounds; None where the caller does, or each measurement is another
            person's.
        floor: The least protection of the tasks that the client takes part in.

    Raises:
        ParameterError: The task is below the floor; nothing is sent.
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
    ) -> None:
        check_floor(task, floor or Floor(), "this client")
        configuration = task.configuration
        self._contributions = contributions
        self._task = task
        leader = configuration.leader_aggregator_endpoint
        self._leader = Peer(http, leader, name="the leader")
        self._helper = Peer(http, configuration.helper_aggregator_endpoint, name="the helper")
        self._uploads = Peer(
            http, leader, name="the leader", attempts=UPLOAD_ATTEMPTS, seconds=UPLOAD_SECONDS
        )
        self._entropy = SystemEntropy() if entropy is None else entropy
        self._clock = SystemClock() if clock is None else clock
        self._configs: tuple[HpkeConfig, HpkeConfig] | None = None

    async def upload(
        self,
        measurements: Sequence[Measurement],
        *,
        time: int | None = None,
        reports_per_request: int = REPORTS_PER_REQUEST,
        progress: Callable[[int], None] = lambda _: None,
    ) -> UploadSummary:
        """Upload a report for each measurement.

        Args:
            measurements: Integers or lists of integers, as the task's type requires.
            time: Time of the reports in seconds since the epoch, rounded down to the task's
                precision; now by default.
            reports_per_request: The most reports per request.
            progress: Called after each request with the number of reports that it settled.

        Raises:
            TooManyReports: One person would have more reports than the task allows; none is sent.
            ParameterError: A measurement is out of range; the message names its index and the
                limit.
            PeerError: An aggregator could not be reached or refused a request. Earlier requests
                were settled; `progress` told how many reports.
        """
        seconds = self._clock.now() if time is None else time
        await self._count(measurements, seconds)
        report_time = self._task.time(seconds)
        accepted = 0
        refused: Counter[ReportError] = Counter()
        for start in range(0, len(measurements), reports_per_request):
            chunk = measurements[start : start + reports_per_request]
            prepared = await anyio.to_thread.run_sync(
                prepare_reports, self._task, chunk, report_time, self._entropy
            )
            errors = await self._settle(prepared)
            refused.update(errors.values())
            accepted += len(prepared) - len(errors)
            progress(len(prepared))
        return UploadSummary(accepted, dict(refused))

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

    async def _settle(self, prepared: Sequence[PreparedReport]) -> dict[ReportId, ReportError]:
        """Send reports; reseal and resend those sealed under an outdated configuration."""
        errors = await self._send(prepared)
        outdated = [
            report
            for report in prepared
            if errors.get(report.metadata.report_id) is ReportError.OUTDATED_CONFIG
        ]
        if not outdated:
            return errors
        # With the same ids and shares: a new report would let a leader that lies about the
        # configuration count one measurement twice.
        self._configs = None
        for report in outdated:
            del errors[report.metadata.report_id]
        return errors | await self._send(outdated)

    async def _send(self, prepared: Sequence[PreparedReport]) -> dict[ReportId, ReportError]:
        """Seal and send reports, and return those that the leader refused."""
        configs = await self._hpke_configs()
        body = await anyio.to_thread.run_sync(self._sealed, prepared, *configs)
        answer = await self._uploads.post(
            path("reports", task_id=self._task.task_id),
            media_type(UploadRequest.message),
            body,
            limit=len(prepared) * _STATUS_SIZE,
        )
        try:
            statuses = decode(UploadErrors, answer.carried(UploadErrors.message)).status
        except DecodeError as error:
            raise UploadError(f"the leader's list of refused reports: {error}") from error
        sent = {report.metadata.report_id for report in prepared}
        return {status.id: status.error for status in statuses if status.id in sent}

    def _sealed(
        self,
        prepared: Sequence[PreparedReport],
        leader_config: HpkeConfig,
        helper_config: HpkeConfig,
    ) -> bytes:
        return encode(
            UploadRequest(
                tuple(
                    seal_report(self._task, report, leader_config, helper_config, self._entropy)
                    for report in prepared
                )
            )
        )

    async def _hpke_configs(self) -> tuple[HpkeConfig, HpkeConfig]:
        if self._configs is None:
            self._configs = (
                await _fetch_config("leader", self._leader),
                await _fetch_config("helper", self._helper),
            )
        return self._configs


async def _fetch_config(name: str, aggregator: Peer) -> HpkeConfig:
    answer = await aggregator.get(path("hpke_config"))
    try:
        return decode(HpkeConfigList, answer.carried(HpkeConfigList.message)).preferred()
    except DecodeError as error:
        raise UploadError(f"the {name}'s HPKE configurations: {error}") from error
