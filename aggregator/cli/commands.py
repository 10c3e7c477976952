"""Every command by name, with the module that runs it, loaded only when the command is called.

`prio --help`, `prio --version` and a shell's completion read only the tables; each wing has its
own. A command's module imports what it needs (numba, FastAPI, SQLAlchemy), which takes a second or
more.
"""

from typing import Any, Final

from typing_extensions import override

from aggregator.cli import client, collector, local, service, steward
from aggregator.cli.advanced import help_all
from aggregator.cli.entries import LOOK, PANELS, Entry
from aggregator.cli.groups import HELP, CommandFirst, stand_in

_ROWS = (
    *local.COMMANDS,
    *service.COMMANDS,
    *client.COMMANDS,
    *collector.COMMANDS,
    *steward.COMMANDS,
    Entry(LOOK, "decode", "prio decode --message upload-req upload.bin", attribute="decode_file"),
    Entry(LOOK, "vdaf", "prio vdaf check Prio3Count_0.json", attribute="app"),
    Entry(LOOK, "bench", "prio bench report", hands_on=True),
)

COMMANDS: Final = tuple(sorted(_ROWS, key=lambda entry: PANELS.index(entry.panel)))


class Commands(CommandFirst):
    """The commands of the table; each is loaded when it is called."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # typer's own
        """Take typer's settings and put a placeholder for each command."""
        super().__init__(**settings)
        self._entries = {entry.name: entry for entry in COMMANDS}
        for entry in COMMANDS:
            self.commands[entry.name] = stand_in(
                entry.name,
                HELP[entry.name],
                rich_help_panel=entry.panel,
                hidden=not entry.is_daily,
            )
        rest = [each for each in self.commands.values() if each.hidden]
        self.params.append(help_all(rest, "commands"))

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, loaded."""
        entry = self._entries.get(args[0]) if args else None
        if entry is not None:
            self.commands[entry.name] = entry.open()
        return super().resolve_command(ctx, args)
