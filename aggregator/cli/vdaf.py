"""`prio vdaf`: checks this implementation against test vectors."""

from pathlib import Path
from typing import Annotated

import typer

from aggregator.errors import ConfigurationError

app = typer.Typer(help="Check the VDAF against test vectors.", no_args_is_help=True)


@app.callback()
def vdaf() -> None:
    """Check the VDAF against test vectors."""


@app.command()
def check(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files in the published format, whose names begin with the type and _."
        ),
    ],
) -> None:
    """Replay test vectors: every step, and every byte that a file publishes.

    Prints a line per file that fails, with the step and the reason, and ends with a count. The exit
    status is 1 if any file failed.
    """
    from aggregator.cli.spinner import spinning

    problems = []
    with spinning("replaying", len(files)) as advance:
        for file in files:
            problems.append(_problem(file))
            advance(f"replayed {file.name}")
    failed = [pair for pair in zip(files, problems, strict=True) if pair[1] is not None]
    for file, problem in failed:
        typer.echo(f"FAILED {file}: {problem}")
    failures = len(failed)
    typer.echo(f"{len(files) - failures} passed, {failures} failed")
    if failures:
        raise typer.Exit(1)


def _problem(file: Path) -> str | None:
    """Return why a file fails, or None."""
    from aggregator.service.config import read_text
    from aggregator.vdaf.check import run_vector_file
    from aggregator.vdaf.vector_files import VectorFailure

    try:
        run_vector_file(file.name, read_text(file))
    except (OSError, ConfigurationError) as error:
        return f"cannot be read: {error}"
    except VectorFailure as failure:
        return str(failure)
    return None
