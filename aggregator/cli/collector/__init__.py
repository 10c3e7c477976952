"""Commands for collectors, who receive results."""

from typing import Final

from aggregator.cli.entries import RUN, TASKS, Entry, in_wing
from aggregator.cli.options import TaskCommand

COMMANDS: Final = in_wing(
    "collector",
    Entry(
        RUN,
        "collector",
        "prio collector serve --config collector.toml",
        attribute="app",
        is_daily=True,
    ),
    Entry(
        TASKS,
        "attribution",
        "prio attribution collect --config collector.toml --epsilon 1/2 reports.bin TASK_ID",
        attribute="app",
    ),
    Entry(
        TASKS,
        "collect",
        "prio collect --config collector.toml TASK_ID --start 2026-11-02 --end 2026-11-09",
        cls=TaskCommand,
        is_daily=True,
    ),
)
