"""The rows of the table of commands; every wing has its own."""

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import typer
from typer.core import TyperCommand
from typer.main import get_command, get_group

from aggregator.cli.advanced import folded
from aggregator.cli.groups import Group, rows_below
from aggregator.cli.process import ends_at_once
from aggregator.errors import ConfigurationError

TRY: Final = "Try it"
RUN: Final = "Run a party"
TASKS: Final = "Ask a question"
PRIVACY: Final = "Choose and check the privacy"
LOOK: Final = "Look inside"
PANELS: Final = (TRY, RUN, TASKS, PRIVACY, LOOK)
"""The headings, in the order of the help."""

_STORED: Final = ("alembic", "pydantic", "sqlalchemy")
_SERVED: Final = (*_STORED, "fastapi", "uvicorn")
_WINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "service": _STORED,
    "collector": _SERVED,
    "steward": ("pydantic",),
    "local": (*_SERVED, "numba"),
}
_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "leader": (*_SERVED, "numba"),
    "helper": (*_SERVED, "numba"),
    "warm": ("numba",),
    "plan": ("pydantic", "fastapi", "uvicorn"),
}
"""Imports that the bare package does not bring, for each wing's and some other commands."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One command, or one group of commands.

    Attributes:
        panel: The heading under which the help shows it.
        example: A call of it, for the end of its help.
        module: The module that runs it, in its wing's package of `aggregator.cli`; if not given, it
            has the command's name.
        attribute: Its function in that module, or the `typer.Typer` of a group; if not given, it
            has the command's name.
        hands_on: Whether it passes all its arguments on, `--help` included.
        is_daily: Whether the first help shows it; `prio --help-all` shows every command.
        wing: The package of `aggregator.cli` that holds its module, and the extra that brings what
            it needs.
    """

    panel: str
    name: str
    example: str
    module: str = ""
    attribute: str = ""
    cls: type[TyperCommand] = TyperCommand
    hands_on: bool = False
    is_daily: bool = False
    wing: str = ""

    def open(self) -> Any:  # noqa: ANN401  # typer does not export its commands' type
        """Return the command; for a group, only the names of its commands, without their module."""
        if not rows_below(self.name):
            return self.load()
        return Group(self.name, self._found, epilog=self._epilog)

    @property
    def _epilog(self) -> str:
        return f"Example: {self.example}"

    def _found(self) -> Any:  # noqa: ANN401  # a function or a `typer.Typer`
        needed = _COMMANDS.get(self.name) or _WINGS.get(self.wing, ())
        missing = [name for name in needed if find_spec(name) is None]
        if missing:
            extra = "service,collector" if self.wing == "local" else self.wing
            raise ConfigurationError(
                f"prio {self.name} needs {', '.join(missing)}: "
                f"pip install 'prio-aggregator[{extra}]'"
            )
        word = self.name.replace("-", "_")
        with ends_at_once():
            parts = filter(None, ("aggregator.cli", self.wing, self.module or word))
            return getattr(import_module(".".join(parts)), self.attribute or word)

    def load(self) -> Any:  # noqa: ANN401  # typer does not export its commands' type
        """Import the module and return the command; a group comes with all its commands."""
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
            command = folded(get_command(app), self.name)
        command.name = self.name
        command.epilog = self._epilog
        return command


def in_wing(wing: str, *entries: Entry) -> tuple[Entry, ...]:
    """Return the rows of a wing's commands."""
    return tuple(dataclasses.replace(entry, wing=wing) for entry in entries)
