"""The commands of every group by name, so that a group's help and a shell's TAB load no command.

A command's module is imported, and its options are made, when it is called.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_name, get_group
from typing_extensions import override

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "leader": {
        "serve": "Take uploads and collection requests.",
        "work": "Drive aggregation and collection jobs; any number of such processes may run.",
    },
    "helper": {
        "serve": "Answer the leader and hand out HPKE configurations.",
    },
    "collector": {
        "config": (
            "Print the HPKE configuration that tasks name, made on first use: for `prio task new`."
        ),
        "results": "Print every collection of a task with its result, oldest first, as JSON.",
        "abandon": (
            "Give a collection up whose leader is gone for ever, and tell the leader if it answers."
        ),
        "serve": "List tasks, collect batches and keep results: pages, and JSON over HTTP.",
    },
    "job": {
        "list": (
            "Print every job that waits, with the reason; with --batch, the jobs that a batch "
            "counts."
        ),
        "show": "Print a job as JSON, ended or not.",
        "retry": "Go on with a job at once, with the same request; also with one that is held.",
        "abandon": (
            "Give a job of the leader up, return its reports or drop them, and tell the helper."
        ),
        "compare": "Name the jobs of a batch that the aggregators have not counted alike.",
        "leave-out": (
            "Take jobs out of a batch that is not collected, for ever; do it at both aggregators."
        ),
    },
    "hpke": {
        "new": "Make an HPKE key pair, which is advertised before the others, and print its id.",
        "list": (
            "Print the ids of the HPKE key pairs, newest first, and what they are still needed for."
        ),
        "retire": (
            "Stop advertising an HPKE key pair; the service destroys it when no report can need it."
        ),
    },
    "store": {
        "upgrade": (
            "Bring a store to this program's schema, in one transaction; stop its processes first."
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
    "survey": {
        "check": (
            "Check a survey file and print how each question would be asked, and with what error."
        ),
        "new": (
            "Make the tasks of a survey: the public tasks.toml and one secret file for each party."
        ),
        "show": (
            "Print what the tasks of a survey ask, and the fingerprints that all parties must "
            "agree on."
        ),
        "upload": "Upload a table of answers to all questions of a survey.",
        "collect": "Collect all questions of one or more windows, and print what they say.",
        "results": "Print everything that was collected of a survey, with labels and intervals.",
    },
    "task": {
        "new": "Make a task: the public task.toml and one file with secrets for each party.",
        "add": "Take part in a task, or in all of a survey's. Adding a file again changes nothing.",
        "list": "Print the tasks that this party takes part in, one per line, each with its state.",
        "show": "Print a task with its privacy and the counts of its reports, as JSON.",
        "keep": (
            "Set how long an aggregator keeps what ended of a task: jobs, answers, counts of "
            "batches."
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
        "list": "Print the names of the tokens that this party's caller may show, and until when.",
        "retire": "Refuse a token soon; another one must be left.",
        "use": (
            "Show another token from now on: the leader to the helper, the collector to the leader."
        ),
    },
    "plan": {
        "selection": (
            "Which private buckets may be shown: the optimal rule, its rivals, and the one to take."
        ),
        "keep": "Draw which private buckets are shown, by the optimal rule.",
        "threshold": "What suppressing small counts without noise protects, and what it does not.",
        "risk": "The exact law of the privacy loss of one release.",
        "claims": 'What "privacy at risk" claims, recomputed and labelled, beside what is sound.',
        "budget": "What would be owed after a breach, in the model of Dandekar, Basu and Bressan.",
        "compose": "What several releases cost together, by every theorem at hand.",
        "advise": "From a question to a privacy section, with three sentences for a board.",
        "error": "How far a result lies from the truth under a mechanism's noise.",
        "serve": (
            "Open the planner as a page: charts with real noise, costs, and survey.toml to save."
        ),
        "figures": "Draw the papers' figures, keeping what was published apart from what is sound.",
    },
    "audit": {
        "pair": "Test whether two running aggregators add the noise that a task says.",
        "self-test": (
            "Try to refute what a mechanism promises by releasing made-up neighbours many "
            "times here."
        ),
    },
    "vdaf": {
        "check": "Replay test vectors: every step, and every byte that a file publishes.",
    },
}
"""What each command of a group does: the first line of its docstring, by the names that lead to it.

A name of which there are rows of its own is a group.
"""


class CommandFirst(TyperGroup):
    """A group that looks for options of its own only if no command comes first.

    To find that an option is not there typer would import pydantic, which takes longer than help.
    """

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse what comes before the name of a command, and that name."""
        if not (args[0] in self.commands if args else ctx.resilient_parsing):
            return super().parse_args(ctx, args)
        own = self.params, self.add_help_option
        self.params, self.add_help_option = [], False
        try:
            return super().parse_args(ctx, args)
        finally:
            self.params, self.add_help_option = own


class Group(CommandFirst):
    """The commands of a group, each loaded when it is called."""

    def __init__(self, path: str, load: Callable[[], typer.Typer], **settings: Any) -> None:  # noqa: ANN401  # typer's own
        """Take the names that lead to the group, what imports it, and typer's settings."""
        rows = GROUPS[path]
        stand_ins = {name: TyperCommand(name, help=does) for name, does in rows.items()}
        super().__init__(
            name=path.rpartition(" ")[2], commands={**stand_ins}, no_args_is_help=True, **settings
        )
        self._path, self._load = path, load

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, loaded."""
        name = args[0] if args else ""
        path = f"{self._path} {name}"
        if path in GROUPS:
            within = Group(
                path, lambda: _group_in(self._load(), name), help=GROUPS[self._path][name]
            )
            self.commands[name] = within
        elif name in self.commands:
            self.commands[name] = _command_in(self._load(), name)
        return super().resolve_command(ctx, args)


def _group_in(app: typer.Typer, name: str) -> Any:  # noqa: ANN401  # a `typer.Typer`
    (found,) = [info.typer_instance for info in app.registered_groups if info.name == name]
    return found


def _command_in(app: typer.Typer, name: str) -> Any:  # noqa: ANN401  # typer does not export its commands' type
    """Return one command, without making the options of the others."""
    alone = copy.copy(app)
    alone.registered_groups = []
    alone.registered_commands = [
        info
        for info in app.registered_commands
        if name == (info.name or (info.callback and get_command_name(info.callback.__name__)))
    ]
    return get_group(alone).commands[name]
