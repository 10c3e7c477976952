"""Options that several commands share."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typing_extensions import override

from aggregator.written_times import IN_UTC

_TASK_ID_WITH_HYPHEN = re.compile(r"-[A-Za-z0-9_-]{42}")
"""One task id in 64 begins with a hyphen, like an option; no option is as long as an id."""


class TaskCommand(TyperCommand):
    """A command on a task, whose id may begin with a hyphen."""

    @override
    def parse_args(  # type: ignore[override]  # typer runs its commands in its own context
        self, ctx: typer.Context, args: list[str]
    ) -> list[str]:
        """Parse arguments, treating such task ids as arguments and not as options."""
        if "--" not in args:
            task_ids = [arg for arg in args if _TASK_ID_WITH_HYPHEN.fullmatch(arg)]
            others = [arg for arg in args if arg not in task_ids]
            args = [*others, "--", *task_ids]
        return super().parse_args(ctx, args)


TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK_ID", help="The task's id, as in its file; `prio task list` prints it."
    ),
]

WhichTask = Annotated[
    str | None,
    typer.Option(
        "--which",
        metavar="NAME",
        help="The task, if the file holds several: a survey's title or a task's id.",
    ),
]

OfProfile = Annotated[
    str,
    typer.Option(
        help="The draft of DAP that all parties follow: dap-18, dap-19, or dap-18 as Janus "
        "has it (janus, or janus-2026-08-20 for its commit 4ab28a36)."
    ),
]

InsecureHttp = Annotated[
    bool,
    typer.Option(
        "--insecure-http",
        envvar="PRIO_INSECURE_HTTP",
        help="Allow plain http:// to other machines, which everybody on the way can read.",
    ),
]

EnvironmentProxy = Annotated[
    bool,
    typer.Option(
        "--environment-proxy",
        envvar="PRIO_ENVIRONMENT_PROXY",
        help="Use the proxies that HTTPS_PROXY and similar variables name.",
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]

CollectorConfig = Annotated[
    str, typer.Option(help="The output of `prio collector config` at the collector.")
]

NewFolder = Annotated[
    Path, typer.Option(help="The folder for the files, which must not exist yet.")
]

OutFile = Annotated[
    Path | None, typer.Option(help="The file to write; without it, standard output.")
]

Timeout = Annotated[float, typer.Option(help="How many seconds to wait for the result.")]

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The party's service file; if not given, all settings come from the environment "
        "(PRIO_…).",
    ),
]


Up = Annotated[
    Path | None,
    typer.Option(
        "--up",
        metavar="FOLDER",
        help="The folder of a `prio up`; if not given, the current folder if it is one, or else "
        "prio-up.",
    ),
]


def parse_time(text: str | None, name: str) -> int | None:
    """Return a time in seconds since the epoch: ISO 8601 (UTC if no zone is given) or seconds."""
    return None if text is None else IN_UTC.read(text, name)


def not_yet(*, is_driven: bool) -> str:
    """Return why a job that nothing has blocked so far has not ended."""
    return "a worker is at it" if is_driven else "no worker has come to it yet"


def with_options(
    command: Callable[..., None],
    argument: str,
    options: Mapping[str, inspect.Parameter],
    make: Callable[..., object],
) -> Callable[..., None]:
    """Return a command for typer that has further options, by name, in place of one argument.

    `make` is called with the options and returns the argument's value. No other argument has their
    names.
    """

    @functools.wraps(command)
    def with_them(**arguments: Any) -> None:  # noqa: ANN401  whatever the command takes
        given = {name: arguments.pop(name) for name in options}
        command(**arguments, **{argument: make(**given)})

    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        stands = options.values() if name == argument else [parameter]
        parameters += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in stands]
    with_them.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(with_them)["__signature__"] = inspect.Signature(parameters)
    return with_them
