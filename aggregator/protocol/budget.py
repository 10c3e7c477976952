"""What a task's releases cost, and whether its limits leave room for one more.

An aggregator counts every release, whoever was in it: it sees reports, not people. A budget is of
epsilon: it is compared with what the mechanism says that all releases cost together, n epsilon, or
with Gaussian noise the epsilon that n rho implies; delta adds up beside it. So the budget is a
filter of `dp.filters`, and holds whatever the collector chooses after seeing results.

That a person is in at most `max_batches_per_person` batches is the clients' word, which no
aggregator can check. What it would make of the cost is shown (`declared_releases`), and nothing is
allowed on the strength of it.
"""

from fractions import Fraction

from aggregator.dap.problems import BudgetExceeded
from aggregator.dp.composition import Releases, basic
from aggregator.dp.rationals import format_rational
from aggregator.protocol.task import Task

_MORE_THAN_EVER = 2**64
"""More releases than any task makes."""


def releases_of(task: Task, count: int) -> Releases:
    """Return `count` releases of the task, as they cost somebody who is in all of them."""
    return Releases(task.policy.mechanism, task.prio3.circuit, count)


def declared_releases(task: Task, count: int) -> Releases | None:
    """Return those of `count` releases that a person is in whose client keeps to the task's bound.

    None if the task declares no `max_batches_per_person`.
    """
    declared = task.policy.max_batches_per_person
    return None if declared is None else releases_of(task, min(count, declared))


def cost(task: Task, releases: int) -> Fraction:
    """Return the most epsilon that `releases` releases of the task cost a person.

    A task without noise has no epsilon to count, and its ledger says so.
    """
    return basic([releases_of(task, releases)]).epsilon


def horizon(task: Task) -> int | None:
    """Return the most releases that each aggregator lets the task make.

    It is `max_releases`, or what the budget pays for if that is less; None if the task says
    neither, or the budget pays for more than it ever makes.
    """
    policy = task.policy
    most = policy.max_releases
    high = _MORE_THAN_EVER if most is None else most
    if policy.budget is None or cost(task, high) <= policy.budget:
        return most
    low = 0  # the budget pays for `low` and not for `high`
    while high - low > 1:
        middle = (low + high) // 2
        if cost(task, middle) <= policy.budget:
            low = middle
        else:
            high = middle
    return low


def check_budget(task: Task, releases: int) -> None:
    """Refuse one release more than the task's limits allow, before anything is drawn.

    Args:
        task: The task.
        releases: How many were made or are under way.

    Raises:
        BudgetExceeded: It would be one more than `max_releases`, or cost more than is left of the
            budget; the detail says how much that is.
    """
    most, budget = task.policy.max_releases, task.policy.budget
    if most is not None and releases >= most:
        raise BudgetExceeded(
            task_id=task.task_id,
            detail=f"max_releases: the task allows {most} in all, and so many were made or are "
            "under way",
        )
    if budget is None:
        return
    before, after = cost(task, releases), cost(task, releases + 1)
    if after > budget:
        raise BudgetExceeded(
            task_id=task.task_id,
            detail=f"one more release costs epsilon {format_rational(after - before)}; "
            f"of the task's {format_rational(budget)}, {format_rational(budget - before)} is left",
        )
