"""The write transactions on a batch's way from its clients to its collector, by their names."""

WRITES = {
    "leader": (
        "upload",
        "create aggregation job",
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

OF_A_SLOW_MACHINE = {
    f"{verb} {kind} job" for verb in ("renew", "release") for kind in ("aggregation", "collection")
}
"""Transactions that a step adds which takes long, or whose answer does not come in time."""
