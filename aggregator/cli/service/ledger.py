"""`prio ledger`: what an aggregator has released, and what that has cost any person at most."""

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import AsJson, Config
from aggregator.untrusted_text import escaped
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from aggregator.collector.documents import Document
    from aggregator.dp.composition import Bound, Releases
    from aggregator.dp.filters import Cost
    from aggregator.protocol.task import Task
    from aggregator.service.storage.engine.transaction import Transaction
    from aggregator.service.storage.ledger.charges import LedgerEntry
    from aggregator.service.storage.ledger.populations import Population

RELEASE_COLUMNS = ("batch", "mechanism", "epsilon", "delta", "rho", "state")
RELEASE_MEMBERS = (*RELEASE_COLUMNS, "at")
"""The members of a release's document, except those that name its batch."""


def ledger(
    config: Config = None,
    task: Annotated[str | None, typer.Option(help="Only the task with this id.")] = None,
    delta: Annotated[
        str,
        typer.Option(help="The delta at which bounds are compared; choose it before you see them."),
    ] = "1e-6",
    show_all: Annotated[
        bool, typer.Option("--all", help="Print the bound of every theorem, not only the smallest.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print every release with its cost, and what is left of each task's budget.

    A reservation counts as spent until the release turns it into a charge or its failure takes it
    back. A person's cost is that of all releases, added up over the tasks of one declared
    population; of a group of tasks, only the dearest place counts. That a person is in one place
    only is the clients' promise, which no aggregator can check. The cost of a person who keeps to
    max_batches_per_person is shown beside it, and rests on the clients too. A bound is called valid
    if it holds for a collector who decides, after seeing results, when to stop and what to ask
    next.
    """
    from aggregator.cli.service.parties import open_aggregator, task_id_of
    from aggregator.cli.spinner import spinning
    from aggregator.dp.rationals import parse_probability
    from aggregator.protocol.task_file import stored_task
    from aggregator.service.storage.ledger.charges import list_ledger
    from aggregator.service.storage.ledger.populations import get_population
    from aggregator.service.storage.tasks.tasks import list_all_tasks

    only = None if task is None else task_id_of(task)
    level = parse_probability(delta, "delta")

    def read(tx: "Transaction") -> "tuple[list[LedgerEntry], list[Task], dict[str, Population]]":
        tasks = [stored_task(each.definition) for each in list_all_tasks(tx)]
        names = {each.policy.population for each in tasks}
        return list_ledger(tx), tasks, {name: get_population(tx, name) for name in names}

    with open_aggregator(config, may_make=False) as party:
        entries, tasks, fixed = party.database.read_sync("read ledger", read)
    made = [(each, _of(entries, each)) for each in tasks]
    shown = [pair for pair in made if only is None or pair[0].task_id == only]
    with spinning("adding up losses"):
        documents = [_task_document(each, releases, level) for each, releases in shown]
        populations = [
            _population_document(name, fixed[name], made, level)
            for name in dict.fromkeys(each.policy.population for each, _ in shown)
            if name
        ]
    if as_json:
        document = {"version": 1, "tasks": documents, "populations": populations}
        print(json.dumps(document))
        return
    from rich.console import Console

    console = Console(markup=False, highlight=False)
    for each in documents:
        _print_task(console, each, show_all=show_all)
    for each in populations:
        _print_population(console, each, show_all=show_all)


def _of(entries: "Sequence[LedgerEntry]", task: "Task") -> "list[LedgerEntry]":
    return [entry for entry in entries if entry.task_id == task.task_id.value]


def _task_document(task: "Task", entries: "Sequence[LedgerEntry]", delta: Fraction) -> "Document":
    from aggregator.dp.rationals import format_rational
    from aggregator.protocol.budget import cost, horizon, releases_at, task_bounds
    from aggregator.protocol.summary import guarantee_in_short
    from aggregator.service.storage.engine.states import LedgerState

    budget = task.policy.budget
    releases = releases_at(task, [entry.charge.cost for entry in entries])
    return {
        "task_id": str(task.task_id),
        "title": task.title,
        "population": task.policy.population,
        "guarantee": guarantee_in_short(task),
        "mechanism": task.policy.mechanism.name,
        "releases": [
            {
                **task.batching.described(entry.batch, task.time_precision),
                "mechanism": entry.charge.mechanism,
                **_cost(entry.charge.cost),
                "state": str(entry.state),
                "at": entry.created_at if entry.charged_at is None else entry.charged_at,
            }
            for entry in entries
        ],
        "reserved": sum(entry.state is LedgerState.RESERVED for entry in entries),
        "releases_that_promise_nothing": _that_promise_nothing(releases),
        "number_of_releases": len(entries),
        **_of_a_person(releases),
        "declared": _declared(task, len(entries)),
        "most_releases": horizon(task),
        "budget": _text(budget),
        "left": None if budget is None else format_rational(budget - cost(task, len(entries))),
        **_bounds(task_bounds(task, releases, delta, with_pld=True)),
    }


def _declared(task: "Task", made: int) -> "Document | None":
    """Return the cost of a person who keeps to `max_batches_per_person`, if that is declared.

    Releases that promise nothing have no cost to declare.
    """
    from aggregator.protocol.budget import declared_releases

    releases = declared_releases(task, made)
    if releases is None or releases.promises_nothing:
        return None
    return {
        "max_batches_per_person": task.policy.max_batches_per_person,
        "releases": releases.count,
        **_cost(releases.cost),
    }


def _population_document(
    name: str,
    fixed: "Population",
    made: "Sequence[tuple[Task, Sequence[LedgerEntry]]]",
    delta: Fraction,
) -> "Document":
    from aggregator.protocol.budget import population_bounds, population_releases, releases_of

    members = [(task, len(entries)) for task, entries in made if task.policy.population == name]
    everything = [releases_of(task, count) for task, count in members]
    releases = population_releases(members)
    limits = fixed.limits
    return {
        "population": name,
        "tasks": [str(task.task_id) for task, _ in members],
        "releases_that_promise_nothing": _that_promise_nothing(everything),
        "number_of_releases": sum(each.count for each in everything),
        "most_releases_of_a_person": sum(each.count for each in releases),
        **_of_a_person(releases),
        "groups": _groups([task for task, _ in members], everything),
        "budget": None
        if limits is None
        else {
            "epsilon": _text(limits.epsilon),
            "delta": _text(limits.delta),
            "rho": _text(limits.rho),
        },
        "closed": fixed.is_closed,
        **_bounds(
            population_bounds(members, delta, limits, is_closed=fixed.is_closed, with_pld=True)
        ),
    }


def _groups(tasks: "Sequence[Task]", everything: "Sequence[Releases]") -> "Document | None":
    """Return a population's groups, with the cost of a person who does not keep to one place."""
    from aggregator.dp.composition import spent

    groups = [each.policy.group for each in tasks if each.policy.group is not None]
    if not groups:
        return None
    return {
        "places": {
            name: len({each.place for each in groups if each.name == name})
            for name in dict.fromkeys(each.name for each in groups)
        },
        "in_all_places": _cost(spent(everything)),
    }


def _of_a_person(releases: "Sequence[Releases]") -> "Document":
    """Return the added-up cost of the releases, without those that promise nothing."""
    from aggregator.dp.composition import spent

    return {f"{name}_of_a_person": value for name, value in _cost(spent(releases)).items()}


def _cost(cost: "Cost | None") -> "Document":
    """Return a cost as text; null if there is none."""
    if cost is None:
        return dict.fromkeys(("epsilon", "delta", "rho"))
    return {"epsilon": _text(cost.epsilon), "delta": _text(cost.delta), "rho": _text(cost.rho)}


def _text(value: Fraction | None) -> str | None:
    from aggregator.dp.rationals import format_rational

    return None if value is None else format_rational(value)


def _that_promise_nothing(releases: "Sequence[Releases]") -> int:
    """Return how many releases have no bound on epsilon."""
    return sum(each.count for each in releases if each.promises_nothing)


def _bounds(rows: "Sequence[Bound]") -> "Document":
    from aggregator.dp.composition import smallest_valid

    smallest = smallest_valid(rows)
    return {
        "bounds": [_bound(row) for row in rows],
        "smallest_valid": None if smallest is None else _bound(smallest),
    }


def _bound(row: "Bound") -> "Document":
    return {
        "name": row.name,
        "releases": row.releases,
        "epsilon": _text(row.epsilon),
        "delta": _text(row.delta),
        "valid": row.is_valid,
        "note": row.note,
    }


def _print_task(console: "Console", document: "Document", *, show_all: bool) -> None:
    from rich.table import Table

    releases = document["releases"]
    name = f"task {document['task_id']} {escaped(str(document['title']))}".rstrip()
    console.print(f"{document['guarantee']}: {name}")
    _print_smallest(console, document)
    table = Table()
    for column in RELEASE_COLUMNS:
        table.add_column(column, overflow="fold")
    for release in releases if isinstance(releases, list) else ():
        cells = (_short(release[name]) for name in ("epsilon", "delta", "rho"))
        batch = "\n".join(
            utc_text(value) if isinstance(value, int) else str(value)
            for name, value in release.items()
            if name not in RELEASE_MEMBERS
        )
        table.add_row(batch, str(release["mechanism"]), *cells, release["state"])
    console.print(table)
    _print_costs(console, document, show_all=show_all)
    declared = document["declared"]
    if isinstance(declared, dict):
        console.print(
            f"clients declare max_batches_per_person = {declared['max_batches_per_person']}: "
            f"a person who keeps to it has spent {_sum(declared)} in {declared['releases']} "
            "releases, which no aggregator can check"
        )
    if document["budget"] is not None:
        console.print(f"budget: epsilon {document['budget']}, {document['left']} left")
    if document["most_releases"] is not None:
        console.print(f"each aggregator refuses more than {document['most_releases']} releases")


def _print_population(console: "Console", document: "Document", *, show_all: bool) -> None:
    tasks = document["tasks"]
    names = ", ".join(map(str, tasks)) if isinstance(tasks, list) else ""
    console.print(f"\npopulation {document['population']!r}, added up over its tasks: {names}")
    _print_smallest(console, document)
    _print_costs(console, document, show_all=show_all)
    groups = document["groups"]
    if isinstance(groups, dict):
        for name, places in groups["places"].items():
            console.print(
                f"group {escaped(repr(name))}: of its {places} places a person is in one, and the "
                "dearest is counted; only clients keep people to one, which no aggregator can check"
            )
        console.print(f"a person in all places has spent {_sum(groups['in_all_places'])}")
    budget = document["budget"]
    if isinstance(budget, dict):
        limits = ", ".join(f"{name} {value}" for name, value in budget.items() if value is not None)
        console.print(f"budget of the population: {limits}")
    if document["closed"]:
        console.print("closed: it takes no task after its first release")


def _print_smallest(console: "Console", document: "Document") -> None:
    smallest = document["smallest_valid"]
    if isinstance(smallest, dict):
        console.print(
            f"spent so far at most: epsilon {_short(smallest['epsilon'])} at "
            f"delta {_short(smallest['delta'])} (smallest valid bound: {smallest['name']})"
        )


def _print_costs(console: "Console", document: "Document", *, show_all: bool) -> None:
    from rich.table import Table

    unbounded = document["releases_that_promise_nothing"]
    if unbounded:
        console.print(
            f"releases that promise nothing: {unbounded}; no epsilon bounds what they cost, and "
            "the sums and bounds here leave them out"
        )
    if unbounded != document["number_of_releases"]:
        console.print(
            f"a person's cost, added up: {_sum(document, '_of_a_person')} ({_in(document)})"
        )
    bounds = document["bounds"]
    if not isinstance(bounds, list) or not bounds:
        return
    if not show_all:
        console.print(f"prio ledger --all prints the bounds of all {len(bounds)} theorems")
        return
    table = Table("bound", "of releases", "epsilon", "delta", "")
    for row in bounds:
        table.add_row(
            row["name"],
            str(row["releases"] or ""),
            _short(row["epsilon"]),
            _short(row["delta"]),
            row["note"],
        )
    console.print(table)


def _in(document: "Document") -> str:
    """Return in how many releases a person is at most, in words."""
    made = document["number_of_releases"]
    most = document.get("most_releases_of_a_person", made)
    return f"in all of {made} releases" if most == made else f"in {most} of {made} releases"


def _sum(document: "Document", suffix: str = "") -> str:
    """Return a cost in words: with epsilon, or with rho where releases have no epsilon."""
    symbol = "rho" if document[f"epsilon{suffix}"] is None else "epsilon"
    return (
        f"{symbol} {_short(document[symbol + suffix])}, delta {_short(document['delta' + suffix])}"
    )


def _short(value: object) -> str:
    """Return an exact rational unchanged if it is short, otherwise in six digits, rounded up."""
    from aggregator.dp.rationals import at_most

    text = "" if value is None else str(value)
    return text if len(text) <= 9 else at_most(Fraction(text), 6)  # noqa: PLR2004 - "1/1000000"
