"""The aggregators' runtime: what the leader's and the helper's shells share."""

from typing import TYPE_CHECKING

from aggregator.lazy_exports import exports

if TYPE_CHECKING:
    from aggregator.service.runtime.aggregating import aggregate_verified
    from aggregator.service.runtime.fair_queue import FairQueue, Threads
    from aggregator.service.runtime.runtime import Runtime, ServedTask, UploadTerms
    from aggregator.service.runtime.spending import charge_of, check_limits
else:
    __getattr__ = exports(
        __name__,
        {
            "aggregating": ("aggregate_verified",),
            "runtime": ("Runtime", "ServedTask", "UploadTerms"),
            "spending": ("charge_of", "check_limits"),
            "fair_queue": ("Threads", "FairQueue"),
        },
    )

__all__ = [
    "FairQueue",
    "Runtime",
    "ServedTask",
    "Threads",
    "UploadTerms",
    "aggregate_verified",
    "charge_of",
    "check_limits",
]
