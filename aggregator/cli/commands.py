"""Every command by name, with the module that runs it, loaded only when the command is called.

`prio --help`, `prio --version` and a shell's completion read only the tables; each wing has its
own. A command's module imports what it needs (numba, FastAPI, SQLAlchemy), which takes a second or
more.
"""

from collections.abc import Mapping
from typing import Any, Final

from typer.core import TyperCommand
from typing_extensions import override

from aggregator.cli import client, collector, local, service, steward
from aggregator.cli.advanced import help_all
from aggregator.cli.entries import LOOK, PANELS, Entry
from aggregator.cli.groups import CommandFirst, Rows

_ROWS = (
    *local.COMMANDS,
    *service.COMMANDS,
    *client.COMMANDS,
    *collector.COMMANDS,
    *steward.COMMANDS,
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
        "bench",
        "bench",
        "bench",
        "Measure this machine, in a source checkout.",
        "prio bench report",
        hands_on=True,
    ),
)

COMMANDS: Final = tuple(sorted(_ROWS, key=lambda entry: PANELS.index(entry.panel)))

GROUPS: Final[Mapping[str, Rows]] = {
    **service.GROUPS,
    **collector.GROUPS,
    **steward.GROUPS,
    "vdaf": {"check": "Replay test vectors: every step, and every byte that a file publishes."},
}
"""The first docstring line of each command in a group, by the names that lead to the group.

A name that has rows of its own is a group.
"""


class Commands(CommandFirst):
    """The commands of the table; each is loaded when it is called."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # typer's own
        """Take typer's settings and put a placeholder for each command."""
        super().__init__(**settings)
        self._entries = {entry.name: entry for entry in COMMANDS}
        for entry in COMMANDS:
            stand_in = TyperCommand(
                entry.name, help=entry.help, rich_help_panel=entry.panel, hidden=not entry.is_daily
            )
            self.commands.setdefault(entry.name, stand_in)
        rest = [each for each in self.commands.values() if each.hidden]
        self.params.append(help_all(rest, "commands"))

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        return [*self._entries, *(name for name in self.commands if name not in self._entries)]

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, loaded."""
        entry = self._entries.get(args[0]) if args else None
        if entry is not None:
            self.commands[entry.name] = entry.open(GROUPS)
        return super().resolve_command(ctx, args)
