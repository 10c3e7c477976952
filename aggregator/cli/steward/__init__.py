"""Commands of stewards and auditors: surveys, plans, audits."""

from typing import Final

from aggregator.cli.entries import PRIVACY, TASKS, Entry, in_wing

COMMANDS: Final = in_wing(
    "steward",
    Entry(
        TASKS,
        "survey",
        "survey",
        "app",
        "Ask people a survey: check it, make its task, upload answers.",
        "prio survey check survey.toml",
        is_daily=True,
    ),
    Entry(
        TASKS,
        "text",
        "text",
        "app",
        "Ask what people write: make tasks, upload answers, collect, name strings.",
        "prio text results made words.txt --results released.json",
    ),
    Entry(
        PRIVACY,
        "plan",
        "plan",
        "app",
        "Plan what a release may cost: selection, thresholds, risks, budgets, errors.",
        "prio plan error --epsilon 1/2 --circuit count",
        is_daily=True,
    ),
    Entry(
        PRIVACY,
        "audit",
        "audit",
        "app",
        "Test the noise of releases.",
        "prio audit self-test --circuit count --epsilon 1/2",
        is_daily=True,
    ),
    Entry(
        PRIVACY,
        "noise",
        "noise",
        "noise",
        "Draw noise as a release does, from the operating system's entropy, and save it.",
        "prio noise --scale 2 --count 1000 --out noise.npy",
    ),
)

GROUPS: Final = {
    "survey": {
        "check": "Check a survey file and print how it would be asked, and with what errors.",
        "new": (
            "Make the task of a survey: the public task.toml and one secret file for each party."
        ),
        "show": (
            "Print what a survey's task asks, and the fingerprint that all parties must agree on."
        ),
        "form": "Make the page on which a survey is answered: one file, hosted anywhere.",
        "upload": "Upload a table of answers to all questions of a survey.",
        "collect": "Collect one or more windows of a survey, and print what they say.",
        "results": "Print everything that was collected of a survey, with labels and intervals.",
    },
    "text": {
        "tasks": "Make the tasks of a text question, and one file with secrets for each party.",
        "upload": (
            "Upload what people wrote: one report each, all of one size, whatever they wrote."
        ),
        "collect": (
            "Collect all tasks of a text question for one window, and write their results to a "
            "file."
        ),
        "results": "Print which strings of some lists people wrote, with intervals.",
        "spell": (
            "Make the tasks that ask for the letters of what no list explains, for one window."
        ),
    },
    "plan": {
        "compose": "What several releases cost together, by every theorem at hand.",
        "advise": "From a question to a privacy section, with three sentences for a board.",
        "error": "How far a result lies from the truth under a mechanism's noise.",
        "sections": "One epsilon for everything that a report holds, split over its sections.",
        "text": "Which written answers would be found that nobody listed beforehand.",
        "serve": (
            "Open the planner as a page: charts with real noise, costs, and survey.toml to save."
        ),
        "selection": (
            "Which private buckets may be shown: the optimal rule, its rivals, and the one to take."
        ),
        "keep": "Draw which private buckets are shown, by the optimal rule.",
        "threshold": "What suppressing small counts without noise protects, and what it does not.",
        "risk": "The exact law of the privacy loss of one release.",
        "claims": 'What "privacy at risk" claims, recomputed and labelled, beside what is sound.',
        "budget": "What would be owed after a breach, in the model of Dandekar, Basu and Bressan.",
        "figures": "Draw the papers' figures, with what was published apart from what is sound.",
    },
    "audit": {
        "pair": "Test whether two running aggregators add the noise that a task says.",
        "self-test": (
            "Try to refute what a mechanism promises by releasing made-up neighbours many "
            "times here."
        ),
    },
}
