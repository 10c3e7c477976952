"""How costs add up for a person who is in only one place of each group of tasks.

A sum over all tasks would count all G places of a group, though a person is in one. A group counts
as the largest cost of any one place, summed over that place's tasks: not the sum of each window's
largest, as a place is kept for ever, and not the largest task, as a place may have several.

Clients keep people to one place (`client.contributions`); no aggregator can check that. So a
designer could call unrelated tasks a group, with people in several of them, and be charged less
than people pay. But the group is bound into every report, with the task's policy. A client that
reads it keeps each person to one place, or takes part in no task of a group (`check_kept`), so the
designer gets no second report to gain from. An aggregator requires what it can see: that the tasks
of a group have the same people, type and noise.
"""

import tomllib
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

from aggregator.dp.composition import Releases
from aggregator.dp.filters import Cost, total
from aggregator.dp.group import Group
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task

_TABLE = "privacy"


def group_in(definition: str) -> Group | None:
    """Return the group that the text of a task file names; None if it names none."""
    return _group_in(definition) if "group_place" in definition else None


@lru_cache(maxsize=4096)
def _group_in(definition: str) -> Group | None:
    table = tomllib.loads(definition).get(_TABLE, {})
    return Group.of(table.get("group"), table.get("group_place"))


def cost_of_a_person(costs: Iterable[tuple[Group | None, Cost]]) -> Cost:
    """Return the most that releases cost a person in all of them, but in one place of each group.

    Args:
        costs: Of releases, each with the group of its task.
    """
    alone: list[Cost] = []
    grouped: dict[str, dict[int, Cost]] = {}
    for group, cost in costs:
        if group is None:
            alone.append(cost)
        else:
            places = grouped.setdefault(group.name, {})
            places[group.place] = places.get(group.place, Cost()) + cost
    return total([*alone, *(_largest(places.values()) for places in grouped.values())])


def releases_of_a_person(made: Iterable[tuple[Group | None, Releases]]) -> list[Releases]:
    """Return the most releases that one person, in only one place of each group, can be in.

    If the places of a group differ in kind (which `check_alike` refuses), all kinds are counted.
    """
    found: list[Releases] = []
    grouped: dict[str, list[tuple[int, Releases]]] = {}
    for group, releases in made:
        if group is None:
            found.append(releases)
        else:
            grouped.setdefault(group.name, []).append((group.place, releases))
    for members in grouped.values():
        found += _most_of_each_kind(members)
    return found


def check_alike(task: Task, other: Task) -> None:
    """Refuse a task whose people, type or noise are not those of another task of its group.

    Raises:
        ParameterError: They differ; the message says what does.
    """
    policy, others = task.policy, other.policy
    for name, is_same in (
        ("population", policy.population == others.population),
        ("type of measurement", task.prio3.circuit == other.prio3.circuit),
        ("mechanism", policy.mechanism == others.mechanism),
        ("domain of permits", task.permits == other.permits),
    ):
        if not is_same:
            raise ParameterError(
                f"group: task {task.task_id} has another {name} than task {other.task_id}, and the "
                "tasks of a group are of the same people, type and noise"
            )


def asked_together(task: Task, other: Task) -> bool:
    """Return whether two tasks ask the same people in the same windows, as a survey's tasks do."""
    policy, interval = task.policy, task.interval
    if not policy.population or policy.window is None or interval is None:
        return False
    return (task.time_precision, policy.population, policy.window, interval) == (
        other.time_precision,
        other.policy.population,
        other.policy.window,
        other.interval,
    )


def check_kept(task: Task) -> None:
    """Refuse a task in a group, for a client that does not keep people to one place.

    Ledgers count the cost of one place of a group, so with a client that forgets places people
    would pay more than is counted.
    """
    group = task.policy.group
    if group is not None and task.permits is None:
        raise ParameterError(
            f"group: the task has place {group.place} in {group.name!r}. A person may be in only "
            "one place, and this client keeps nobody to one: name the person (`prio upload "
            "--state … --person …`), or ask in a survey"
        )


def group_in_words(task: Task) -> str | None:
    """Return what readers must know about a task's group; None if it is in none."""
    group = task.policy.group
    if group is None:
        return None
    if task.permits is not None:
        return (
            f"The task has place {group.place} in the group {group.name!r}, and a permit counts in "
            "only one place of a group: each aggregator sees to that."
        )
    return (
        f"The task has place {group.place} in the group {group.name!r}, and a person is in "
        "only one place of a group: the person's client sees to that, and no aggregator can "
        "check it. Whoever is in several places pays for each of them."
    )


def _largest(costs: Iterable[Cost]) -> Cost:
    """Return a cost each of whose numbers is the largest among the costs."""
    known = list(costs)
    epsilons = [each.epsilon for each in known if each.epsilon is not None]
    return Cost(
        max(epsilons, default=Fraction(0)) if len(epsilons) == len(known) else None,
        max((each.rho for each in known), default=Fraction(0)),
        max((each.delta for each in known), default=Fraction(0)),
    )


def _most_of_each_kind(members: Sequence[tuple[int, Releases]]) -> list[Releases]:
    """Return, for each kind of release, the most that any one place has."""
    most: list[Releases] = []
    for kind in members:
        mechanism, circuit = kind[1].mechanism, kind[1].circuit
        if any((each.mechanism, each.circuit) == (mechanism, circuit) for each in most):
            continue
        counts: dict[int, int] = {}
        for place, each in members:
            if (each.mechanism, each.circuit) == (mechanism, circuit):
                counts[place] = counts.get(place, 0) + each.count
        most.append(Releases(mechanism, circuit, max(counts.values())))
    return most
