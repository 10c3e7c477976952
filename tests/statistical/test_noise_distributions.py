"""Draws against the laws that guarantees and intervals rest on: size and power.

Size: a right sampler passes each limit all but once in 10^9 (six sigma). Power: the same draws must
be rejected under a law whose scale is 10 % off. Seeds are fixed.
"""

import dataclasses
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from typing_extensions import override

from aggregator.dp.certified import to_float
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.gaussian_law import DiscreteGaussianLaw
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw, TruncatedGeometricLaw
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.release import add_noise
from aggregator.dp.samplers import (
    DiscreteGaussianSampler,
    DiscreteLaplaceSampler,
    Draws,
    TruncatedGeometricSampler,
)
from aggregator.dp.sensitivity import UnsupportedCircuit
from aggregator.dp.utility import half_width_of
from aggregator.entropy import Entropy
from aggregator.vdaf.circuits import Histogram, Sum, Summed
from field import FIELD128, Vector, lift
from tests.support.entropy import SeededEntropy
from tests.support.losses_of_laws import circuits
from tests.support.mechanisms import noisy_examples
from tests.support.statistics import cells_of, chi_square, chi_square_limit, contingency

pytestmark = pytest.mark.statistical

COUNT = 40_000
CELLS = 60
WRONG = [Fraction(9, 10), Fraction(11, 10)]


def laplace_mass(scale: Fraction) -> Callable[[int], float]:
    q = float(np.exp(-1 / float(scale)))
    return lambda z: (1 - q) / (1 + q) * q ** abs(z)


def geometric_mass(scale: Fraction, bound: int) -> Callable[[int], float]:
    q = float(np.exp(-1 / float(scale)))
    norm = (1 + q - 2 * q ** (bound + 1)) / (1 - q)
    return lambda z: q ** abs(z) / norm if abs(z) <= bound else 0.0


def gaussian_mass(sigma_squared: Fraction) -> Callable[[int], float]:
    variance = float(sigma_squared)
    reach = int(12 * variance**0.5) + 2
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * variance))
    total = float(weights.sum())
    return lambda z: float(np.exp(-(z**2) / (2 * variance))) / total


def check(draws: Draws, right: Callable[[int], float], *wrong: Callable[[int], float]) -> None:
    values = [int(draw) for draw in draws]
    cells = cells_of(right, CELLS)
    assert chi_square(values, cells) < chi_square_limit(len(cells) - 1)
    for law in wrong:
        cells = cells_of(law, CELLS)
        assert chi_square(values, cells) > chi_square_limit(len(cells) - 1)


@pytest.mark.parametrize("scale", ["1/3", "1", "4", "22/7", "51000/7", "25500"])
def test_discrete_laplace_draws_follow_their_law_and_no_scale_ten_percent_off(scale: str) -> None:
    t = Fraction(scale)
    draws = DiscreteLaplaceSampler(t).sample(COUNT, SeededEntropy(101))
    check(draws, laplace_mass(t), *(laplace_mass(t * wrong) for wrong in WRONG))


def test_draws_beyond_64_bits_follow_the_same_law() -> None:
    # Divided by 2^70, discrete Laplace noise of scale 4 * 2^70 is that of scale 4, but for
    # rounding.
    draws = DiscreteLaplaceSampler(Fraction(4 * 2**70)).sample(COUNT, SeededEntropy(102))
    assert draws.dtype == np.object_
    thirds = np.array([int(draw) >> 69 for draw in draws])  # cells of half a unit

    def mass(half: int) -> float:
        low, high = (half, half + 1) if half >= 0 else (-half - 1, -half)
        return float(np.exp(-low / 8) - np.exp(-high / 8)) / 2

    counts = [(half, int((thirds == half).sum()), mass(half) * COUNT) for half in range(-40, 40)]
    statistic = sum((seen - expected) ** 2 / expected for _, seen, expected in counts)
    assert statistic < chi_square_limit(len(counts))


@pytest.mark.parametrize(("scale", "bound"), [("2", 22), ("4", 50), ("2/3", 3)])
def test_truncated_draws_follow_their_law(scale: str, bound: int) -> None:
    t = Fraction(scale)
    draws = TruncatedGeometricSampler(t, bound).sample(COUNT, SeededEntropy(103))
    check(draws, geometric_mass(t, bound), *(geometric_mass(t * wrong, bound) for wrong in WRONG))


def test_truncated_draws_that_are_all_but_uniform_end_where_they_should() -> None:
    t = Fraction(1000)
    draws = TruncatedGeometricSampler(t, 40).sample(COUNT, SeededEntropy(103))
    check(draws, geometric_mass(t, 40), geometric_mass(t, 36), geometric_mass(t, 44))


@pytest.mark.parametrize("sigma_squared", ["1/4", "2", "25/4", "1000000/3"])
def test_discrete_gaussian_draws_follow_their_law(sigma_squared: str) -> None:
    s = Fraction(sigma_squared)
    draws = DiscreteGaussianSampler(s).sample(COUNT, SeededEntropy(104))
    check(draws, gaussian_mass(s), *(gaussian_mass(s * wrong**2) for wrong in WRONG))


MECHANISMS = noisy_examples(delta=Fraction(1, 10**5))


def releases(mechanism: Mechanism, circuit: Histogram, seed: int, count: int) -> np.ndarray:
    """What `count` releases of an empty batch come out as, a row each."""
    entropy = SeededEntropy(seed)
    empty = Vector.zeros(FIELD128, (circuit.length,))
    return np.array([lift(add_noise(empty, mechanism, circuit, entropy)) for _ in range(count)])


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_a_releases_noise_follows_the_mechanisms_law(mechanism: Mechanism) -> None:
    circuit = Histogram(400, 20)
    noise = releases(mechanism, circuit, 105, 100).ravel()
    law = mechanism.law(circuit, 1)
    assert law is not None
    check(noise, mass_of(law))


FEW_CELLS = 20
FEW = 3000
OTHERS = [
    dataclasses.replace(each, max_reports_per_person=3)
    for each in noisy_examples(
        epsilon=Fraction(2, 5), delta=Fraction(1, 10**5), rho=Fraction(1, 30)
    )
]
"""Nothing of them is 1, so that none of it can be forgotten."""


def check_draws(mechanism: Mechanism) -> int:
    """Compare draws with the law for each type, and return for how many types there are any."""
    found = 0
    for index, circuit in enumerate(circuits()):
        try:
            law = mechanism.law(circuit, 1)
        except UnsupportedCircuit:
            continue
        assert law is not None
        entropy = SeededEntropy(112 + index)
        drawn: list[int] = []
        while len(drawn) < FEW:
            drawn += mechanism.noise(circuit, entropy)
        cells = cells_of(mass_of(law), FEW_CELLS)
        assert chi_square(np.array(drawn), cells) < chi_square_limit(len(cells) - 1), circuit
        found += 1
    return found


@pytest.mark.parametrize("mechanism", OTHERS, ids=lambda mechanism: mechanism.name)
def test_draws_follow_the_law_for_every_type_and_several_reports(mechanism: Mechanism) -> None:
    assert check_draws(mechanism) >= 3


@dataclasses.dataclass(frozen=True, slots=True)
class ForgetsReports(PureDpDiscreteLaplace):
    """It draws as if each person had one report."""

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        return PureDpDiscreteLaplace(self.epsilon).noise(circuit, entropy)


@dataclasses.dataclass(frozen=True, slots=True)
class ForgetsEpsilon(PureDpDiscreteLaplace):
    """It draws as if epsilon were 1."""

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        most = self.max_reports_per_person
        honest = PureDpDiscreteLaplace(Fraction(1), max_reports_per_person=most)
        return honest.noise(circuit, entropy)


@dataclasses.dataclass(frozen=True, slots=True)
class KnowsHistogramsOnly(PureDpDiscreteLaplace):
    """It draws what a histogram needs, whatever is summed."""

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        return PureDpDiscreteLaplace.noise(self, Histogram(circuit.output_len + 1, 1), entropy)[1:]


WIDE = (Sum(2**40), Histogram(3, 1))
MANY = 10**6
"""Reports of a person: draws are large for histograms too."""


def check_wide_draws(mechanism: Mechanism) -> int:
    """Hold large draws to the middle of their law; return for how many types there are any."""
    found = 0
    for circuit in WIDE:
        try:
            law = mechanism.law(circuit, 1)
        except UnsupportedCircuit:
            continue
        assert law is not None
        entropy = SeededEntropy(113)
        drawn: list[int] = []
        while len(drawn) < FEW // 6:
            drawn += mechanism.noise(circuit, entropy)
        for part in (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)):
            width = half_width_of(law, part, 1)
            inside = sum(abs(draw) <= width for draw in drawn) / len(drawn)
            limit = 6 * float(part * (1 - part) / len(drawn)) ** 0.5
            assert abs(inside - float(part)) < limit, circuit
        found += 1
    return found


@pytest.mark.parametrize("mechanism", OTHERS, ids=lambda mechanism: mechanism.name)
def test_large_draws_follow_the_law_too(mechanism: Mechanism) -> None:
    assert check_wide_draws(dataclasses.replace(mechanism, max_reports_per_person=MANY))


@dataclasses.dataclass(frozen=True, slots=True)
class Wraps(PureDpDiscreteLaplace):
    """Its draws are numbers of 16 bits."""

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        drawn = PureDpDiscreteLaplace.noise(self, circuit, entropy)
        return [(draw + 2**15) % 2**16 - 2**15 for draw in drawn]


@dataclasses.dataclass(frozen=True, slots=True)
class ForgetsManyReports(PureDpDiscreteLaplace):
    """It draws enough for up to a hundred reports."""

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        most = min(self.max_reports_per_person, 100)
        fewer = PureDpDiscreteLaplace(self.epsilon, max_reports_per_person=most)
        return fewer.noise(circuit, entropy)


@pytest.mark.parametrize("kind", [Wraps, ForgetsManyReports])
def test_large_draws_that_are_too_small_are_found(kind: type[PureDpDiscreteLaplace]) -> None:
    check_draws(kind(Fraction(2, 5), max_reports_per_person=3))  # small ones are not
    with pytest.raises(AssertionError):
        check_wide_draws(kind(Fraction(2, 5), max_reports_per_person=MANY))


@pytest.mark.parametrize("kind", [ForgetsReports, ForgetsEpsilon, KnowsHistogramsOnly])
def test_draws_that_forget_something_are_found(kind: type[PureDpDiscreteLaplace]) -> None:
    with pytest.raises(AssertionError):
        check_draws(kind(Fraction(2, 5), max_reports_per_person=3))


def mass_of(law: NoiseLaw) -> Callable[[int], float]:
    match law:
        case DiscreteLaplaceLaw():
            return laplace_mass(law.scale)
        case TruncatedGeometricLaw():
            return geometric_mass(law.scale, law.bound)
        case DiscreteGaussianLaw():
            return gaussian_mass(law.sigma_squared)
        case _:
            raise AssertionError(law)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_the_sum_of_two_aggregators_noise_follows_the_law_that_intervals_use(
    mechanism: Mechanism,
) -> None:
    circuit = Histogram(400, 20)
    both = releases(mechanism, circuit, 106, 100) + releases(mechanism, circuit, 107, 100)
    law = mechanism.law(circuit, 2)
    assert law is not None
    table = {z: to_float(law.probability(z)) for z in range(60)}
    check(both.ravel(), lambda z: table.get(abs(z), 0.0))
    width = mechanism.half_width(circuit, Fraction(95, 100))
    covered = float((np.abs(both) <= width).mean())
    assert covered > 0.95 - 6 * (0.95 * 0.05 / both.size) ** 0.5


def strongest_tie(noise: np.ndarray) -> float:
    """Return the largest correlation of the signs of two coordinates, in standard deviations."""
    signs = np.sign(noise).astype(float)
    ties = np.abs(signs.T @ signs)[np.triu_indices(noise.shape[1], 1)]
    return float(ties.max() / (len(noise) ** 0.5 * (signs**2).mean()))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_no_coordinate_tells_of_any_other(mechanism: Mechanism) -> None:
    """Limit: seven standard deviations, for there are 79,800 pairs."""
    assert strongest_tie(releases(mechanism, Histogram(400, 20), 114, 100)) < 7


def test_one_draw_that_is_used_for_two_coordinates_is_found() -> None:
    noise = releases(MECHANISMS[0], Histogram(400, 20), 114, 100)
    noise[:, 399] = noise[:, 17]
    assert strongest_tie(noise) > 7


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.name)
def test_coordinates_aggregators_and_batches_are_independent(mechanism: Mechanism) -> None:
    circuit = Histogram(400, 20)
    leader, helper = releases(mechanism, circuit, 108, 100), releases(mechanism, circuit, 109, 100)
    pairs = {
        "neighbouring coordinates": (leader[:, :-1], leader[:, 1:]),
        "far coordinates": (leader[:, :200], leader[:, 200:]),
        "aggregators": (leader, helper),
        "batches that follow each other": (leader[:-1], leader[1:]),
    }
    for name, (left, right) in pairs.items():
        statistic, degrees = contingency(left.ravel(), right.ravel())
        assert statistic < chi_square_limit(degrees), name


def test_the_independence_test_finds_noise_of_which_one_draw_in_twenty_is_used_twice() -> None:
    circuit = Histogram(400, 20)
    leader = releases(MECHANISMS[0], circuit, 110, 100)
    helper = releases(MECHANISMS[0], circuit, 111, 100)
    reused = np.where(np.arange(400) % 20 == 0, leader, helper)
    statistic, degrees = contingency(leader.ravel(), reused.ravel())
    assert statistic > chi_square_limit(degrees)
