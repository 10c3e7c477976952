"""Makes many whole reports at once, which a client would seal one by one."""

from collections.abc import Sequence

from aggregator.dap.hpke import HpkeConfig
from aggregator.dap.messages import Report
from aggregator.dap.times import Time
from aggregator.entropy import Entropy
from aggregator.protocol.reports import prepare_reports, seal_report
from aggregator.protocol.task import Task
from aggregator.vdaf.circuits import Measurement


def make_reports(
    task: Task,
    leader_config: HpkeConfig,
    helper_config: HpkeConfig,
    measurements: Sequence[Measurement],
    time: Time,
    entropy: Entropy,
) -> list[Report]:
    """Shard and seal measurements, one per report; see `prepare_reports` and `seal_report`."""
    return [
        seal_report(task, prepared, leader_config, helper_config, entropy)
        for prepared in prepare_reports(task, measurements, time, entropy)
    ]
