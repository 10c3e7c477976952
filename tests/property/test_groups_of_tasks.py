"""What a ledger adds up for groups of tasks, against every person who could be in them."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from aggregator.dp.composition import Releases, spent
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.filters import Cost, total
from aggregator.dp.group import Group
from aggregator.protocol.groups import cost_of_a_person, releases_of_a_person
from aggregator.vdaf.circuits import Count, Histogram

Made = Sequence[tuple[Group | None, Releases]]

groups = st.none() | st.builds(Group, st.sampled_from(["words", "places"]), st.integers(0, 2))
kinds = st.builds(
    Releases,
    st.sampled_from([Fraction(1, 3), Fraction(1), Fraction(2)]).map(PureDpDiscreteLaplace),
    st.sampled_from([Count(), Histogram(4, 2)]),
    st.integers(0, 4),
)
"""Tasks of different noise and with different numbers of releases, some without any."""
made_by_tasks = st.lists(st.tuples(groups, kinds), max_size=9)


def people(made: Made) -> list[list[Releases]]:
    """Return the releases of every person: of each group, of one of its places."""
    places: dict[str, set[int]] = {}
    for group, _ in made:
        if group is not None:
            places.setdefault(group.name, set()).add(group.place)
    return [
        [each for group, each in made if group is None or chosen[group.name] == group.place]
        for choice in itertools.product(*map(sorted, places.values()))
        if (chosen := dict(zip(places, choice, strict=True))) is not None
    ]


def costs(made: Made) -> list[tuple[Group | None, Cost]]:
    return [(group, each.cost or Cost()) for group, each in made]


def epsilon(cost: Cost) -> Fraction:
    assert cost.epsilon is not None
    return cost.epsilon


@given(made_by_tasks)
def test_the_sum_is_what_the_person_pays_who_pays_most_and_never_less_than_one_task(
    made: Made,
) -> None:
    found = epsilon(cost_of_a_person(costs(made)))
    assert found == max(epsilon(spent(each)) for each in people(made))
    assert all(found >= epsilon(cost) for _, cost in costs(made))


@given(made_by_tasks)
def test_the_releases_that_bounds_are_of_hold_those_of_every_person(made: Made) -> None:
    counted = releases_of_a_person(made)

    def times(releases: Sequence[Releases], kind: Releases) -> int:
        return sum(
            each.count
            for each in releases
            if (each.mechanism, each.circuit) == (kind.mechanism, kind.circuit)
        )

    for person in people(made):
        assert all(times(counted, kind) >= times(person, kind) for kind in person)
    if len({(each.mechanism, each.circuit) for _, each in made}) == 1:
        assert epsilon(spent(counted)) == epsilon(cost_of_a_person(costs(made)))


@given(made_by_tasks)
def test_tasks_of_no_group_and_of_different_groups_still_add_up(made: Made) -> None:
    apart = [
        (None if group is None else Group(f"{group.name} {number}", group.place), each)
        for number, (group, each) in enumerate(made)
    ]
    everything = total(cost for _, cost in costs(made))
    assert cost_of_a_person(costs(apart)) == everything
    assert spent(releases_of_a_person(apart)) == everything


def test_places_are_kept_over_windows_so_the_dearest_of_each_is_not_added() -> None:
    one = Cost(Fraction(1), Fraction(1, 2))
    first, second = Group("words", 0), Group("words", 1)
    assert cost_of_a_person([(first, one), (second, one)]) == one
    asked_again = [(first, one), (first, one), (second, one)]
    assert cost_of_a_person(asked_again) == one.times(2)


def test_a_place_without_an_epsilon_leaves_its_group_without_one() -> None:
    gaussian, pure = Cost(None, Fraction(1, 4)), Cost(Fraction(1), Fraction(1, 2))
    found = cost_of_a_person([(Group("words", 0), gaussian), (Group("words", 1), pure)])
    assert found == Cost(None, Fraction(1, 2))
