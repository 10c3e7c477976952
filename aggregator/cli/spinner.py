"""Shows on standard error that work goes on, and for how long it has."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def spinning(what: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Show a bar with the time taken while work goes on; it disappears afterwards.

    Yields a function to call after each of `total` steps, with the name of the next one. Nothing is
    shown, and rich is not loaded, where standard error is no terminal and none is pretended.
    """
    if not sys.stderr.isatty() and not os.environ.keys() & {"TTY_COMPATIBLE", "FORCE_COLOR"}:
        yield lambda _following: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=False,
        refresh_per_second=2,  # a measurement meanwhile must not suffer
    ) as progress:
        bar = progress.add_task(what, total=total)

        def advance(following: str) -> None:
            progress.update(bar, advance=1, description=following)

        yield advance
