"""What a release costs a person in it, and whether the task's budget still pays for one more.

A person appears in at most `max_batches_per_person` batches of a task, so `n` releases cost them at
most `min(n, max_batches_per_person)` times the epsilon of one (basic composition).
"""

from fractions import Fraction

from aggregator.dap.problems import BudgetExceeded
from aggregator.dp.budget import format_rational
from aggregator.protocol.task import Task


def cost(task: Task, releases: int) -> Fraction:
    """Return the epsilon that `releases` releases of the task cost a person, at most.

    A task without noise has no epsilon: it costs nothing that could be counted, and its ledger
    says so.
    """
    epsilon = task.policy.mechanism.guarantee(task.prio3.circuit).epsilon
    if epsilon is None:
        return Fraction(0)
    limit = task.policy.max_batches_per_person
    return epsilon * (releases if limit is None else min(releases, limit))


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
