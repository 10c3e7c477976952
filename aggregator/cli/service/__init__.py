"""Commands for operators, who run a party."""

from typing import Final

from aggregator.cli.entries import LOOK, PRIVACY, RUN, TASKS, Entry, in_wing

COMMANDS: Final = in_wing(
    "service",
    Entry(
        RUN,
        "leader",
        "serve",
        "leader",
        "Run the leader.",
        "prio leader serve --config leader.toml --work",
        is_daily=True,
    ),
    Entry(
        RUN,
        "helper",
        "serve",
        "helper",
        "Run the helper.",
        "prio helper serve --config helper.toml",
        is_daily=True,
    ),
    Entry(
        RUN,
        "status",
        "status",
        "status",
        "Print whether this party runs and its work moves, what waits and why; status 1 if not.",
        "prio status --config leader.toml",
        is_daily=True,
    ),
    Entry(
        RUN,
        "doctor",
        "doctor",
        "doctor",
        "Examine another aggregator: TLS, clocks, keys, limits, and the tasks shared with it.",
        "prio doctor --config leader.toml --peer https://helper.example/",
    ),
    Entry(
        RUN,
        "job",
        "jobs",
        "app",
        "List what waits, and why; retry, abandon and compare jobs.",
        "prio job list --config leader.toml",
    ),
    Entry(
        RUN,
        "hpke",
        "hpke_keys",
        "app",
        "Make, list and retire HPKE key pairs.",
        "prio hpke list --config helper.toml",
    ),
    Entry(
        RUN,
        "store",
        "store",
        "app",
        "Check or upgrade a store, or put a restored one right.",
        "prio store upgrade --config leader.toml",
    ),
    Entry(
        RUN,
        "keys",
        "keys",
        "app",
        "Change the key that encrypts the secrets of a store.",
        "prio keys rewrap --config leader.toml",
    ),
    Entry(
        RUN,
        "backup",
        "backup",
        "backup",
        "Copy this party's store to a file while it is used, without a key, or check such a file.",
        "prio backup --config leader.toml leader.backup",
    ),
    Entry(
        TASKS,
        "task",
        "tasks",
        "app",
        "Make, add, import, list, show, keep and end tasks.",
        "prio task add --config leader.toml made/leader.toml",
        is_daily=True,
    ),
    Entry(
        PRIVACY,
        "ledger",
        "ledger",
        "ledger",
        "Print every release with its cost, and what is left of each task's budget.",
        "prio ledger --config helper.toml",
    ),
    Entry(
        PRIVACY,
        "population",
        "population",
        "population",
        "Fix what all tasks that ask the same people may cost together.",
        "prio population --config leader.toml staff-2026 --epsilon 4",
    ),
    Entry(
        LOOK,
        "warm",
        "warm",
        "warm",
        "Compile the kernels of every type, and keep them in NUMBA_CACHE_DIR if that is set.",
        "prio warm",
    ),
)

GROUPS: Final = {
    "leader": {
        "serve": "Take uploads and collection requests.",
        "work": "Drive aggregation and collection jobs; any number of such processes may run.",
    },
    "helper": {
        "serve": "Answer the leader and hand out HPKE configurations.",
        "work": (
            "Answer the jobs that a helper with `defer_jobs` has deferred; any number may run."
        ),
    },
    "job": {
        "list": (
            "Print every waiting job with its reason; with --batch, the jobs that a batch counts."
        ),
        "show": "Print a job as JSON, ended or not.",
        "retry": "Continue a job at once with the same request, even if it is held.",
        "abandon": (
            "Give up a job of the leader, return its reports or drop them, and tell the helper."
        ),
        "compare": "Name the jobs of a batch that the two aggregators have counted differently.",
        "leave-out": (
            "Leave jobs out of an uncollected batch for ever; do it at both aggregators."
        ),
    },
    "hpke": {
        "new": "Make an HPKE key pair of each suite that is set, and print their ids.",
        "list": (
            "Print the ids of the HPKE key pairs, newest first, and what they are still needed for."
        ),
        "retire": (
            "Stop advertising an HPKE key pair; the service destroys it when no report can need it."
        ),
    },
    "store": {
        "check": (
            "Read a whole SQLite store for damage, while services use it; without any they may "
            "write."
        ),
        "upgrade": (
            "Upgrade a store to this program's schema in one transaction; stop its processes first."
        ),
        "give-up-bodies": (
            "Give up the waiting reports whose bodies are lost; stop the leader's processes first."
        ),
        "restored": (
            "Close and charge what may have been released since the backup that this store is from."
        ),
    },
    "keys": {
        "new": "Print a new store key: hand it to nobody else.",
        "rewrap": (
            "Encrypt all secrets of the store anew under the first of its keys; the others "
            "can then go."
        ),
    },
    "task": {
        "new": "Make a task: the public task.toml and one file with secrets for each party.",
        "add": "Take part in a task, or in all of a survey's. Adding a file again changes nothing.",
        "import": "Take part in a task made elsewhere, under the exact bytes of its configuration.",
        "list": "Print the tasks that this party takes part in, one per line, each with its state.",
        "show": "Print a task with its privacy and the counts of its reports, as JSON.",
        "keep": (
            "Set how long an aggregator keeps what has ended of a task: jobs, answers, counts."
        ),
        "end": "Take no more uploads for a task; what was uploaded can still be collected.",
        "forget": (
            "Delete an ended task with everything but what its releases cost; it cannot be "
            "added again."
        ),
        "check": "Check a task file and print the fingerprints, which all parties must agree on.",
        "token": "Replace the tokens by which parties know each other.",
    },
    "task token": {
        "new": (
            "Make a further token for the caller of this party, and print it: hand it to "
            "nobody else."
        ),
        "list": "Print the names of the tokens that this party's caller may use, and until when.",
        "retire": "Refuse a token from soon on; the task must have another one.",
        "use": (
            "Use another token from now on: the leader at the helper, the collector at the leader."
        ),
    },
}
