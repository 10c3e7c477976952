"""What a task's releases cost a person in it, and whether its budget still pays for one more.

A person appears in at most `max_batches_per_person` batches of a task, so no more than that many of
its releases depend on them; without that bound, all do. A budget is of epsilon, whatever the
mechanism: it counts what the mechanism says that so many releases cost, the basic bound of
`dp.composition`. Without noise there is no epsilon to count, and a task with a budget is refused.
"""

from fractions import Fraction

from aggregator.dap.problems import BudgetExceeded
from aggregator.dp.composition import Releases, basic
from aggregator.dp.rationals import format_rational
from aggregator.protocol.task import Task

_MORE_THAN_EVER = 2**64
"""More releases than any task makes."""


def releases_of_a_person(task: Task, releases: int) -> Releases:
    """Return those of the task's `releases` releases that one person can be in."""
    limit = task.policy.max_batches_per_person
    count = releases if limit is None else min(releases, limit)
    return Releases(task.policy.mechanism, task.prio3.circuit, count)


def cost(task: Task, releases: int) -> Fraction:
    """Return the epsilon that `releases` releases of the task cost a person, at most.

    A task without noise has no epsilon: it costs nothing that could be counted, and its ledger
    says so.
    """
    return basic([releases_of_a_person(task, releases)]).epsilon


def horizon(task: Task) -> int | None:
    """Return the most releases that can ever cost a person, as the task fixes it beforehand.

    It is `max_batches_per_person`, or what the budget pays for if that is less; None if the task
    says neither, or the budget pays for more than it ever makes.
    """
    policy = task.policy
    most = policy.max_batches_per_person
    if policy.budget is None or (most is not None and cost(task, most) <= policy.budget):
        return most
    low, high = 0, _MORE_THAN_EVER  # the budget pays for `low` and not for `high`
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
    """Refuse one release more than the budget pays for, before anything is drawn.

    Args:
        task: The task.
        releases: How many were made or are under way already.

    Raises:
        BudgetExceeded: It would cost more than is left; the detail says how much that is.
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
