"""Makes many whole reports at once, which a client would seal one by one, and their columns."""

from collections.abc import Sequence

from aggregator.codec import encode
from aggregator.dap.hpke import HpkeConfig
from aggregator.dap.messages import Report
from aggregator.dap.messages.columns import ReportColumns
from aggregator.dap.times import Time
from aggregator.entropy import Entropy
from aggregator.protocol.reports import prepare_reports, report_sizes, seal_report
from aggregator.protocol.task import Task
from aggregator.vdaf.circuits import Measurement


def make_reports(
    task: Task,
    leader_config: HpkeConfig,
    helper_config: HpkeConfig,
    measurements: Sequence[Measurement],
    time: Time,
    entropy: Entropy,
    openings: Sequence[bytes] | None = None,
    signatures: Sequence[bytes] | None = None,
    budget: int | None = None,
) -> list[Report]:
    """Shard and seal measurements, one per report; see `prepare_reports` and `seal_report`."""
    made = prepare_reports(task, measurements, time, entropy, openings, signatures, budget)
    return [seal_report(task, each, leader_config, helper_config, entropy) for each in made]


def columns(task: Task, reports: Sequence[Report]) -> ReportColumns:
    """Return reports as the leader takes them from its store; all have the task's sizes."""
    encoded = [encode(report) for report in reports]
    width = len(encoded[0]) if encoded else 0
    found, others = ReportColumns.joined(b"".join(encoded), width, report_sizes(task))
    assert not others
    return found
