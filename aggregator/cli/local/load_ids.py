"""The ids of earlier reports that `prio load` puts into the stores before it measures."""

import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import Progress

from aggregator.cli.local.load_stack import Stack

if TYPE_CHECKING:
    from sqlalchemy import Table

    from aggregator.protocol.task import Task
    from aggregator.service.storage.engine.database import Database
    from aggregator.service.storage.engine.transaction import Transaction

DAYS: Final = 400
"""For how many days before the first report of a measurement there are ids."""
_IDS_AT_ONCE: Final = 2000


def fill_stores(stack: Stack, task: "Task", first_day: int, count: int, console: Console) -> None:
    """Let both aggregators remember `count` ids of a task, of `DAYS` days before `first_day`."""
    from aggregator.cli.service.parties import open_aggregator
    from aggregator.service.storage.engine import tables

    of_party = {"leader": tables.report_ids, "helper": tables.aggregated_reports}
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task(f"{count:,} ids of earlier reports", total=2 * count)
        for party, table in of_party.items():
            with open_aggregator(stack.folder.config(party)) as there:
                place = there.database, table, task.task_id.value
                fill(*place, first_day, count, partial(progress.advance, bar))
    stack.settle()


def fill(
    database: "Database",
    table: "Table",
    task_id: bytes,
    first_day: int,
    count: int,
    progress: Callable[[int], object] = lambda _: None,
    days: int = DAYS,
) -> None:
    """Remember `count` random ids of reports, the same number of each of some days before a day.

    Args:
        database: An aggregator's store.
        table: Its table of ids.
        task_id: The task.
        first_day: The day, in days since the epoch; the ids of each earlier day come in its turn.
        count: How many ids.
        progress: Called with the number of ids that have been stored since.
        days: How many days.
    """
    from aggregator.service.storage.reports.ids import admit

    def remember(tx: "Transaction", day: int, some: int) -> None:
        arrivals = [(secrets.token_bytes(16), b"") for _ in range(some)]
        admit(tx, table, task_id, arrivals, [day] * some, (), {})

    for number in range(days):
        of_day = count * (number + 1) // days - count * number // days
        for start in range(0, of_day, _IDS_AT_ONCE):
            some = min(_IDS_AT_ONCE, of_day - start)
            work = partial(remember, day=first_day - days + number, some=some)
            database.run_sync("remember ids", work)
            progress(some)
