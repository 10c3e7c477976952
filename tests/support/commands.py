"""Runs commands in the test's own process, which saves starting another."""

import contextlib
import dataclasses
import io
from pathlib import Path
from unittest.mock import patch

from structlog.testing import capture_logs

from aggregator import cli
from tests.support import open_stores


@dataclasses.dataclass(frozen=True)
class Done:
    """What a command printed, and its exit status."""

    returncode: int
    stdout: str
    stderr: str


def run_here(*arguments: str | Path, stdin: str = "") -> Done:
    """Run `prio` with arguments, as `main` would in a process of its own."""
    stdout, stderr = io.StringIO(), io.StringIO()
    status: object = 0
    with (
        open_stores.all_closed(),
        patch("sys.argv", ["prio", *map(str, arguments)]),
        patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
        # The command must not change how this process logs.
        patch("aggregator.cli.program.set_up_with_first_line"),
        capture_logs(),
        patch.dict("os.environ", COLUMNS="120"),
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        try:
            cli.main()
        except SystemExit as end:
            status = end.code
    return Done(status if isinstance(status, int) else 0, stdout.getvalue(), stderr.getvalue())


def service_text(role: str, name: str | None = None) -> str:
    """Return settings of a party whose store and key are named `name`, or after its role."""
    name = name or role
    return (
        f'service.role = "{role}"\nservice.database = "{name}.sqlite"\n'
        f'keys.store_key_file = "{name}.key"\n'
    )


def service_file(folder: Path, role: str, more: str = "") -> Path:
    """Write a party's service file, with its store and key beside it; return its path."""
    file = folder / f"{role}.toml"
    file.write_text(f"{service_text(role)}{more}")
    return file
