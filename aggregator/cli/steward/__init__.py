"""Commands of stewards and auditors: surveys, plans, audits."""

from typing import Final

from aggregator.cli.entries import PRIVACY, TASKS, Entry, in_wing

COMMANDS: Final = in_wing(
    "steward",
    Entry(TASKS, "survey", "prio survey check survey.toml", attribute="app", is_daily=True),
    Entry(TASKS, "issuer", "prio issuer new survey.toml --out issuer", attribute="app"),
    Entry(
        PRIVACY,
        "plan",
        "prio plan error --epsilon 1/2 --circuit count",
        attribute="app",
        is_daily=True,
    ),
    Entry(
        PRIVACY,
        "audit",
        "prio audit self-test --circuit count --epsilon 1/2",
        attribute="app",
        is_daily=True,
    ),
    Entry(PRIVACY, "noise", "prio noise --scale 2 --count 1000 --out noise.npy"),
)
