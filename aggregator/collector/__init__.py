"""The Collector: `collect` is a library for a notebook, `service` keeps every result."""

from aggregator.collector.collect import (
    Collection,
    CollectionError,
    CollectionTimeout,
    Collector,
    Pending,
)

__all__ = ["Collection", "CollectionError", "CollectionTimeout", "Collector", "Pending"]
