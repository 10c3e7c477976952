"""Commands that run all parties on this machine, to try things out."""

from typing import Final

from aggregator.cli.entries import LOOK, TRY, Entry, in_wing

COMMANDS: Final = in_wing(
    "local",
    Entry(TRY, "demo", "prio demo --keep demo", is_daily=True),
    Entry(TRY, "up", "prio up --survey survey.toml", is_daily=True),
    Entry(LOOK, "load", "prio load --stack --reports 20000"),
    Entry(TRY, "interop", "prio interop helper --port 8080"),
)
