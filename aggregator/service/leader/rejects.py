"""What becomes of the reports of an aggregation job that are not aggregated."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

from aggregator.dap.report_errors import ReportError
from aggregator.protocol.reports import Rejected
from aggregator.service.storage.jobs.aggregation_jobs import AggregationJob
from aggregator.service.telemetry.lines import log


@dataclasses.dataclass(frozen=True, slots=True)
class Rejects:
    """The reports of a job that are not aggregated, by their ids.

    Attributes:
        reasons: Why each report was rejected for good.
        too_early: Reports that wait until their time has come.
    """

    reasons: dict[bytes, str]
    too_early: list[bytes]

    @classmethod
    def of(cls, rejected: Sequence[Rejected]) -> "Rejects":
        """Tell them apart: DAP lets us retry a report only after `report_too_early`."""
        rejects = cls({}, [])
        for each in rejected:
            if each.error is ReportError.REPORT_TOO_EARLY:
                rejects.too_early.append(each.report_id.value)
            else:
                rejects.reasons[each.report_id.value] = each.error.draft_name
        return rejects


def log_outcome(
    job: AggregationJob,
    aggregated: int,
    rejected: Sequence[Rejected],
    left_out: Sequence[str] = (),
) -> None:
    """Say in the log how a job ended."""
    reasons = Counter([*(each.error.draft_name for each in rejected), *left_out])
    # If no report passes, the aggregators probably disagree: that all clients lie is less likely.
    say = log.info if aggregated else log.warning
    say(
        "aggregation job finished",
        job=job.job_id.hex(),
        aggregated=aggregated,
        rejected=reasons.total(),
        reasons=dict(reasons),
    )
