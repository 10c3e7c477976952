"""What a task's releases cost a person in it, and whether its budget still pays for one more.

A person appears in at most `max_batches_per_person` batches of a task, so no more than that many of
its releases depend on them; without that bound, all do. A budget is of epsilon, whatever the
mechanism:

- discrete Laplace and truncated geometric noise: n releases cost n epsilon (basic composition), and
  n delta where there is one;
- discrete Gaussian noise: n releases are n rho, and cost the epsilon that n rho implies at the
  task's delta, which is less than n times the epsilon of one;
- without noise there is no epsilon to count, and a task with a budget is refused.

Source:
    [DR14], Theorem 3.16; [BS16], Lemma 1.7; [CKS20], Corollary 13.
"""

import dataclasses
from fractions import Fraction

from aggregator.dap.problems import BudgetExceeded
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.rationals import format_rational
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.dp.zcdp import implied_epsilon
from aggregator.protocol.task import Task


@dataclasses.dataclass(frozen=True, slots=True)
class PersonCost:
    """What some releases of one task cost a person at most.

    Attributes:
        releases: How many of them the person can be in.
        epsilon: With `delta`; 0 where nothing can be counted.
        delta: Adds up with epsilon; for discrete Gaussian noise the delta epsilon is stated at.
        rho: Of discrete Gaussian noise; None of all others.
    """

    releases: int
    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None


def person_cost(task: Task, releases: int) -> PersonCost:
    """Return what `releases` releases of the task cost a person, at most."""
    mechanism, circuit = task.policy.mechanism, task.prio3.circuit
    limit = task.policy.max_batches_per_person
    count = releases if limit is None else min(releases, limit)
    promise = mechanism.guarantee(circuit)
    if count == 0 or promise.epsilon is None or mechanism.scale(circuit) == 0:
        return PersonCost(count, Fraction(0), Fraction(0), None)
    match mechanism:
        case DiscreteGaussian():
            rho = count * mechanism.rho
            return PersonCost(count, implied_epsilon(rho, mechanism.delta), mechanism.delta, rho)
        case TruncatedGeometric():
            spent = count * mechanism.exact_delta(circuit)
            return PersonCost(count, count * promise.epsilon, spent, None)
        case _:
            return PersonCost(count, count * promise.epsilon, Fraction(0), None)


def cost(task: Task, releases: int) -> Fraction:
    """Return the epsilon that `releases` releases of the task cost a person, at most.

    A task without noise has no epsilon: it costs nothing that could be counted, and its ledger
    says so.
    """
    return person_cost(task, releases).epsilon


def horizon(task: Task) -> int | None:
    """Return the most releases that can ever cost a person, as the task fixes it beforehand.

    It is `max_batches_per_person`, or what the budget pays for if that is less; None if the task
    says neither.
    """
    policy = task.policy
    most = policy.max_batches_per_person
    if policy.budget is None or (most is not None and cost(task, most) <= policy.budget):
        return most
    if cost(task, 1) == 0:
        return most
    low, high = 0, 1  # the budget pays for `low`, and not for `high` once the loop has ended
    while cost(task, high) <= policy.budget:
        low, high = high, 2 * high
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
