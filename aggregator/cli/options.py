"""Options that several commands share."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand
from typing_extensions import override

from aggregator.errors import ParameterError

_TASK_ID_WITH_HYPHEN = re.compile(r"-[A-Za-z0-9_-]{42}")
"""One task id in 64 begins with a hyphen, as an option does; no option is that long."""


class TaskCommand(TyperCommand):
    """A command on a task, whose id may begin with a hyphen."""

    @override
    def parse_args(  # type: ignore[override]  # typer runs its commands in its own context
        self, ctx: typer.Context, args: list[str]
    ) -> list[str]:
        """Parse arguments, taking such task ids for arguments and not for options."""
        if "--" not in args:
            task_ids = [arg for arg in args if _TASK_ID_WITH_HYPHEN.fullmatch(arg)]
            others = [arg for arg in args if arg not in task_ids]
            args = [*others, "--", *task_ids]
        return super().parse_args(ctx, args)


TaskArgument = Annotated[
    str, typer.Argument(metavar="TASK_ID", help="As in the task file; `prio task list` prints it.")
]

InsecureHttp = Annotated[
    bool,
    typer.Option(
        "--insecure-http",
        envvar="PRIO_INSECURE_HTTP",
        help="Allow plain http:// to other machines: everybody on the way can read it.",
    ),
]

EnvironmentProxy = Annotated[
    bool,
    typer.Option(
        "--environment-proxy",
        envvar="PRIO_ENVIRONMENT_PROXY",
        help="Use the proxies of HTTPS_PROXY and the like.",
    ),
]

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The party's service file; without it settings come from the environment (PRIO_…).",
    ),
]


def parse_time(text: str | None, name: str) -> int | None:
    """Return a time in seconds since the epoch: ISO 8601 (UTC if no zone is given) or seconds."""
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ParameterError(
            f"{name}: must be ISO 8601 or seconds since 1970, not {text!r}"
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def time_text(seconds: int) -> str:
    """Return a time as `parse_time` takes it; seconds since 1970 beyond the calendar's end."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return str(seconds)
    return moment.strftime("%Y-%m-%dT%H:%MZ" if seconds % 60 == 0 else "%Y-%m-%dT%H:%M:%SZ")
