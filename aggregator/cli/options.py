"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

TaskArgument = Annotated[
    str, typer.Argument(metavar="TASK_ID", help="As in the task file; `prio task list` prints it.")
]

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The party's service file; without it the environment (PRIO_…) says everything.",
    ),
]
