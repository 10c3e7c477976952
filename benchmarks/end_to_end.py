"""What a report costs both aggregators, from the bytes that arrive to the sums that are kept.

This times everything that `aggregator.protocol` does for an aggregation job, including reading and
writing messages. It leaves out HTTP and the store, whose cost depends on how many reports a request
or a transaction carries. Opening the HPKE ciphertexts, all of a job at once as jobs do, and the
kernels are also timed alone. What is left of the total is handling: messages and checks.
"""

import dataclasses

from aggregator.codec import Reader, encode
from aggregator.dap.hpke import HpkeKeypair, generate_keypair, input_share_info
from aggregator.dap.hpke_batch import open_many
from aggregator.dap.ids import TaskId, encode_base64url
from aggregator.dap.messages import UploadedReport, input_share_aad
from aggregator.dap.messages.columns import ReportColumns
from aggregator.dap.messages.job_columns import read_job
from aggregator.dap.profile import DAP_18, Role
from aggregator.entropy import SystemEntropy
from aggregator.protocol.aggregation import VerificationKey, leader_finish, leader_init
from aggregator.protocol.helper_aggregation import helper_init
from aggregator.protocol.reports import (
    Timely,
    check_upload,
    prepare_reports,
    report_sizes,
    seal_report,
)
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.vdaf.instances import HISTOGRAM
from benchmarks.circuits import case
from benchmarks.timing import Work, median_seconds
from benchmarks.vdaf import time_steps

_LENGTH, _CHUNK_LENGTH = 100, 10
_NOW = 1_700_000_000
_TASK = """
version = 1
id = "{task_id}"
task_info = "benchmark"
leader = "http://leader.example/"
helper = "http://helper.example/"
time_precision = 100
min_batch_size = 100
batch_mode = "time_interval"
collector_hpke_config = "{collector}"
max_reports = 1000000

[vdaf]
type = "Prio3Histogram"
length = {length}
chunk_length = {chunk_length}

[privacy]
mechanism = "PureDpDiscreteLaplace"
epsilon = "1"
"""


@dataclasses.dataclass(frozen=True, slots=True)
class EndToEndTimes:
    """Microseconds of processor time per report, of both aggregators together.

    Attributes:
        upload: The leader reads an uploaded report and checks it.
        leader_init: The leader opens its shares, begins to verify them, and writes the request.
        helper_init: The helper reads the request, opens and verifies its shares, and answers.
        leader_finish: The leader reads the answer and finishes.
        sums: Both add up their out shares.
        hpke: Opening both ciphertexts, those of a job together, alone.
        kernels: All steps of Prio3 from arrays to arrays, alone.
    """

    upload: float
    leader_init: float
    helper_init: float
    leader_finish: float
    sums: float
    hpke: float
    kernels: float

    @property
    def total(self) -> float:
        """All steps together."""
        return self.upload + self.leader_init + self.helper_init + self.leader_finish + self.sums

    @property
    def handling(self) -> float:
        """All that is neither HPKE nor a kernel."""
        return self.total - self.hpke - self.kernels


def time_end_to_end(reports: int, rounds: int) -> EndToEndTimes:
    """Time an aggregation job of a histogram with 100 buckets, step by step, and its parts.

    Args:
        reports: Reports per job.
        rounds: How often each step is done; the median counts.
    """
    job = _Job(reports)
    works: dict[str, Work] = {
        "upload": job.upload,
        "leader_init": job.leader_init,
        "helper_init": job.helper_init,
        "leader_finish": job.leader_finish,
        "sums": job.sums,
        "hpke": job.open_all,
    }
    seconds = median_seconds(works, rounds)
    made = case(HISTOGRAM, length=_LENGTH, chunk_length=_CHUNK_LENGTH)
    steps = time_steps(made, reports, rounds)
    return EndToEndTimes(
        kernels=steps.leader + steps.helper + steps.message + 2 * (steps.finish + steps.aggregate),
        **{name: 1e6 * each / reports for name, each in seconds.items()},
    )


class _Job:
    """One aggregation job; each step takes what the step before has just made."""

    def __init__(self, count: int) -> None:
        entropy = SystemEntropy()
        self._leader, self._helper, collector = (generate_keypair(n, entropy) for n in range(3))
        self._task = _task(collector, entropy.bytes(32))
        self._key = VerificationKey(0, entropy.bytes(self._task.prio3.verify_key_size))
        measurements = [index % _LENGTH for index in range(count)]
        prepared = prepare_reports(self._task, measurements, self._task.time(_NOW), entropy)
        configs = self._leader.config, self._helper.config
        self._sealed = [seal_report(self._task, each, *configs, entropy) for each in prepared]
        self._bodies = [encode(report) for report in self._sealed]
        self._aads = [
            input_share_aad(
                self._task.input_share_aad_prefix, report.report_metadata, report.public_share
            )
            for report in self._sealed
        ]

    def upload(self) -> None:
        sizes, ids = report_sizes(self._task), [self._leader.config.id]
        for body in self._bodies:
            report = UploadedReport.read(Reader(body), sizes)
            if check_upload(self._task, report, ids, Timely(_NOW)):
                raise AssertionError("a report of ours was refused")

    def leader_init(self) -> None:
        keypairs = {self._leader.config.id: self._leader}
        body, width = b"".join(self._bodies), len(self._bodies[0])
        reports, _ = ReportColumns.joined(body, width, report_sizes(self._task))
        init = leader_init(self._task, self._key, keypairs, reports, _NOW)
        if init.request is None or init.state is None:
            raise AssertionError("no report of ours is left")
        self._state, self._request = init.state, init.request

    def helper_init(self) -> None:
        keypairs = {self._helper.config.id: self._helper}
        request = read_job(self._request, report_sizes(self._task))
        init = helper_init(self._task, self._key, keypairs, request, _NOW)
        self._helped, self._response = init.verified, init.response({})

    def leader_finish(self) -> None:
        self._led, rejected = leader_finish(self._task, self._state, self._response)
        if rejected:
            raise AssertionError("a report of ours was rejected")

    def sums(self) -> None:
        for verified in (self._led, self._helped):
            verified.bucket_shares()

    def open_all(self) -> None:
        """Open both ciphertexts of every report, and nothing else."""
        tag = DAP_18.tag
        for keypair, role, sealed in (
            (self._leader, Role.LEADER, [r.leader_encrypted_input_share for r in self._sealed]),
            (self._helper, Role.HELPER, [r.helper_encrypted_input_share for r in self._sealed]),
        ):
            opened = open_many(
                {keypair.config.id: keypair},
                input_share_info(tag, role),
                [each.config_id for each in sealed],
                [each.enc for each in sealed],
                [each.payload for each in sealed],
                self._aads,
            )
            if None in opened:
                raise AssertionError("a report of ours does not open")


def _task(collector: HpkeKeypair, task_id: bytes) -> Task:
    return task_from_toml(
        _TASK.format(
            task_id=TaskId(task_id),
            collector=encode_base64url(encode(collector.config)),
            length=_LENGTH,
            chunk_length=_CHUNK_LENGTH,
        )
    )
