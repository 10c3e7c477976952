"""`prio ledger`: what an aggregator has released, and what that has cost a person at most."""

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from aggregator.cli.options import Config
from aggregator.cli.parties import open_aggregator
from aggregator.cli.tasks import task_id_of
from aggregator.collector.documents import Document
from aggregator.dap.ids import TaskId
from aggregator.dp.budget import format_rational
from aggregator.protocol.budget import cost
from aggregator.protocol.task import Task
from aggregator.storage.ledger import LedgerEntry
from aggregator.storage.states import LedgerState


def ledger(
    config: Config = None,
    task: Annotated[str | None, typer.Option(help="Only this task, by its id.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Print every release with its cost, and what is left of each task's budget.

    A reservation counts as spent until the release turns it into a charge or its failure takes it
    back.
    """
    only = None if task is None else task_id_of(task)
    with open_aggregator(config) as desk:
        entries = desk.ledger(only)
        tasks = [each for each in desk.tasks() if only is None or each.task_id == only]
    documents = [_task_document(each, _of(entries, each)) for each in tasks]
    if as_json:
        print(json.dumps({"version": 1, "tasks": documents}))
        return
    for document in documents:
        _print(document)


def _of(entries: Sequence[LedgerEntry], task: Task) -> list[LedgerEntry]:
    return [entry for entry in entries if entry.task_id == task.task_id.value]


def _task_document(task: Task, entries: Sequence[LedgerEntry]) -> Document:
    precision = task.time_precision
    spent = cost(task, len(entries))
    budget = task.policy.budget
    return {
        "task_id": str(TaskId(task.task_id.value)),
        "population": task.policy.population,
        "mechanism": task.policy.mechanism.name,
        "releases": [
            {
                "start": entry.start * precision,
                "end": entry.end * precision,
                "mechanism": entry.charge.mechanism,
                "epsilon": entry.charge.epsilon,
                "delta": entry.charge.delta,
                "rho": entry.charge.rho,
                "state": str(entry.state),
                "at": entry.created_at if entry.charged_at is None else entry.charged_at,
            }
            for entry in entries
        ],
        "reserved": sum(entry.state is LedgerState.RESERVED for entry in entries),
        "epsilon_of_a_person": format_rational(spent),
        "budget": None if budget is None else format_rational(budget),
        "left": None if budget is None else format_rational(budget - spent),
    }


def _print(document: Document) -> None:
    console = Console()
    releases = document["releases"]
    table = Table(
        "from",
        "to",
        "mechanism",
        "epsilon",
        "delta",
        "rho",
        "state",
        title=str(document["task_id"]),
    )
    for release in releases if isinstance(releases, list) else ():
        names = ("start", "end", "mechanism", "epsilon", "delta", "rho", "state")
        table.add_row(*("" if release[name] is None else str(release[name]) for name in names))
    console.print(table)
    console.print(f"a person's cost, added up: epsilon {document['epsilon_of_a_person']}")
    if document["budget"] is not None:
        console.print(f"budget {document['budget']}, left {document['left']}")
