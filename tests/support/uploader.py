"""A client that knows what was accepted, and may keep configurations for longer than it should."""

import time
from pathlib import Path

import httpx

from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeConfig, HpkeConfigList
from aggregator.dap.messages import UploadErrors, UploadRequest
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import AnyReportError
from aggregator.dap.resources import media_type
from aggregator.entropy import SystemEntropy
from aggregator.protocol.task_file import task_from_toml
from tests.support.processes import Processes
from tests.support.reports import make_reports


class Uploader:
    """Sends batches of reports of the measurement 1, sealed to the keys advertised at first.

    Attributes:
        accepted: Reports so far.
    """

    def __init__(self, services: Processes, task_file: Path, http: httpx.Client) -> None:
        self._http = http
        self._task = task_from_toml(task_file.read_text())
        self._url = f"{services.urls['leader']}tasks/{self._task.task_id}/reports"
        self._configs = (self._config(services, "leader"), self._config(services, "helper"))
        self.accepted = 0

    def _config(self, services: Processes, role: str) -> HpkeConfig:
        answer = self._http.get(f"{services.urls[role]}hpke_config")
        return decode(HpkeConfigList, answer.content).preferred()

    def send(self, count: int, ahead: int = 0) -> httpx.Response:
        """Upload this many reports, of a time this many seconds ahead of now."""
        when = self._task.time(int(time.time()) + ahead)
        reports = make_reports(self._task, *self._configs, [1] * count, when, SystemEntropy())
        answer = self._http.post(
            self._url,
            content=encode(UploadRequest(tuple(reports))),
            headers={"content-type": media_type(UploadRequest.message)},
        )
        if answer.is_success:
            self.accepted += count - len(errors_of(answer))
        return answer


def errors_of(answer: httpx.Response) -> list[AnyReportError]:
    """Return why reports of an upload were refused."""
    return [DAP_18.report_error(each.error) for each in decode(UploadErrors, answer.content).status]
