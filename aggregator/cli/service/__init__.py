"""Commands for operators, who run a party."""

from typing import Final

from aggregator.cli.entries import LOOK, PRIVACY, RUN, TASKS, Entry, in_wing

COMMANDS: Final = in_wing(
    "service",
    Entry(RUN, "leader", "prio leader serve --config leader.toml --work", "serve", is_daily=True),
    Entry(RUN, "helper", "prio helper serve --config helper.toml", "serve", is_daily=True),
    Entry(RUN, "status", "prio status --config leader.toml", is_daily=True),
    Entry(RUN, "doctor", "prio doctor --config leader.toml --peer https://helper.example/"),
    Entry(RUN, "job", "prio job list --config leader.toml", "jobs", "app"),
    Entry(RUN, "hpke", "prio hpke list --config helper.toml", "hpke_keys", "app"),
    Entry(RUN, "store", "prio store upgrade --config leader.toml", attribute="app"),
    Entry(RUN, "keys", "prio keys rewrap --config leader.toml", attribute="app"),
    Entry(RUN, "backup", "prio backup --config leader.toml leader.backup"),
    Entry(
        TASKS,
        "task",
        "prio task add --config leader.toml made/leader.toml",
        "tasks",
        "app",
        is_daily=True,
    ),
    Entry(TASKS, "permits", "prio permits add --config leader.toml permits.list", attribute="app"),
    Entry(PRIVACY, "ledger", "prio ledger --config helper.toml"),
    Entry(PRIVACY, "population", "prio population --config leader.toml staff-2026 --epsilon 4"),
    Entry(LOOK, "warm", "prio warm"),
)
