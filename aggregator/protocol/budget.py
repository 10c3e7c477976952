"""What a task's releases cost a person in it, and whether its budget covers one more.

A person appears in at most `max_batches_per_person` batches of a task, so at most that many of its
releases depend on them; without that bound, all do. Whatever the mechanism, a budget limits
epsilon: it is charged what the mechanism says that so many releases cost, the basic bound of
`dp.composition`. Without noise there is no epsilon to charge, and a task with a budget is refused.
"""

from fractions import Fraction

from aggregator.dap.problems import BudgetExceeded
from aggregator.dp.composition import Releases, basic
from aggregator.dp.rationals import format_rational
from aggregator.protocol.task import Task

_MORE_THAN_EVER = 2**64
"""More releases than any task makes."""


def releases_of_a_person(task: Task, releases: int) -> Releases:
    """Return those of the task's first `releases` releases that one person can be in."""
    limit = task.policy.max_batches_per_person
    count = releases if limit is None else min(releases, limit)
    return Releases(task.policy.mechanism, task.prio3.circuit, count)


def cost(task: Task, releases: int) -> Fraction:
    """Return the most epsilon that `releases` releases of the task cost a person.

    A task without noise has no epsilon to count, and its ledger says so.
    """
    return basic([releases_of_a_person(task, releases)]).epsilon


def horizon(task: Task) -> int | None:
    """Return the most releases that can ever cost a person, if the task fixes it beforehand.

    It is `max_batches_per_person`, or what the budget covers if that is less; None if the task sets
    neither, or the budget covers more releases than any task makes.
    """
    policy = task.policy
    most = policy.max_batches_per_person
    if policy.budget is None or (most is not None and cost(task, most) <= policy.budget):
        return most
    low, high = 0, _MORE_THAN_EVER  # the budget covers `low` and not `high`
    if cost(task, high) <= policy.budget:
        return most
    while high - low > 1:
        middle = (low + high) // 2
        if cost(task, middle) <= policy.budget:
            low = middle
        else:
            high = middle
    return low


def check_budget(task: Task, releases: int) -> None:
    """Refuse a release that the budget does not cover, before anything is drawn.

    Args:
        task: The task.
        releases: How many were made or are under way.

    Raises:
        BudgetExceeded: It would cost more than is left; the detail says how much is left.
    """
    budget = task.policy.budget
    if budget is None:
        return
    before, after = cost(task, releases), cost(task, releases + 1)
    if after > budget:
        raise BudgetExceeded(
            task_id=task.task_id,
            detail=f"one more release costs epsilon {format_rational(after - before)}; "
            f"of the task's {format_rational(budget)}, {format_rational(budget - before)} is left",
        )
