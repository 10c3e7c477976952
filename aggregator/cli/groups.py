"""The commands of every group by name, so that help and completion load no command.

A command's module is imported, and its options are built, when it is called.
"""

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_name, get_group
from typing_extensions import override

from aggregator.cli.advanced import folded, help_all

HELP: Final[Mapping[str, Mapping[str, str]]] = json.loads(
    Path(__file__).with_name("help.json").read_text("utf-8")
)
"""The first sentence of each command and group by its names, and its heading if it has one.

Written from docstrings by `python -m tests.support.reference docs`.
"""


def rows_below(path: str) -> Mapping[str, Mapping[str, str]]:
    """Return the rows of the commands in a group, by their last name; none if it is no group."""
    below = {name.rpartition(" ")[::2]: row for name, row in HELP.items()}
    return {name: row for (group, name), row in below.items() if group == path}


def stand_in(name: str, row: Mapping[str, str], **settings: Any) -> TyperCommand:  # noqa: ANN401  # typer's own
    """Return what help shows of a command that is not loaded."""
    return TyperCommand(name, help=row["help"], **settings)


class CommandFirst(TyperGroup):
    """A group that looks for its own options only if no command comes first.

    To find that an option does not exist, typer would import pydantic, which takes longer than
    help.
    """

    @override
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments up to and including the name of a command."""
        if not (args[0] in self.commands if args else ctx.resilient_parsing):
            return super().parse_args(ctx, args)
        own = self.params, self.add_help_option
        self.params, self.add_help_option = [], False
        try:
            return super().parse_args(ctx, args)
        finally:
            self.params, self.add_help_option = own


class Group(CommandFirst):
    """The commands of a group; each is loaded when it is called."""

    def __init__(
        self,
        path: str,
        load: Callable[[], typer.Typer],
        **settings: Any,  # noqa: ANN401  # typer's own
    ) -> None:
        """Take the names that lead to the group, the import, and typer's settings."""
        rows = rows_below(path)
        super().__init__(
            name=path.rpartition(" ")[2],
            commands={
                name: stand_in(name, row, rich_help_panel=row.get("panel"))
                for name, row in rows.items()
            },
            help=HELP[path]["help"],
            no_args_is_help=True,
            **settings,
        )
        self._path, self._load = path, load
        self.params.append(help_all([], "commands"))

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, loaded."""
        name = args[0] if args else ""
        path = f"{self._path} {name}"
        if rows_below(path):
            self.commands[name] = Group(path, lambda: _group_in(self._load(), name))
        elif name in self.commands:
            self.commands[name] = folded(_command_in(self._load(), name), path)
        return super().resolve_command(ctx, args)


def _group_in(app: typer.Typer, name: str) -> Any:  # noqa: ANN401  # a `typer.Typer`
    (found,) = [info.typer_instance for info in app.registered_groups if info.name == name]
    return found


def _command_in(app: typer.Typer, name: str) -> Any:  # noqa: ANN401  # typer does not export its commands' type
    """Return one command, without building the options of the others."""
    alone = copy.copy(app)
    alone.registered_groups = []
    alone.registered_commands = [
        info
        for info in app.registered_commands
        if name == (info.name or (info.callback and get_command_name(info.callback.__name__)))
    ]
    return get_group(alone).commands[name]
