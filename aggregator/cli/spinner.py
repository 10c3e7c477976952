"""Shows on a terminal that something moves, and for how long it has: on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def at_work(what: str, total: int | None = None) -> Iterator[Callable[[str], None]]:
    """Show a bar with the time taken while something is done; it is gone afterwards.

    Args:
        what: What is done.
        total: How many steps it has; None if nobody knows.

    Yields:
        Says what is done next, after a step.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=False,
        refresh_per_second=2,  # what is measured meanwhile must not suffer
    ) as progress:
        bar = progress.add_task(what, total=total)

        def advance(following: str) -> None:
            progress.update(bar, advance=1, description=following)

        yield advance
