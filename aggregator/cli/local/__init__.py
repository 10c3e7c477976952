"""Commands that run all parties on this machine, to try things out."""

from typing import Final

from aggregator.cli.entries import LOOK, TRY, Entry, in_wing

COMMANDS: Final = in_wing(
    "local",
    Entry(
        TRY,
        "demo",
        "demo",
        "demo",
        "Run both aggregators and a collector here, and a real data set through them.",
        "prio demo --keep demo",
        is_daily=True,
    ),
    Entry(
        TRY,
        "up",
        "up",
        "up",
        "Run leader, helper and collector on this machine, until Ctrl-C: to try things out.",
        "prio up --survey survey.toml",
        is_daily=True,
    ),
    Entry(
        LOOK,
        "load",
        "load",
        "load",
        "Measure what reports cost here: real ones, to services on this machine, to the result.",
        "prio load --stack --reports 20000",
    ),
    Entry(
        TRY,
        "interop",
        "interop",
        "interop",
        "Run one party for tests of interoperability; the test runner may order anything.",
        "prio interop helper --port 8080",
    ),
)
