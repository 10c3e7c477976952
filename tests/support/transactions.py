"""The write transactions on a batch's way from its clients to its collector, by their names."""

WRITES = {
    "leader": (
        "upload",
        "create aggregation jobs",
        "lease aggregation jobs",
        "store aggregation request",
        "finish aggregation job",
        "create collection job",
        "lease collection jobs",
        "freeze batch",
        "release batch",
        "delete leftovers",
    ),
    "helper": ("commit aggregation job", "release batch", "delete leftovers"),
}
"""The transactions of each aggregator, in order."""

OF_TIME = {
    f"{verb} {kind} job" for verb in ("renew", "release") for kind in ("aggregation", "collection")
} | {"rotate generations", "send again"}
"""Transactions that come when time has passed: a step takes long, an answer is late, so that it is
asked for again, or a minute has gone by."""
