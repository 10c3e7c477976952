"""Commands of whoever uploads."""

from typing import Final

from aggregator.cli.entries import TASKS, Entry, in_wing

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
)
