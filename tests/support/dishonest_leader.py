"""What whoever runs a leader can do: it has the leader's keys, and every report that came."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx

from aggregator.cli.service.parties import open_aggregator
from aggregator.codec import decode
from aggregator.dap.auth import bearer_header
from aggregator.dap.extensions import Extensions
from aggregator.dap.hpke import HpkeConfigList, HpkeKeypair
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import AggregationJobInitReq, Report, ReportMetadata, UploadRequest
from aggregator.dap.profile import Role
from aggregator.dap.resources import media_type, path
from aggregator.entropy import SystemEntropy
from aggregator.protocol.aggregation import VerificationKey, leader_init
from aggregator.protocol.provisioning import TaskSecrets, read_provisions
from aggregator.protocol.reports import PreparedReport, seal_report
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from aggregator.service.runtime import Runtime
from aggregator.vdaf.circuits import Measurement
from tests.support.clock import ManualClock
from tests.support.helper_jobs import errors_of
from tests.support.module_pair import elsewhere
from tests.support.patience import PATIENCE_SECONDS
from tests.support.processes import Processes
from tests.support.reports import columns

Carried = Sequence[tuple[str, bytes]]


class DishonestLeader:
    """A leader that sends its helper jobs of its own.

    Args:
        services: Of which it is the leader; both run.
        files: The leader's files of its tasks.
        carried: Path and body of each request that came to it.
    """

    def __init__(self, services: Processes, files: Sequence[Path], carried: Carried) -> None:
        self._services, self._carried = services, carried
        self._secrets: dict[bytes, TaskSecrets] = {}
        for file in files:
            for each in read_provisions(file.read_text(), Role.LEADER):
                self._secrets[each.task.task_id.value] = each.secrets

    def reports_of(self, task: Task) -> list[Report]:
        """Return the reports of a task that came, each once."""
        found: dict[bytes, Report] = {}
        for way, body in self._carried:
            if f"/{task.task_id}/reports" in way and body:
                for each in decode(UploadRequest, body).reports:
                    found.setdefault(each.report_metadata.report_id.value, each)
        return [*found.values()]

    def made_up(
        self, task: Task, measurement: Measurement, seconds: int, like: Sequence[ReportMetadata]
    ) -> list[Report]:
        """Return reports that are valid but for their openings, which it guesses."""
        return [
            self.made(task, measurement, seconds, each.report_id.value, each.public_extensions)
            for each in like
        ]

    def made(
        self,
        task: Task,
        measurement: Measurement,
        seconds: int,
        report_id: bytes,
        signed: Extensions = (),
        opening: bytes | None = None,
    ) -> Report:
        """Return a report of an id, with an opening that it guesses unless one is given."""
        entropy = SystemEntropy()
        shards = task.prio3.shard(
            task.ctx, [measurement], [report_id], [entropy.bytes(task.prio3.rand_size)]
        )
        leader_shares, helper_shares = shards.input_shares
        prepared = PreparedReport(
            ReportMetadata(ReportId(report_id), task.time(seconds), signed),
            shards.public_shares[0],
            leader_shares[0],
            helper_shares[0],
            entropy.bytes(16) if opening is None else opening,
        )
        configs = [
            decode(
                HpkeConfigList,
                httpx.get(f"{self._services.urls[party]}hpke_config", trust_env=False).content,
            ).preferred()
            for party in ("leader", "helper")
        ]
        return seal_report(task, prepared, configs[0], configs[1], entropy)

    def send(self, task: Task, reports: Sequence[Report]) -> Counter[str]:
        """Send reports to the helper as a job; return what it says of them."""
        secrets = self._secrets[task.task_id.value]
        assert secrets.verify_key is not None
        assert secrets.leader_token is not None
        key = VerificationKey(secrets.verify_key_id, secrets.verify_key)
        now = int(time.time())
        init = leader_init(task, key, self._keypairs(), columns(task, reports), now)
        assert init.request is not None, init.rejected
        helper = self._services.urls["helper"].rstrip("/")
        answer = httpx.post(
            helper + path("aggregation_jobs", task_id=task.task_id),
            content=init.request,
            headers={
                "authorization": bearer_header(secrets.leader_token),
                "content-type": media_type(AggregationJobInitReq.message),
            },
            timeout=PATIENCE_SECONDS,
            trust_env=False,
        )
        assert answer.is_success, answer.text
        found = errors_of(answer.content, task.profile)
        return Counter("counted" if each is None else each.draft_name for each in found)

    def _keypairs(self) -> dict[int, HpkeKeypair]:
        with open_aggregator(self._services.configs["leader"]) as opened:
            runtime = Runtime(
                Role.LEADER,
                opened.database,
                ManualClock(int(time.time())),
                SystemEntropy(),
                opened.journal,
                requirements=Requirements(any_epsilon=True),
                verification_threads=1,
            )
            return elsewhere(runtime.keypairs)
