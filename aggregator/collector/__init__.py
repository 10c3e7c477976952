"""The collector: a library for notebooks (`Collector.open`), and a service that keeps results."""

from aggregator.collector.collect import (
    Collection,
    CollectionError,
    CollectionTimeout,
    Pending,
    TaskCollector,
)
from aggregator.collector.opened import AsyncCollector, Collected, Collector, survey_results

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
