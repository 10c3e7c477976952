"""Prices a release, and holds it to the limits of its task and of its population.

Each aggregator does this by its own ledger, in the transaction that reserves or makes the release.
"""

from bisect import bisect_left

from aggregator.dap.messages import CollectionJobReq
from aggregator.dap.problems import BudgetExceeded
from aggregator.errors import ParameterError
from aggregator.protocol.attribution import as_collected
from aggregator.protocol.budget import check_budget, check_population, releases_of
from aggregator.protocol.groups import check_alike, cost_of_a_person, group_in
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.storage.engine import locks
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.charges import Charge, costs_in, has_released, releases_made
from aggregator.service.storage.ledger.populations import Population, get_population, put_population
from aggregator.service.storage.tasks.tasks import list_all_tasks, list_tasks


def charge_of(task: Task, request: CollectionJobReq | None = None) -> Charge:
    """Return what one release of the task costs, as the ledger keeps it.

    Without the collection's request, that is the most that a release may cost.
    """
    collected = task if request is None else as_collected(task, request)
    policy = collected.policy
    return Charge(policy.mechanism.name, releases_of(collected, 1).cost, policy.population)


def check_limits(tx: Transaction, task: Task) -> None:
    """Check that the task and its population may make one more release.

    Where each collection has an epsilon of its own, each counts as the largest.

    Raises:
        BudgetExceeded: They may not; the detail says what is left.
    """
    check_budget(task, releases_made(tx, task.task_id.value))
    name = task.policy.population
    limits = get_population(tx, name).limits if name else None
    if limits is not None:
        check_population(task, limits, costs_in(tx, name))


def releases_left(tx: Transaction, task: Task, most: int) -> int:
    """Return how many releases, up to `most`, the population can pay for; 0 without a budget."""
    name, each = task.policy.population, releases_of(task, 1).cost
    limits = get_population(tx, name).limits if name else None
    if limits is None:
        return 0
    if each is None:
        return 0
    made = costs_in(tx, name)

    def are_too_many(count: int) -> bool:
        more = (task.policy.group, each.times(count))
        return not limits.allows(cost_of_a_person([*made, more]))

    return bisect_left(range(1, most + 1), x=True, key=are_too_many)


def check_new_task(tx: Transaction, task: Task) -> None:
    """Check that a new task's population can pay for it, and that it is like others of its group.

    Nobody else adds a task until the transaction ends.

    Raises:
        ParameterError: Not one release of it would be allowed, or the other tasks of its group
            have other people, another type or other noise.
        Conflict: The population is closed, and has made a release.
    """
    locks.add_tasks(tx)
    _check_group(tx, task)
    name = task.policy.population
    if not name:
        return
    population = get_population(tx, name)
    if population.is_closed and has_released(tx, name):
        raise tx.refuse(
            Conflict(f"population {name!r}: is closed, and takes no task after its first release")
        )
    _check_one_release(tx, task, population)


def fix_population(tx: Transaction, name: str, population: Population) -> None:
    """Fix what the tasks of a population may cost together, before its first release.

    Raises:
        ParameterError: One of its tasks would not be allowed a single release.
        Conflict: The population has made a release.
    """
    put_population(tx, name, population)
    for stored in list_tasks(tx):
        task = task_from_toml(stored.definition)
        if task.policy.population == name:
            _check_one_release(tx, task, population)


def _check_group(tx: Transaction, task: Task) -> None:
    group = task.policy.group
    if group is None:
        return
    for stored in list_all_tasks(tx):
        known = group_in(stored.definition)
        if known is not None and known.name == group.name:
            check_alike(task, task_from_toml(stored.definition))
            return  # all others were compared with this one


def _check_one_release(tx: Transaction, task: Task, population: Population) -> None:
    name = task.policy.population
    if population.limits is None:
        return
    try:
        check_population(task, population.limits, costs_in(tx, name))
    except BudgetExceeded as problem:
        raise ParameterError(f"task {task.task_id}: {problem.detail}") from problem
