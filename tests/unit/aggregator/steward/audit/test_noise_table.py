"""Tables of laws beside the laws themselves."""

import math
from fractions import Fraction

import numpy as np
import pytest

from aggregator.dp.certified import to_float
from aggregator.dp.gaussian_law import DiscreteGaussianLaw
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw, TruncatedGeometricLaw
from aggregator.errors import ParameterError
from aggregator.steward.audit.bucket_checks import over_windows
from aggregator.steward.audit.noise_table import NoiseTable
from aggregator.steward.audit.other_laws import FAMILIES, of_deviation

LAWS = {
    "laplace": lambda n: DiscreteLaplaceLaw(n, Fraction(2)),
    "truncated": lambda n: TruncatedGeometricLaw(n, Fraction(3, 2), 12),
    "gaussian": lambda n: DiscreteGaussianLaw(n, Fraction(9, 2)),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_sum_of_two_draws_is_the_law_of_the_pair(name: str) -> None:
    single, both = LAWS[name](1), LAWS[name](2)
    table = NoiseTable.of(single).plus(NoiseTable.of(single))
    for value in range(table.reach // 2):
        expected = to_float(both.probability(value))
        for index in (table.reach + value, table.reach - value):
            assert table.probabilities[index] == pytest.approx(expected, rel=1e-12, abs=1e-24)
    assert table.deviation**2 == pytest.approx(to_float(both.variance()), rel=1e-12)


@pytest.mark.parametrize(
    ("law", "factor", "other"),
    [
        (DiscreteLaplaceLaw(1, Fraction(4)), 0.5, DiscreteLaplaceLaw(1, Fraction(2))),
        (DiscreteGaussianLaw(1, Fraction(4)), 2.0, DiscreteGaussianLaw(1, Fraction(8))),
        (
            TruncatedGeometricLaw(1, Fraction(4), 9),
            0.5,
            TruncatedGeometricLaw(1, Fraction(2), 9),
        ),
    ],
    ids=["laplace", "gaussian", "truncated"],
)
def test_another_scale_is_the_law_of_that_scale(
    law: NoiseLaw, factor: float, other: NoiseLaw
) -> None:
    table = NoiseTable.of(law).rescaled(factor)
    for value in range(10):
        expected = to_float(other.probability(value))
        assert table.probabilities[table.reach + value] == pytest.approx(expected, rel=1e-9)


def test_magnitudes_and_shifts_keep_all_the_mass() -> None:
    table = NoiseTable.of(DiscreteLaplaceLaw(1, Fraction(2)))
    assert table.magnitudes().sum() == pytest.approx(1)
    shifted = table.shifted(-3)
    assert shifted.values @ shifted.probabilities == pytest.approx(-3)
    assert shifted.logs_of(np.array([-3])) == pytest.approx(table.logs_of(np.array([0])))


def test_a_draw_outside_of_the_support_is_impossible() -> None:
    table = NoiseTable.of(TruncatedGeometricLaw(1, Fraction(2), 5))
    assert table.reach == 5
    assert table.logs_of(np.array([6])) == -np.inf


@pytest.mark.parametrize("name", FAMILIES)
def test_a_law_of_a_family_has_the_standard_deviation_asked_for(name: str) -> None:
    assert of_deviation(FAMILIES[name], 3.0, 200).deviation == pytest.approx(3)


@pytest.mark.slow
def test_wide_noise_is_looked_at_in_steps_with_the_law_of_the_nearest() -> None:
    scale = 10**6
    table = NoiseTable.of(DiscreteLaplaceLaw(1, Fraction(scale)))
    assert table.step % 2 == 1
    assert table.reach <= 1001
    # P(Z >= m) = q^m / (1 + q), with q = e^(-1 / scale).
    half = table.step // 2
    above = [
        math.exp(-(place * table.step + half + 1) / scale) / (1 + math.exp(-1 / scale))
        for place in range(3)
    ]
    expected = [1 - 2 * above[0], above[0] - above[1], above[1] - above[2]]
    middle = table.probabilities[table.reach : table.reach + 3]
    assert middle == pytest.approx(expected, rel=1e-9)
    assert table.zero == pytest.approx(math.tanh(1 / (2 * scale)))
    draws = np.array([0, half, half + 1, -half - 1, 5 * table.step])
    assert list(table.in_steps(draws)) == [0, 0, 1, -1, 5]


def test_noise_too_wide_for_any_audit_is_refused() -> None:
    with pytest.raises(ParameterError, match="larger epsilon or rho"):
        NoiseTable.of(DiscreteLaplaceLaw(1, Fraction(10**12)))


def test_the_law_over_windows_is_computed_once() -> None:
    """The power of an audit asks for it in each step of a bisection."""
    table = NoiseTable(np.array([1 / 4, 1 / 2, 1 / 4]))
    assert over_windows(table, 5) is over_windows(table, 5)
    assert over_windows(table, 6) is not over_windows(table, 5)
