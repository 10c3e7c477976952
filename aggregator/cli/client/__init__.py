"""Commands for clients, who upload measurements."""

from typing import Final

from aggregator.cli.entries import LOOK, TASKS, Entry, in_wing

COMMANDS: Final = in_wing(
    "client",
    Entry(
        TASKS,
        "upload",
        "upload",
        "upload",
        "Shard, seal and upload measurements, one report each.",
        "prio upload task.toml --csv answers.csv --column health --buckets good,fair,poor",
        is_daily=True,
    ),
    Entry(
        LOOK,
        "client-vectors",
        "client_vectors",
        "client_vectors",
        "Write each step from a measurement to an upload, byte by byte, as JSON.",
        "prio client-vectors task.toml 3 0 > vectors.json",
    ),
    Entry(
        LOOK,
        "client-module",
        "client_module",
        "client_module",
        "Write the module for browsers as one file, and its hash to standard error.",
        "prio client-module --out prio.js",
    ),
)
