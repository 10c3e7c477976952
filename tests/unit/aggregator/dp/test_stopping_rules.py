"""A collector who stops at the best moment: what the bounds are worth against it.

What it gains is computed from the law of the noise, by `tests.support.stopping`, and compared with
the delta that was stated.
"""

import decimal
import itertools
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.dp import accounting
from aggregator.dp.composition import THEOREMS, smallest_valid
from aggregator.dp.filters import Cost, Filter, cost_of_dp, cost_of_zcdp
from aggregator.dp.odometer import Odometer
from aggregator.dp.zcdp import implied_epsilon, textbook_epsilon
from aggregator.protocol.budget import task_bounds
from aggregator.protocol.task import Task
from tests.support.stopping import (
    Counts,
    LossLaw,
    best_choice,
    best_stop,
    discrete_gaussian,
    randomised_response,
)
from tests.support.tasks import make_task

DELTA = Fraction(1, 10**6)
DOCUMENT = (Path(__file__).parents[4] / "docs" / "privacy.md").read_text("utf-8")
ROUNDING = 1 + 1e-9
"""What the error of the computed gains may add to them."""

Epsilons = list[Fraction | None]


def count_with_laplace_noise(epsilon: str) -> tuple[LossLaw, Cost]:
    return randomised_response(Fraction(epsilon)), cost_of_dp(Fraction(epsilon))


def count_with_gaussian_noise(rho: str) -> tuple[LossLaw, Cost]:
    variance_parameter = 1 / (2 * Fraction(rho))
    return discrete_gaussian(int(variance_parameter)), cost_of_zcdp(Fraction(rho))


def moments(releases: int, ratio: float) -> list[int]:
    """Return numbers of releases, each the next or larger by that ratio; all for 1."""
    found = [1]
    while (after := max(found[-1] + 1, math.ceil(found[-1] * ratio))) <= releases:
        found.append(after)
    return found


def running_zcdp(cost: Cost, releases: int, ratio: float) -> Epsilons:
    """Return what the zCDP bound says; the collector looks at some moments, and nowhere else."""
    looks = set(moments(releases, ratio))
    return [
        implied_epsilon(n * cost.rho, DELTA) if n in looks else None for n in range(1, releases + 1)
    ]


def running_odometer(
    odometer: Odometer, cost: Cost, releases: int, ratio: float
) -> list[Fraction | None]:
    """Return no more than the odometer says, at every moment: what it said at one before."""
    looks = set(moments(releases, ratio))
    stated: Epsilons = []
    for n in range(1, releases + 1):
        stated.append(odometer.epsilon(times(cost, n)) if n in looks else stated[-1])
    return stated


def times(cost: Cost, count: int) -> Cost:
    epsilon = None if cost.epsilon is None else count * cost.epsilon
    return Cost(epsilon, count * cost.rho, count * cost.delta)


LAPLACE = [("1/5", 2000, 1.7, 7.2), ("1/10", 4000, 2.9, 18)]


@pytest.mark.parametrize(("epsilon", "releases", "times_delta", "times_passing"), LAPLACE)
def test_the_zcdp_bound_at_the_running_count_is_passed_more_often_than_it_says(
    epsilon: str, releases: int, times_delta: float, times_passing: float
) -> None:
    law, cost = count_with_laplace_noise(epsilon)
    usual = Cost(cost.epsilon, Fraction(epsilon) ** 2 / 2)
    gain = best_stop(law, running_zcdp(usual, releases, 1.02))
    assert gain.delta > times_delta * DELTA
    assert gain.passing > times_passing * DELTA


@pytest.mark.parametrize(("epsilon", "releases"), [row[:2] for row in LAPLACE])
def test_at_a_number_of_counts_fixed_beforehand_the_zcdp_bound_holds(
    epsilon: str, releases: int
) -> None:
    law, cost = count_with_laplace_noise(epsilon)
    for n in (60, 1000, releases):
        stated: Epsilons = [*[None] * (n - 1), implied_epsilon(n * cost.rho, DELTA)]
        assert 0 < best_stop(law, stated).delta < DELTA / 4


def test_the_zcdp_bound_at_the_running_number_of_gaussian_releases_is_passed_too() -> None:
    law, cost = count_with_gaussian_noise("1/200")
    gain = best_stop(law, running_zcdp(cost, 600, 1.02))
    assert gain.delta > 3.6 * DELTA
    assert gain.passing > 40 * DELTA


@pytest.mark.slow
@pytest.mark.parametrize("tightest", ["1/100", "1", "1/10000"])
@pytest.mark.parametrize(("epsilon", "releases"), [row[:2] for row in LAPLACE])
def test_no_rule_to_stop_passes_the_odometer_of_counts_as_often_as_it_says(
    epsilon: str, releases: int, tightest: str
) -> None:
    law, cost = count_with_laplace_noise(epsilon)
    odometer = Odometer(DELTA, Fraction(tightest))
    gain = best_stop(law, running_odometer(odometer, cost, releases, 1.02))
    assert 0 < gain.delta <= gain.passing
    assert gain.passing * ROUNDING < DELTA


@pytest.mark.slow
def test_no_stopping_rule_passes_the_gaussian_odometer_as_often_as_it_says() -> None:
    law, cost = count_with_gaussian_noise("1/200")
    gain = best_stop(law, running_odometer(Odometer(DELTA, Fraction(1)), cost, 600, 1.02))
    assert gain.passing > DELTA / 10
    assert gain.passing * ROUNDING < DELTA


@pytest.mark.parametrize("delta", [DELTA, Fraction(1, 101)], ids=str)
def test_a_filters_promise_holds_whenever_the_collector_stops(delta: Fraction) -> None:
    for (law, cost), releases in (
        (count_with_laplace_noise("1/5"), 400),
        (count_with_gaussian_noise("1/200"), 200),
    ):
        limit = Filter(rho=releases * cost.rho)
        assert limit.allows(times(cost, releases))
        assert not limit.allows(times(cost, releases + 1))
        gain = best_stop(law, [limit.epsilon_of_all(delta)] * releases)
        assert delta / 100 < gain.delta
        assert gain.delta * ROUNDING < delta
        # The looser conversion bounds how often the loss is ever above it.
        textbook = textbook_epsilon(releases * cost.rho, delta)
        assert best_stop(law, [textbook] * releases).passing * ROUNDING < delta


@pytest.mark.parametrize(("epsilon", "horizon"), [("1/10", 1000), ("1/2", 300), ("1", 40)])
def test_the_optimal_bound_of_an_enforced_number_of_releases_holds_at_any_stop(
    epsilon: str, horizon: int
) -> None:
    """To stop early gains nothing: the delta is that at the horizon, and all of it is used."""
    bound = accounting.optimal(Fraction(epsilon), horizon, DELTA)
    law, _ = count_with_laplace_noise(epsilon)
    gain = best_stop(law, [bound] * horizon)
    assert gain.delta == pytest.approx(float(DELTA), rel=1e-9)
    only_at_the_end: Epsilons = [*[None] * (horizon - 1), bound]
    assert gain.delta == pytest.approx(best_stop(law, only_at_the_end).delta, rel=1e-9)


def test_the_sum_of_the_epsilons_is_never_passed() -> None:
    law, cost = count_with_laplace_noise("1/5")
    gain = best_stop(law, [n * Fraction(1, 5) for n in range(1, 200)])
    assert 0 <= gain.delta <= gain.passing < 1e-40  # what leaves the range
    short = best_stop(law, [n * Fraction(1, 5) - DELTA for n in range(1, 200)])
    assert short.passing == pytest.approx(float(1 / (1 + math.exp(-0.2))))
    assert cost.epsilon == Fraction(1, 5)


COUNT = {"type": "Prio3Count"}


def ledger_says(task: Task, name: str, releases: int, ratio: float) -> Epsilons:
    """Return what `prio ledger` says is valid, by one bound or by the smallest, at some moments."""
    looks = set(moments(releases, ratio))
    stated: Epsilons = []
    for n in range(1, releases + 1):
        if n not in looks:
            stated.append(None)
            continue
        found = task_bounds(task, n, DELTA)
        chosen = next((row for row in found if row.name == name), smallest_valid(found))
        stated.append(chosen.epsilon if chosen is not None and chosen.is_valid else None)
    assert any(stated), name
    return stated


@pytest.mark.slow
@pytest.mark.parametrize("name", ["basic", "odometer", "the smallest"])
@pytest.mark.parametrize(("epsilon", "releases"), [row[:2] for row in LAPLACE])
def test_no_rule_to_stop_passes_what_the_ledger_says_of_an_unlimited_count(
    epsilon: str, releases: int, name: str
) -> None:
    task = make_task(COUNT, {"mechanism": "PureDpDiscreteLaplace", "epsilon": epsilon})
    law, _ = count_with_laplace_noise(epsilon)
    gain = best_stop(law, ledger_says(task, name, releases, 1.05))
    assert gain.delta * ROUNDING < DELTA


@pytest.mark.slow
@pytest.mark.parametrize("name", [*sorted({*THEOREMS} - {"Gaussian", "PLD"}), "the smallest"])
def test_no_rule_to_stop_passes_what_the_ledger_says_of_a_limited_count(name: str) -> None:
    """The optimal bound is exact: all of its delta is used."""
    privacy = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1/10", "max_releases": 400}
    law, _ = count_with_laplace_noise("1/10")
    gain = best_stop(law, ledger_says(make_task(COUNT, privacy), name, 400, 1.05))
    assert gain.delta < DELTA * ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "name"),
    [({}, "odometer"), ({}, "the smallest"), ({"max_releases": 600}, "Gaussian")],
    ids=str,
)
def test_no_rule_to_stop_passes_what_the_ledger_says_of_gaussian_counts(
    limit: dict[str, int], name: str
) -> None:
    task = make_task(COUNT, {"mechanism": "DiscreteGaussian", "rho": "1/200", **limit})
    law, _ = count_with_gaussian_noise("1/200")
    gain = best_stop(law, ledger_says(task, name, 600, 1.05))
    assert gain.delta > 0
    assert gain.delta * ROUNDING < DELTA


def test_what_the_ledger_calls_not_valid_is_passed_by_the_best_rule_to_stop() -> None:
    task = make_task(COUNT, {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1/10"})
    law, _ = count_with_laplace_noise("1/10")
    looks = set(moments(1000, 1.05))
    stated: Epsilons = []
    for n in range(1, 1001):
        rows = {row.name: row for row in task_bounds(task, n, DELTA)} if n in looks else {}
        row = rows.get("optimal (KOV)")
        assert row is None or not row.is_valid
        stated.append(None if row is None else row.epsilon)
    assert best_stop(law, stated).delta > 5 * DELTA


UNIT = Fraction(1, 10)
KINDS = (1, 5)


def cost_of(counts: Counts) -> Cost:
    few, many = (cost_of_dp(kind * UNIT, count=n) for kind, n in zip(KINDS, counts, strict=True))
    return few + many


@pytest.mark.slow
def test_epsilons_chosen_after_seeing_results_pass_no_odometer() -> None:
    for delta in (Fraction(1, 101), Fraction(1, 10**4)):
        odometer = Odometer(delta)
        gain = best_choice(
            UNIT,
            KINDS,
            lambda counts: counts[0] <= 40 and counts[1] <= 12,
            lambda counts, odometer=odometer: odometer.epsilon(cost_of(counts)),
        )
        assert 0 < gain.delta <= gain.passing
        assert gain.passing * ROUNDING < delta


@pytest.mark.parametrize("delta", [Fraction(1, 101), DELTA], ids=str)
def test_epsilons_chosen_after_seeing_results_pass_no_filter(delta: Fraction) -> None:
    limit = Filter(rho=Fraction(1))
    stated = limit.epsilon_of_all(delta)
    gain = best_choice(UNIT, KINDS, lambda counts: limit.allows(cost_of(counts)), lambda _: stated)
    assert delta / 100 < gain.delta
    assert gain.delta * ROUNDING < delta


def test_the_order_of_a_fixed_plan_chosen_after_seeing_results_gains_nothing() -> None:
    """Nor does leaving some of it out: fixed-plan theorems hold for the plan as a whole."""
    plan, stated = (12, 6), Fraction(2)
    chosen = best_choice(
        UNIT,
        KINDS,
        lambda counts: counts[0] <= plan[0] and counts[1] <= plan[1],
        lambda _: stated,
    )
    assert chosen.delta == pytest.approx(delta_of_plan(plan, stated), rel=1e-9)


def test_a_plan_changed_after_seeing_results_costs_more_than_the_worst_of_the_plans() -> None:
    """Why theorems for a fixed plan say nothing of a population with a limit on rho alone."""
    stated, limit = Fraction(3, 2), 100

    def allowed(counts: Counts) -> bool:
        return counts[0] + 25 * counts[1] <= limit

    plans = [(limit - 25 * many, many) for many in range(limit // 25 + 1)]
    worst = max(delta_of_plan(plan, stated) for plan in plans)
    assert best_choice(UNIT, KINDS, allowed, lambda _: stated).delta > 1.1 * worst


def delta_of_plan(plan: Counts, stated: Fraction) -> float:
    """Return the delta of all releases of the plan, from the law of their loss."""
    law = {0: 1.0}
    for kind, count in zip(KINDS, plan, strict=True):
        truth = 1 / (1 + math.exp(-kind * UNIT))
        for _ in range(count):
            after: dict[int, float] = {}
            for loss, chance in law.items():
                after[loss + kind] = after.get(loss + kind, 0) + chance * truth
                after[loss - kind] = after.get(loss - kind, 0) + chance * (1 - truth)
            law = after
    return sum(
        chance * -math.expm1(stated - loss * UNIT)
        for loss, chance in law.items()
        if loss * UNIT > stated
    )


def test_the_induction_finds_what_trying_all_rules_finds() -> None:
    """A rule says, for each history of three releases that it has not stopped in, stop or go on."""
    step, stated = Fraction(1, 2), [Fraction(1, 5), Fraction(3, 5), Fraction(4, 5)]
    truth = 1 / (1 + math.exp(-step))
    histories = [h for n in (1, 2) for h in itertools.product((1, -1), repeat=n)]

    def gain(stops: set[tuple[int, ...]]) -> tuple[float, float]:
        delta = passing = 0.0
        for end in itertools.product((1, -1), repeat=3):
            seen = next(end[:n] for n in (1, 2, 3) if n == 3 or end[:n] in stops)
            chance = math.prod(truth if up > 0 else 1 - truth for up in end)
            above = sum(seen) * step - stated[len(seen) - 1]
            delta += chance * max(0.0, -math.expm1(-above))
            passing += chance * (above > 0)
        return delta, passing

    found = [
        gain({h for h, stop in zip(histories, rule, strict=True) if stop})
        for rule in itertools.product((False, True), repeat=len(histories))
    ]
    best = best_stop(randomised_response(step), stated)
    assert best.delta == pytest.approx(max(delta for delta, _ in found), rel=1e-12)
    assert best.passing == pytest.approx(max(passing for _, passing in found), rel=1e-12)


def test_the_induction_agrees_with_the_normal_law_at_one_look() -> None:
    """With sigma^2 = 100 a discrete Gaussian is a normal law to many digits."""
    law, cost = count_with_gaussian_noise("1/200")
    n, stated = 400, Fraction(10)
    spread = math.sqrt(2 * n * cost.rho)

    def tail(x: float) -> float:
        return math.erfc(x / math.sqrt(2)) / 2

    middle = float(stated) / spread
    expected = tail(middle - spread / 2) - math.exp(stated) * tail(middle + spread / 2)
    fixed: Epsilons = [*[None] * (n - 1), stated]
    assert best_stop(law, fixed).delta == pytest.approx(expected, rel=1e-4)


RHO = "\N{GREEK SMALL LETTER RHO}"


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def four_digits(epsilon: Fraction | None) -> str:
    """Return a bound, rounded up."""
    if epsilon is None:
        return "none"
    context = decimal.Context(prec=4, rounding=decimal.ROUND_CEILING)
    quotient = context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    return f"{quotient.normalize():f}"


@pytest.mark.parametrize(
    ("what", "cost", "releases"),
    [
        ("ε = 1/10", cost_of_dp(Fraction(1, 10)), 10),
        ("ε = 1/10", cost_of_dp(Fraction(1, 10)), 100),
        ("ε = 1/10", cost_of_dp(Fraction(1, 10)), 1000),
        (f"{RHO} = 1/200", cost_of_zcdp(Fraction(1, 200)), 1000),
    ],
)
def test_the_document_states_the_bounds(what: str, cost: Cost, releases: int) -> None:
    spent = times(cost, releases)
    numbers = (
        spent.epsilon,
        Odometer(DELTA).epsilon(spent),
        Odometer(DELTA, spent.rho).epsilon(spent),
        Filter(rho=spent.rho).epsilon_of_all(DELTA),
        optimal(cost, releases),
    )
    assert row(f"{releases} of {what}", *map(four_digits, numbers)) in DOCUMENT


@pytest.mark.bench
@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "law", "cost", "releases"),
    [
        ("ε = 1/5", *count_with_laplace_noise("1/5"), 3000),
        ("ε = 1/10", *count_with_laplace_noise("1/10"), 8000),
        ("ε = 1/20", *count_with_laplace_noise("1/20"), 16000),
        (f"{RHO} = 1/200", *count_with_gaussian_noise("1/200"), 3000),
        (f"{RHO} = 1/50", *count_with_gaussian_noise("1/50"), 1000),
    ],
)
def test_the_document_states_what_watching_every_release_gains(
    what: str, law: LossLaw, cost: Cost, releases: int
) -> None:
    def gain(stated: Epsilons) -> str:
        found = best_stop(law, stated)
        return f"{found.delta / float(DELTA):.3g} / {found.passing / float(DELTA):.3g}"

    usual = cost if cost.epsilon is None else Cost(cost.epsilon, cost.epsilon**2 / 2)
    enforced = Filter(rho=releases * cost.rho).epsilon_of_all(DELTA)
    best = optimal(cost, releases)
    gains = (
        gain(running_zcdp(usual, releases, 1)),
        gain(running_odometer(Odometer(DELTA), cost, releases, 1)),
        gain([enforced] * releases),
        "none" if best is None else gain([best] * releases),
    )
    assert row(f"{what}, {releases:,} releases", *gains) in DOCUMENT


def optimal(cost: Cost, releases: int) -> Fraction | None:
    """Return the exact cost of counts with discrete Laplace noise; None for Gaussian noise."""
    if cost.epsilon is None:
        return None
    return accounting.optimal(cost.epsilon, releases, DELTA)
