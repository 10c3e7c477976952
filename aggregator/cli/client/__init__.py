"""Commands for clients, who upload measurements."""

from typing import Final

from aggregator.cli.entries import LOOK, TASKS, Entry, in_wing

COMMANDS: Final = in_wing(
    "client",
    Entry(
        TASKS,
        "upload",
        "prio upload task.toml --csv answers.csv --column health --buckets good,fair,poor",
        is_daily=True,
    ),
    Entry(LOOK, "client-vectors", "prio client-vectors task.toml 3 0 > vectors.json"),
    Entry(LOOK, "client-module", "prio client-module --out prio.js"),
)
