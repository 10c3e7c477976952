"""The collector: a library for notebooks (`Collector.open`), and a service that keeps results."""

from typing import TYPE_CHECKING

from aggregator.lazy_exports import exports

if TYPE_CHECKING:
    from aggregator.collector.collect import (
        Collection,
        CollectionError,
        CollectionTimeout,
        Pending,
        TaskCollector,
    )
    from aggregator.collector.opened import AsyncCollector, Collected, Collector, survey_results
else:
    __getattr__ = exports(
        __name__,
        {
            "collect": (
                "Collection",
                "CollectionError",
                "CollectionTimeout",
                "Pending",
                "TaskCollector",
            ),
            "opened": ("AsyncCollector", "Collected", "Collector", "survey_results"),
        },
    )

__all__ = [
    "AsyncCollector",
    "Collected",
    "Collection",
    "CollectionError",
    "CollectionTimeout",
    "Collector",
    "Pending",
    "TaskCollector",
    "survey_results",
]
