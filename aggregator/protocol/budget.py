"""What a task's releases cost, and whether its limits leave room for one more.

An aggregator counts every release, since it sees reports and not who was in them. A budget limits
epsilon: the sum of the releases' epsilons or, with Gaussian noise, the epsilon of all of them at
the policy's delta; with other noise, deltas add up beside it. A task has one mechanism, so its
limits fix the number of releases before the first is made. That is a plan, and what it promises for
all of them holds whatever the collector chooses after seeing results.

That a person is in at most `max_batches_per_person` batches is the clients' word, which no
aggregator can check. The cost that would follow is shown (`declared_releases`), but nothing is
allowed because of it. An aggregator cannot check either that a person is in one place of a group of
tasks, but sums over a population rely on it (`groups` says why, and who could gain by a lie).
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from aggregator.dap.problems import BudgetExceeded
from aggregator.dp.composition import Bound, Releases, bounds
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.filters import Cost, Filter
from aggregator.dp.group import Group
from aggregator.dp.no_privacy import NoPrivacy
from aggregator.dp.rationals import format_rational
from aggregator.protocol.groups import cost_of_a_person, releases_of_a_person
from aggregator.protocol.task import Task

_MORE_THAN_EVER = 2**64
"""More releases than any task makes."""


def releases_of(task: Task, count: int) -> Releases:
    """Return `count` releases of the task, at their cost to a person who is in all of them."""
    return Releases(task.policy.mechanism, task.prio3.circuit, count)


def declared_releases(task: Task, count: int) -> Releases | None:
    """Return how many of `count` releases a person is in whose client keeps the task's bound.

    None if the task declares no `max_batches_per_person`.
    """
    declared = task.policy.max_batches_per_person
    return None if declared is None else releases_of(task, min(count, declared))


def cost(task: Task, releases: int) -> Fraction:
    """Return the epsilon of a number of releases of the task, which its budget limits.

    With Gaussian noise it is the epsilon of all of them together at the policy's delta. A task
    without noise has no epsilon to count, and its ledger says so.
    """
    made = releases_of(task, releases)
    delta = made.mechanism.guarantee(made.circuit).delta or Fraction(0)
    return made.epsilon_at(delta) or Fraction(0)


def horizon(task: Task) -> int | None:
    """Return the most releases that each aggregator lets the task make.

    It is `max_releases`, or the number that the budget pays for if that is less; None if the task
    has neither, or the budget pays for more releases than any task makes.
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


def releases_at(task: Task, costs: Sequence[Cost | None]) -> list[Releases]:
    """Return a task's releases at their costs, which differ only in a task of attribution.

    Some may be above what such a task costs now: its store was lost, and the journal knows them
    from before a new agreement.
    """
    if task.attribution is None:
        return [releases_of(task, len(costs))]
    counts = Counter(None if cost is None else cost.epsilon for cost in costs)
    circuit = task.prio3.circuit
    return [
        Releases(NoPrivacy() if each is None else PureDpDiscreteLaplace(each), circuit, count)
        for each, count in counts.items()
    ]


def task_bounds(
    task: Task, made: int | Sequence[Releases], delta: Fraction, *, with_pld: bool = False
) -> list[Bound]:
    """Return what each theorem says about the cost of a task's releases to a person in all of them.

    They are given, or their number. The task's limits are its plan. See `composition.bounds`.
    """
    most = horizon(task)
    plan = None if most is None else [releases_of(task, most)]
    releases = [releases_of(task, made)] if isinstance(made, int) else made
    return bounds(releases, delta, plan=plan, with_pld=with_pld)


def population_bounds(
    made: Sequence[tuple[Task, int]],
    delta: Fraction,
    limits: Filter | None,
    *,
    is_closed: bool,
    with_pld: bool = False,
) -> list[Bound]:
    """Return `task_bounds` for all tasks of a population, each person in one place of each group.

    Each task comes with how many releases it has made. If the population is closed, so that no task
    can be added after the first release, and each has a limit of its own, it has a plan.
    """
    plan = [(task, most) for task, _ in made if (most := horizon(task)) is not None]
    return bounds(
        population_releases(made),
        delta,
        plan=population_releases(plan) if is_closed and len(plan) == len(made) else None,
        limits=limits,
        may_grow=True,
        with_pld=with_pld,
    )


def population_releases(made: Sequence[tuple[Task, int]]) -> list[Releases]:
    """Return the most releases of a population that one person, in one place of a group, is in."""
    return releases_of_a_person(
        (task.policy.group, releases_of(task, count)) for task, count in made
    )


def promise_of_all(task: Task) -> str | None:
    """Return what all releases of the task cost a person together, in words.

    None if even one of them promises nothing.
    """
    most = horizon(task)
    everything = releases_of(task, most or 0)
    together = everything.cost
    if together is None:
        return None
    if most is None:
        return (
            "Nothing limits the number of releases, so nothing bounds what all of them cost a "
            "person together; each aggregator's ledger says what those made so far cost."
        )
    epsilon = format_rational(cost(task, most))
    delta = format_rational(together.delta)
    if together.epsilon is None:
        own = everything.mechanism.guarantee(everything.circuit).delta or Fraction(0)
        delta = format_rational(own)
        epsilon = f"rho {format_rational(together.rho)} and epsilon {epsilon}"
    else:
        epsilon = f"epsilon {epsilon}"
    releases = "release" if most == 1 else "releases"
    who = "Each aggregator" if task.is_policy_bound else "Each aggregator given this very policy"
    return (
        f"{who} refuses more than {most} {releases}. All of them together, whenever the "
        f"collector stops, cost a person at most {epsilon}, delta {delta}."
    )


def check_budget(task: Task, releases: int) -> None:
    """Refuse one release more than the task's limits allow, before anything is drawn.

    Args:
        task: The task.
        releases: How many have been made or are under way.

    Raises:
        BudgetExceeded: It would exceed `max_releases`, or cost more than is left of the budget; the
            detail says how much is left.
    """
    most, budget = task.policy.max_releases, task.policy.budget
    if most is not None and releases >= most:
        raise BudgetExceeded(
            task_id=task.task_id,
            detail=f"max_releases: all {most} releases that the task allows were made or are under "
            "way",
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


def check_population(task: Task, limits: Filter, made: Sequence[tuple[Group | None, Cost]]) -> None:
    """Refuse a release of the task that its population's limits do not allow, as `BudgetExceeded`.

    `made` is the cost of each release made or under way, with its task's group.
    """
    name, each = task.policy.population, releases_of(task, 1)
    if each.cost is None:
        raise BudgetExceeded(
            task_id=task.task_id,
            detail=f"population {name!r} has a budget, which cannot count the mechanism "
            f"{each.mechanism.name}",
        )
    if limits.allows(cost_of_a_person([*made, (task.policy.group, each.cost)])):
        return
    spent = cost_of_a_person(made)
    sums = ", ".join(
        f"{symbol} {_or_none(before)} of {format_rational(limit)}, and the release {_or_none(one)}"
        for symbol, limit, before, one in (
            ("epsilon", limits.epsilon, spent.epsilon, each.cost.epsilon),
            ("rho", limits.rho, spent.rho, each.cost.rho),
            ("delta", limits.delta, spent.delta, each.cost.delta),
        )
        if limit is not None
    )
    raise BudgetExceeded(
        task_id=task.task_id, detail=f"the budget of population {name!r} has spent {sums}"
    )


def _or_none(value: Fraction | None) -> str:
    return "none" if value is None else format_rational(value)
