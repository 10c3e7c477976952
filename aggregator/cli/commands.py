"""Every command by name, with the module that runs it, loaded only when the command is called.

`prio --help`, `prio --version` and a shell's completion read only this table. The module of a
command imports what it needs (numba, FastAPI, SQLAlchemy), which takes a second or more.
"""

import dataclasses
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group
from typing_extensions import override

from aggregator.cli.groups import GROUPS, CommandFirst, Group
from aggregator.cli.interrupts import ends_at_once
from aggregator.cli.options import TaskCommand


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One command, or one group of commands.

    Attributes:
        panel: The heading under which the help shows it.
        name: What the user types.
        module: The module of `aggregator.cli` that runs it.
        attribute: Its function in that module, or the `typer.Typer` of a group.
        help: What it does: the first line of the function's docstring or of the group's help.
        example: How it is called, for the end of its help.
        cls: The class of the command made from a function.
        hands_on: Whether it passes all its arguments on, `--help` included.
    """

    panel: str
    name: str
    module: str
    attribute: str
    help: str
    example: str
    cls: type[TyperCommand] = TyperCommand
    hands_on: bool = False

    def open(self) -> Any:  # noqa: ANN401  # typer does not export its commands' type
        """Return the command; of a group only what leads to its commands, without the module."""
        if self.name not in GROUPS:
            return self.load()
        return Group(self.name, self._found, help=self.help, epilog=f"Example: {self.example}")

    def _found(self) -> Any:  # noqa: ANN401  # a function or a `typer.Typer`
        with ends_at_once():
            return getattr(import_module(f"aggregator.cli.{self.module}"), self.attribute)

    def load(self) -> Any:  # noqa: ANN401  # typer does not export its commands' type
        """Import the module and return the command, with all commands of a group."""
        command: Any
        found = self._found()
        if isinstance(found, typer.Typer):
            command = get_group(found)
        else:
            app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            app.command(
                cls=self.cls,
                add_help_option=not self.hands_on,
                context_settings={
                    "allow_extra_args": self.hands_on,
                    "ignore_unknown_options": self.hands_on,
                },
            )(found)
            command = get_command(app)
        command.name = self.name
        command.epilog = f"Example: {self.example}"
        return command


TRY: Final = "Try it"
RUN: Final = "Run a party"
TASKS: Final = "Ask a question"
PRIVACY: Final = "Choose and check the privacy"
LOOK: Final = "Look inside"

COMMANDS: Final = (
    Entry(
        TRY,
        "demo",
        "local.demo",
        "demo",
        "Run both aggregators and a collector here, and a real data set through them.",
        "prio demo --keep demo",
    ),
    Entry(
        TRY,
        "up",
        "local.up",
        "up",
        "Run leader, helper and collector on this machine, until Ctrl-C: to try things out.",
        "prio up --survey survey.toml",
    ),
    Entry(
        RUN,
        "leader",
        "service.serve",
        "leader",
        "Run the leader.",
        "prio leader serve --config leader.toml --work",
    ),
    Entry(
        RUN,
        "helper",
        "service.serve",
        "helper",
        "Run the helper.",
        "prio helper serve --config helper.toml",
    ),
    Entry(
        RUN,
        "collector",
        "collector.collector",
        "app",
        "Run the collector.",
        "prio collector serve --config collector.toml",
    ),
    Entry(
        RUN,
        "status",
        "service.status",
        "status",
        "Print whether this party's work moves, what waits and why; the exit status is 1 if not.",
        "prio status --config leader.toml",
    ),
    Entry(
        RUN,
        "doctor",
        "service.doctor",
        "doctor",
        "Examine another aggregator: TLS, clocks, keys, limits, and the tasks shared with it.",
        "prio doctor --config leader.toml --peer https://helper.example/",
    ),
    Entry(
        RUN,
        "job",
        "service.jobs",
        "app",
        "List what waits, and why; retry, abandon and compare jobs.",
        "prio job list --config leader.toml",
    ),
    Entry(
        RUN,
        "hpke",
        "service.hpke_keys",
        "app",
        "Make, list and retire HPKE key pairs.",
        "prio hpke list --config helper.toml",
    ),
    Entry(
        RUN,
        "store",
        "service.store",
        "app",
        "Upgrade a store, or put a restored one right.",
        "prio store upgrade --config leader.toml",
    ),
    Entry(
        RUN,
        "keys",
        "service.keys",
        "app",
        "Change the key that encrypts the secrets of a store.",
        "prio keys rewrap --config leader.toml",
    ),
    Entry(
        RUN,
        "backup",
        "service.backup",
        "backup",
        "Copy this party's store to a file while it is used, without a key, or check such a file.",
        "prio backup --config leader.toml leader.backup",
    ),
    Entry(
        TASKS,
        "survey",
        "steward.survey",
        "app",
        "Ask people a survey: check it, make its tasks, upload answers.",
        "prio survey check survey.toml",
    ),
    Entry(
        TASKS,
        "task",
        "service.tasks",
        "app",
        "Make, add, list, show, keep and end tasks.",
        "prio task add --config leader.toml made/leader.toml",
    ),
    Entry(
        TASKS,
        "upload",
        "collector.measure",
        "upload",
        "Shard, seal and upload measurements, one report each.",
        "prio upload task.toml --csv answers.csv --column health --buckets good,fair,poor",
    ),
    Entry(
        TASKS,
        "collect",
        "collector.measure",
        "collect",
        "Collect a batch and print the result with its error bars.",
        "prio collect --config collector.toml TASK_ID --start 2026-11-02 --end 2026-11-09",
        TaskCommand,
    ),
    Entry(
        PRIVACY,
        "plan",
        "steward.plan",
        "app",
        "Plan what a release may cost: selection, thresholds, risks, budgets, errors.",
        "prio plan error --epsilon 1/2 --circuit count",
    ),
    Entry(
        PRIVACY,
        "ledger",
        "service.ledger",
        "ledger",
        "Print every release with its cost, and what is left of each task's budget.",
        "prio ledger --config helper.toml",
    ),
    Entry(
        PRIVACY,
        "population",
        "service.population",
        "population",
        "Fix what all tasks that ask the same people may cost together.",
        "prio population --config leader.toml staff-2026 --epsilon 4",
    ),
    Entry(
        PRIVACY,
        "audit",
        "steward.audit",
        "app",
        "Test the noise of releases.",
        "prio audit self-test --circuit count --epsilon 1/2",
    ),
    Entry(
        PRIVACY,
        "noise",
        "steward.noise",
        "noise",
        "Draw noise as a release does, from the operating system's entropy, and save it.",
        "prio noise --scale 2 --count 1000 --out noise.npy",
    ),
    Entry(
        LOOK,
        "decode",
        "decode",
        "decode_file",
        "Print a DAP message as text, field by field.",
        "prio decode --message upload-req upload.bin",
    ),
    Entry(
        LOOK,
        "vdaf",
        "vdaf",
        "app",
        "Check the VDAF against test vectors.",
        "prio vdaf check Prio3Count_0.json",
    ),
    Entry(
        LOOK,
        "warm",
        "service.warm",
        "warm",
        "Compile the kernels of every type, and keep them in NUMBA_CACHE_DIR if that is set.",
        "prio warm",
    ),
    Entry(
        LOOK,
        "bench",
        "bench",
        "bench",
        "Measure this machine, in a source checkout.",
        "prio bench report",
        hands_on=True,
    ),
)


class Commands(CommandFirst):
    """The commands of the table, each loaded when it is called."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # typer's own
        """Take typer's settings and put a placeholder for each command."""
        super().__init__(**settings)
        self._entries = {entry.name: entry for entry in COMMANDS}
        for entry in COMMANDS:
            stand_in = TyperCommand(entry.name, help=entry.help, rich_help_panel=entry.panel)
            self.commands.setdefault(entry.name, stand_in)

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        return [*self._entries, *(name for name in self.commands if name not in self._entries)]

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, loaded."""
        entry = self._entries.get(args[0]) if args else None
        if entry is not None:
            self.commands[entry.name] = entry.open()
        return super().resolve_command(ctx, args)
