"""Reference values of partition selection: [DVGM22], computed to 40 digits."""

from fractions import Fraction
from itertools import islice

import mpmath
import pytest

from aggregator.dp.decimals import working
from aggregator.papers.partition_selection import OptimalSelection, crossover
from aggregator.papers.selection_plan import SelectionPlan, TwoThresholds
from aggregator.papers.selection_rivals import (
    GaussianSelection,
    LaplaceSelection,
    TruncatedGeometricRelease,
)
from tests.support.numbers import agrees, rows

PI_1_1E5 = """
1 1e-5|2 3.71828182846e-5|5 8.57910248837e-4|8 0.0173426613591|10 0.128183080505|11 0.348447738453
12 0.760310996923|13 0.911827022287|15 0.988072117235|20 0.999925411112|22 0.999994937639|23 1
"""
PI_01_1E10 = """
1 1e-10|10 1.63379939997e-9|100 2.09425440015e-5|150 0.00310828928024|180 0.0624316772533
200 0.461311171650|201 0.509827691191|202 0.556473753795|210 0.800710811757|250 0.996349892127
300 0.999975406711|401 0.999999999941|402 1
"""


@pytest.mark.parametrize(("n", "printed"), rows(PI_1_1E5))
def test_the_optimal_probabilities_at_epsilon_1(n: str, printed: str) -> None:
    assert agrees(OptimalSelection.of(1, "1e-5").keep_probability(int(n)), printed)


@pytest.mark.parametrize(("n", "printed"), rows(PI_01_1E10))
def test_the_optimal_probabilities_at_epsilon_a_tenth(n: str, printed: str) -> None:
    assert agrees(OptimalSelection.of("0.1", "1e-10").keep_probability(int(n)), printed)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n1", "n2"), [("1", "1e-5", 11, 22), ("0.1", "1e-10", 201, 401)]
)
def test_the_crossover_points(epsilon: str, delta: str, n1: int, n2: int) -> None:
    selection = OptimalSelection.of(epsilon, delta)
    assert (selection.n1, selection.n2) == (n1, n2)


# Theorem 5: at this delta k* is the integer k.
WHOLE = """
1 5 .00312504678908
.1 30 .00261076989017
.5 12 6.08231069003e-4
2 3 .00188891942687
.05 100 1.69527305572e-4
"""


@pytest.mark.parametrize(("epsilon", "k", "printed"), rows(WHOLE))
def test_at_a_whole_k_noise_above_a_threshold_is_the_optimal_primitive(
    epsilon: str, k: str, printed: str
) -> None:
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon)
        delta = mpmath.expm1(e) / (mpmath.exp(int(k) * e) * (mpmath.exp(e) + 1) - 2)
        # A hair more, so that the ceiling is not thrown to k + 1 by the last digit.
        text = mpmath.nstr(delta * (1 + mpmath.mpf(10) ** -50), 55)
    assert agrees(float(text), printed)
    release = TruncatedGeometricRelease.of(epsilon, text)
    selection = OptimalSelection.of(epsilon, text)
    assert release.k == int(k)
    assert abs(release.edge_mass / release.edge_mass.__class__(text) - 1) < 1e-45
    assert selection.n2 in (2 * int(k), 2 * int(k) + 1)
    for count in range(2 * int(k) + 2):
        difference = release.keep_probability(count) - selection.keep_probability(count)
        assert abs(difference) < 1e-45


def test_at_another_k_the_release_shows_less() -> None:
    shown = TruncatedGeometricRelease.of(1, "1e-5").keep_probability(12)
    assert agrees(shown, ".731060654377")


CUT_OFFS = """
1 1e-5 11 7.71821182760e-6|1 1e-6 14 3.84263859720e-7|1 1e-10 23 4.74219064381e-11
2 1e-5 6|0.5 5e-6 22 4.09060980468e-6|0.5 5e-7 27|0.5 1e-6 25|1 5e-6 12|0.1 1e-5 86
0.1 1e-10 201 9.31728151853e-11|0.05 5e-6 171|0.05 5e-11 401|0.01 1e-6 852|1 .3 1
"""


@pytest.mark.parametrize("row", rows(CUT_OFFS))
def test_the_cut_off_and_its_edge_mass(row: list[str]) -> None:
    epsilon, delta, k, *mass = row
    release = TruncatedGeometricRelease.of(epsilon, delta)
    assert release.k == int(k)
    assert float(release.edge_mass) <= float(delta)
    assert all(agrees(release.edge_mass, printed) for printed in mass)


# epsilon, delta: Laplace midpoint, optimal midpoint as a real and as a whole number.
MIDPOINTS = """
1 1e-5 11.8197782844 11.3611147785 12|.1 1e-10 224.327037494 200.805352902 201
.1 1e-5 109.197782844 85.6779997193 86|.01 1e-5 1082.97782844 622.160030429 623
1 1e-10 23.3327037494 22.8740286041 23|.5 1e-6 27.2447267548 25.3792286616 26
2 1e-5 6.40988914221 6.33718397844 7
"""


@pytest.mark.parametrize(("epsilon", "delta", "laplace", "real", "whole"), rows(MIDPOINTS))
def test_the_midpoints(epsilon: str, delta: str, laplace: str, real: str, whole: str) -> None:
    selection = OptimalSelection.of(epsilon, delta)
    assert agrees(LaplaceSelection.of(epsilon, delta).threshold, laplace)
    assert agrees(selection.count_kept_with(Fraction(1, 2)), real)
    assert selection.smallest_count("1/2") == int(whole)


# kappa: optimal whole and real, Laplace, Gaussian with the best split, its share, half split.
FIGURE_4 = """
1 12 11.36111478 11.81977828 18.15217161 .538 18.156923
2 23 22.16037750 24.02585093 26.06017490 .555 26.074399
3 33 32.97326146 36.75517172 32.25315823 .565 32.277175
4 44 43.78959480 49.82429058 37.54038511 .571 37.574075
5 55 54.60731231 63.14608098 42.24129543 .576 42.284451
6 66 65.42572282 76.66922652 46.52174625 .580 46.574150
7 77 76.24452960 90.35981903 50.48117812 .583 50.542620
"""


@pytest.mark.slow
@pytest.mark.parametrize("row", rows(FIGURE_4))
def test_figure_4_has_the_reference_points(row: list[str]) -> None:
    kappa, whole, real, laplace, gaussian, share, half = row
    plan = SelectionPlan.of(1, "1e-5", int(kappa))
    assert plan.smallest_count("optimal", Fraction(1, 2)) == int(whole)
    assert agrees(plan.midpoints["optimal"], real)
    assert agrees(plan.midpoints["laplace"], laplace)
    assert agrees(plan.midpoints["gaussian"], gaussian)
    assert plan.gaussian is not None
    assert agrees(plan.gaussian.noise_share, share)
    assert agrees(GaussianSelection.of(1, "1e-5", int(kappa), "1/2").threshold, half)
    assert plan.recommended == ("optimal" if int(kappa) < 3 else "gaussian")


def test_the_replacement_relation_halves_epsilon_and_delta() -> None:
    plan = SelectionPlan.of(1, "1e-5", neighbours="replacement")
    assert (plan.optimal.n1, plan.optimal.n2) == (22, 44)
    assert agrees(plan.optimal.keep_probability(22), ".461470468284")
    assert agrees(plan.optimal.keep_probability(23), ".673368360507")


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        ("1", "1e-5"), ("0.1", "1e-10"), ("0.5", "1e-6"), ("2", "1e-5"), ("0.01", "1e-4"),
        ("3", "0.2"), ("0.3", "0.49"), ("1", "0.5"), ("1", "0.7"), ("0", "1e-3"),
    ],
)  # fmt: skip
def test_the_closed_form_is_the_recursion(epsilon: str, delta: str) -> None:
    selection = OptimalSelection.of(epsilon, delta)
    last = selection.n2 or 0
    for count, expected in enumerate(islice(selection.recursion(), last + 3)):
        assert abs(selection.keep_probability(count) - expected) < 1e-53


@pytest.mark.parametrize(("epsilon", "printed"), [("1e-12", "499999.375"), ("1e-17", "499999.5")])
def test_a_tiny_epsilon_does_not_spoil_the_crossover(epsilon: str, printed: str) -> None:
    with working():
        assert agrees(crossover(Fraction(epsilon), Fraction(1, 10**6)), printed)


def test_public_and_private_buckets_have_their_own_thresholds_over_the_same_noise() -> None:
    release = TruncatedGeometricRelease.of(1, "1e-5")
    two = TwoThresholds(release, public_threshold=0)
    assert (two.threshold(is_public=True), two.threshold(is_public=False)) == (0, 11)
    # A private bucket nobody is in is never shown; a public one with more than k always is.
    assert two.keep_probability(0, is_public=False) == 0
    assert 0 < two.keep_probability(0, is_public=True) < Fraction(1, 2)
    assert two.keep_probability(12, is_public=True) == 1
    assert two.keep_probability(12, is_public=False) == release.keep_probability(12)
    assert release.keep_probability(0) == 0
