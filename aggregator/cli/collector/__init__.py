"""Commands for collectors, who receive results."""

from typing import Final

from aggregator.cli.entries import RUN, TASKS, Entry, in_wing
from aggregator.cli.options import TaskCommand

COMMANDS: Final = in_wing(
    "collector",
    Entry(
        RUN,
        "collector",
        "collector",
        "app",
        "Run the collector.",
        "prio collector serve --config collector.toml",
        is_daily=True,
    ),
    Entry(
        TASKS,
        "collect",
        "collect",
        "collect",
        "Collect a batch and print the result with its error bars.",
        "prio collect --config collector.toml TASK_ID --start 2026-11-02 --end 2026-11-09",
        TaskCommand,
        is_daily=True,
    ),
)

GROUPS: Final = {
    "collector": {
        "config": (
            "Print the HPKE configuration that tasks name, made on first use: for `prio task new`."
        ),
        "results": "Print every collection of a task with its result, oldest first, as JSON.",
        "abandon": (
            "Give up a collection whose leader is gone for ever, and tell the leader if it answers."
        ),
        "serve": "List tasks, collect batches and keep results: pages, and JSON over HTTP.",
    }
}
