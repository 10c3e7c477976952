"""What every mechanism answers besides its promise, against its law.

Budgets add up `cost`, composition takes `pieces`, `losses` and `shifts` at their word, and error
bars are what `half_widths`, `variance` and the law's own moments say. A mechanism that keeps its
promise for one release can still lie in each of these. So each answer is computed here once more,
from the law of one aggregator's noise, which draws are held to follow
(`tests/statistical/test_noise_distributions.py`).
"""

import dataclasses
import importlib.util
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typing_extensions import override

from aggregator.dp import pld
from aggregator.dp.accounting import Pieces
from aggregator.dp.certified import Enclosed, to_float
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.filters import Cost, cost_of_dp
from aggregator.dp.gaussian_shifts import Shifts, epsilon_of
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw
from aggregator.dp.mechanisms import TAIL, Guarantee, Mechanism
from aggregator.dp.policy import MECHANISMS
from aggregator.dp.sensitivity import UnsupportedCircuit, furthest_move
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.vdaf.circuits import Circuit, Histogram, Summed
from tests.support.entropy import SeededEntropy
from tests.support.losses_of_laws import (
    circuits,
    delta_at,
    probabilities,
    reach_of,
    renyi,
    shifts_of,
)
from tests.support.mechanisms import example_of, noisy_examples

ORDERS = (1.01, 2.0, 8.0, 40.0)
PARTS = (0.25, 0.5, 0.75, 0.9, 1.0)
"""Of the whole epsilon: where claimed losses are compared with those of the law."""

DELTAS = (Fraction(1, 100), Fraction(1, 10**4), Fraction(1, 10**6))
CONFIDENCES = (Fraction(1, 2), Fraction(95, 100), Fraction(99, 100), Fraction(999, 1000))
LONG_ENOUGH = 1 + 1e-9
DOUBLES = 1e-12


class WrongAnswerError(Exception):
    """An answer that does not follow from the mechanism's own law."""


def check(is_right: bool, answer: str) -> None:  # noqa: FBT001  it reads like assert
    if not is_right:
        raise WrongAnswerError(answer)


def law_of(mechanism: Mechanism, circuit: Circuit) -> NoiseLaw:
    law = mechanism.law(circuit, 1)
    assert law is not None
    return law


def check_cost(mechanism: Mechanism, circuit: Circuit) -> None:
    law, shifts = law_of(mechanism, circuit), shifts_of(mechanism, circuit)
    reach = reach_of(law)
    one = mechanism.cost(circuit, 1)
    assert one is not None
    for releases in (2, 1000):
        check(mechanism.cost(circuit, releases) == one.times(releases), "the cost of several")
    if one.epsilon is not None:
        delta = delta_at(law, shifts, float(one.epsilon), reach)
        check(delta <= float(one.delta) * LONG_ENOUGH + DOUBLES, "epsilon and delta of the cost")
    for order in ORDERS:
        found = renyi(law, shifts, order, reach, but_for=float(one.delta))
        check(found <= float(one.rho) * order * LONG_ENOUGH, f"rho of the cost, order {order}")


def randomised_responses(pieces: Pieces, epsilon: float) -> float:
    """The delta at which the worst mechanisms of these pieces have this epsilon together."""
    each, n = float(pieces.epsilon), pieces.count
    truth = math.exp(each) / (1 + math.exp(each))
    delta = 0.0
    for lies in range(n + 1):
        loss = (n - 2 * lies) * each
        if loss > epsilon:
            chance = math.comb(n, lies) * truth ** (n - lies) * (1 - truth) ** lies
            delta += chance * -math.expm1(epsilon - loss)
    return 1 - (1 - float(pieces.delta)) ** n * (1 - delta)


def check_pieces(mechanism: Mechanism, circuit: Circuit) -> None:
    pieces, cost = mechanism.pieces(circuit), mechanism.cost(circuit, 1)
    assert cost is not None
    check((pieces is None) == (cost.epsilon is None), "whether there are pieces")
    if pieces is None:
        return
    law, shifts = law_of(mechanism, circuit), shifts_of(mechanism, circuit)
    whole = float(pieces.count * pieces.epsilon)
    for part in PARTS:
        found = delta_at(law, shifts, part * whole, reach_of(law))
        claimed = randomised_responses(pieces, part * whole)
        check(found <= claimed * LONG_ENOUGH + DOUBLES, f"the pieces, at {part} of epsilon")


def check_losses(mechanism: Mechanism, circuit: Circuit) -> None:
    losses, promise = mechanism.losses(circuit), mechanism.guarantee(circuit)
    if losses is None:
        return
    assert promise.epsilon is not None
    of_all: Any = None
    for of_draw, count in losses.of_draws:
        composed: Any = of_draw.self_compose(count)
        of_all = composed if of_all is None else of_all.compose(composed)
    law, shifts = law_of(mechanism, circuit), shifts_of(mechanism, circuit)
    for part in PARTS:
        epsilon = part * float(promise.epsilon)
        found = delta_at(law, shifts, epsilon, reach_of(law))
        claimed = of_all.get_delta_for_epsilon(epsilon)
        check(found <= claimed * (1 + 1e-6) + 1e-9, f"the losses, at {part} of epsilon")


def of_two(mechanism: Mechanism, circuit: Circuit) -> NDArray:
    """The probabilities of the sum of two aggregators' noise, with 0 in the middle."""
    law = law_of(mechanism, circuit)
    one = probabilities(law, reach_of(law))
    size = 2 * len(one) - 1
    if size < 2**12:
        return np.convolve(one, one)
    fast = 1 << (size - 1).bit_length()
    return np.maximum(0, np.fft.irfft(np.fft.rfft(one, fast) ** 2, fast)[:size])


def check_errors(mechanism: Mechanism, circuit: Circuit) -> None:
    both = of_two(mechanism, circuit)
    reach = len(both) // 2
    law = mechanism.law(circuit, 2)
    assert law is not None
    near = min(reach, 200)
    named = probabilities(law, near)
    check(np.allclose(both[reach - near : reach + near + 1], named, atol=1e-10), "the law of two")
    beyond = 2 * np.append(np.cumsum(both[::-1])[:reach][::-1], 0)  # P(|z| > h), for h from 0 on
    for confidence in CONFIDENCES:
        for jointly in (False, True):
            values = circuit.output_len if jointly else 1
            missed = float(1 - confidence) / values
            for entries, width in mechanism.half_widths(circuit, confidence, jointly=jointly):
                assert entries <= circuit.output_len
                said = f"the half width at {float(confidence)}{', jointly' * jointly}"
                check(beyond[min(width, reach)] <= missed + 1e-10, said)
                check(not width or beyond[min(width, reach) - 1] > missed - 1e-10, said)
    variance = float((np.arange(-reach, reach + 1.0) ** 2 * both).sum())
    check(math.isclose(mechanism.variance(circuit), variance, rel_tol=1e-6), "the variance")


def check_shifts(mechanism: Mechanism, circuit: Circuit) -> None:
    shifts = mechanism.shifts(circuit)
    if shifts is None:
        return
    law, moves = law_of(mechanism, circuit), shifts_of(mechanism, circuit)
    for delta in DELTAS:
        found = delta_at(law, moves, float(epsilon_of(shifts, delta)), reach_of(law))
        said = f"the shifts, at delta {float(delta)}"
        check(found <= float(delta) * LONG_ENOUGH + DOUBLES, said)


def check_law(mechanism: Mechanism, circuit: Circuit) -> None:
    one = law_of(mechanism, circuit)
    reach = reach_of(one)
    drawn, values = probabilities(one, reach), np.arange(-reach, reach + 1.0)
    spread = float((values**2 * drawn).sum()) ** 0.5
    check(one.spread() >= spread * (1 - 1e-9), "the spread")
    rates = np.array([0.1, 0.5, 1]) / one.spread()
    moments = np.log((np.exp(np.outer(rates, values)) * drawn).sum(axis=1))
    check((one.log_moment(rates) >= moments * (1 - 1e-9)).all(), "the moments")
    angles = np.array([0.01, 0.5, 3])
    cosines, errors = one.characteristic(angles)
    waves = (np.cos(np.outer(angles, values)) * drawn).sum(axis=1)
    check((np.abs(cosines - waves) <= errors + 1e-9).all(), "the characteristic function")
    for aggregators, masses in ((1, drawn), (2, of_two(mechanism, circuit))):
        law = mechanism.law(circuit, aggregators)
        assert law is not None
        sizes = np.abs(np.arange(len(masses)) - len(masses) // 2)
        mean = to_float(law.mean_magnitude())
        check(math.isclose(mean, float((sizes * masses).sum()), rel_tol=1e-6), "the mean size")


def check_tail(mechanism: Mechanism, circuit: Circuit) -> None:
    for aggregators in (1, 2):
        law = mechanism.law(circuit, aggregators)
        assert law is not None
        tail = law.upper_tail(mechanism.tail_bound(circuit, aggregators) + 1)
        if tail is not None:
            beyond = tail(50).high if callable(tail) else tail
            limit = TAIL * (1 + Fraction(1, 10**9))
            check(2 * beyond * circuit.output_len <= limit, "the tail bound")
        check(mechanism.bound(circuit) == law.largest_draw, "the bound")


def check_answers(mechanism: Mechanism, circuit: Circuit) -> None:
    """Refuse a mechanism that answers anything else than its law says.

    Raises:
        WrongAnswerError: It does.
        UnsupportedCircuit: The mechanism is not for such a circuit.
    """
    if not mechanism.is_noisy:
        assert mechanism.cost(circuit, 1) is None
        return
    check_cost(mechanism, circuit)
    check_pieces(mechanism, circuit)
    if importlib.util.find_spec("dp_accounting") is not None:
        check_losses(mechanism, circuit)
    check_shifts(mechanism, circuit)
    check_errors(mechanism, circuit)
    check_law(mechanism, circuit)
    check_tail(mechanism, circuit)


def check_all(kind: type[Mechanism], reports: int = 1, **parameters: Fraction) -> None:
    for circuit in circuits():
        try:
            check_answers(example_of(kind, reports, **parameters), circuit)
        except UnsupportedCircuit:
            continue


@pytest.mark.slow
@pytest.mark.parametrize("reports", [1, 3])
@pytest.mark.parametrize("kind", MECHANISMS.values(), ids=lambda kind: kind.name)
def test_every_answer_follows_from_the_law(kind: type[Mechanism], reports: int) -> None:
    check_all(kind, reports)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MECHANISMS.values(), ids=lambda kind: kind.name)
def test_every_answer_follows_for_other_parameters(kind: type[Mechanism]) -> None:
    check_all(kind, epsilon=Fraction(5, 2), delta=Fraction(1, 10**6), rho=Fraction(1, 50))


Honest = PureDpDiscreteLaplace


@dataclasses.dataclass(frozen=True, slots=True)
class CheapSeries(Honest):
    """A thousand releases cost little more than one."""

    @override
    def cost(self, circuit: Summed, releases: int) -> Cost:
        one = Honest.cost(self, circuit, 1)
        return dataclasses.replace(one, epsilon=(one.epsilon or 0) * (1 + Fraction(releases, 1000)))


@dataclasses.dataclass(frozen=True, slots=True)
class CheapRho(Honest):
    """Its rho is a tenth of the true one."""

    @override
    def cost(self, circuit: Summed, releases: int) -> Cost:
        right = Honest.cost(self, circuit, releases)
        return dataclasses.replace(right, rho=right.rho / 10)


@dataclasses.dataclass(frozen=True, slots=True)
class CheapIfLong(Honest):
    """Its cost is honest for few entries."""

    @override
    def cost(self, circuit: Summed, releases: int) -> Cost:
        right = Honest.cost(self, circuit, releases)
        return dataclasses.replace(
            right, epsilon=(right.epsilon or 0) / (1 + (circuit.output_len > 8))
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Crumbled(Honest):
    """A hundred pieces, which there are not."""

    @override
    def cost(self, circuit: Summed, releases: int) -> Cost:
        return cost_of_dp(self.epsilon, count=releases)

    @override
    def pieces(self, circuit: Summed) -> Pieces:
        return Pieces(100, self.epsilon / 100)


@dataclasses.dataclass(frozen=True, slots=True)
class LightLosses(Honest):
    """Its losses are those of twice the noise."""

    @override
    def losses(self, circuit: Summed) -> pld.ReleaseLosses | None:
        move = furthest_move(circuit, self.max_reports_per_person)
        return pld.of_discrete_laplace(2 * self.scale(circuit), move)


@dataclasses.dataclass(frozen=True, slots=True)
class ShyTogether(Honest):
    """Two aggregators' noise is said to be that of one."""

    @override
    def law(self, circuit: Summed, aggregators: int) -> NoiseLaw | None:
        return Honest.law(self, circuit, 1)


@dataclasses.dataclass(frozen=True, slots=True)
class NarrowIfSure(Honest):
    """Intervals of high confidence are too narrow."""

    @override
    def half_widths(
        self, circuit: Summed, confidence: Fraction, aggregators: int = 2, *, jointly: bool = False
    ) -> list[tuple[int, int]]:
        right = Honest.half_widths(self, circuit, confidence, aggregators, jointly=jointly)
        return [(n, width - (confidence > Fraction(98, 100))) for n, width in right]


@dataclasses.dataclass(frozen=True, slots=True)
class NarrowJointly(Honest):
    """Joint intervals are hardly wider than single ones."""

    @override
    def half_widths(
        self, circuit: Summed, confidence: Fraction, aggregators: int = 2, *, jointly: bool = False
    ) -> list[tuple[int, int]]:
        single = Honest.half_widths(self, circuit, confidence, aggregators)
        return [(n, width + jointly) for n, width in single]


@dataclasses.dataclass(frozen=True, slots=True)
class Calm(Honest):
    """A quarter of its variance."""

    @override
    def variance(self, circuit: Summed, aggregators: int = 2) -> float:
        return Honest.variance(self, circuit, aggregators) / 4


@dataclasses.dataclass(frozen=True, slots=True)
class ShortTail(Honest):
    """It says that noise ends where it does not."""

    @override
    def tail_bound(self, circuit: Summed, aggregators: int = 1) -> int:
        return Honest.tail_bound(self, circuit, aggregators) - 1


@dataclasses.dataclass(frozen=True, slots=True)
class ShortTailOfTwo(Honest):
    """It forgets how many aggregators add noise; `release` asks about two."""

    @override
    def tail_bound(self, circuit: Summed, aggregators: int = 1) -> int:
        return Honest.tail_bound(self, circuit)


@dataclasses.dataclass(frozen=True, slots=True)
class Bounded(Honest):
    """It says that what it never saw is never drawn, so that thresholds may rest on it."""

    @override
    def bound(self, circuit: Summed) -> int:
        return Honest.tail_bound(self, circuit)


@dataclasses.dataclass(frozen=True, slots=True)
class ShiftsOfTwo(DiscreteGaussian):
    """Its promise is right, but composition is told of two aggregators' noise."""

    @override
    def guarantee(self, circuit: Summed) -> Guarantee:
        return self.promise_of(DiscreteGaussian.shifts(self, circuit))

    @override
    def shifts(self, circuit: Summed) -> list[Shifts]:
        right = DiscreteGaussian.shifts(self, circuit)
        return [dataclasses.replace(each, sigma_squared=2 * each.sigma_squared) for each in right]


class LightLaw(DiscreteLaplaceLaw):
    """Its moments are those of half the scale."""

    @override
    def log_moment(self, rates: NDArray) -> NDArray:
        found: NDArray = DiscreteLaplaceLaw.log_moment(self, rates / 2)
        return found


class ShortLaw(DiscreteLaplaceLaw):
    """Its mean size is that of one draw, for two as well."""

    @override
    def mean_magnitude(self) -> Enclosed:
        return DiscreteLaplaceLaw(1, self.scale).mean_magnitude()


@dataclasses.dataclass(frozen=True, slots=True)
class LightMoments(Honest):
    """What sums of results rest on is too small."""

    @override
    def law(self, circuit: Summed, aggregators: int) -> NoiseLaw | None:
        return LightLaw(aggregators, self.scale(circuit))


@dataclasses.dataclass(frozen=True, slots=True)
class ShortMean(Honest):
    """The mean error that planners show is too small."""

    @override
    def law(self, circuit: Summed, aggregators: int) -> NoiseLaw | None:
        return ShortLaw(aggregators, self.scale(circuit))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (CheapSeries, "the cost of several"),
        (CheapRho, "rho of the cost"),
        (CheapIfLong, "epsilon and delta of the cost"),
        (Crumbled, "the pieces"),
        (LightLosses, "the losses"),
        (ShyTogether, "the law of two"),
        (NarrowIfSure, "the half width at 0.99"),
        (NarrowJointly, "jointly"),
        (Calm, "the variance"),
        (ShortTail, "the tail bound"),
        (ShortTailOfTwo, "the tail bound"),
        (Bounded, "the bound"),
        (ShiftsOfTwo, "the shifts"),
        (LightMoments, "the moments"),
        (ShortMean, "the mean size"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_a_mechanism_that_lies_in_one_answer_is_refused(kind: type[Mechanism], answer: str) -> None:
    if kind is LightLosses:
        pytest.importorskip("dp_accounting")
    with pytest.raises(WrongAnswerError, match=answer):
        check_all(kind)


@pytest.mark.parametrize("mechanism", noisy_examples(), ids=lambda mechanism: mechanism.name)
def test_two_thousand_releases_draw_two_thousand_different_noises(mechanism: Mechanism) -> None:
    """A sampler that keeps few bits of its entropy repeats itself: 20 of them do so twice here."""
    circuit = Histogram(64, 8)
    drawn = {tuple(mechanism.noise(circuit, SeededEntropy(seed))) for seed in range(2000)}
    assert len(drawn) == 2000


KEY_BITS = 256


class Counted(SeededEntropy):
    """Counts the bits that were taken."""

    bits = 0

    @override
    def bytes(self, size: int) -> bytes:
        self.bits += 8 * size
        return SeededEntropy.bytes(self, size)


def check_entropy(mechanism: Mechanism) -> None:
    """Noise is made of what is given, and of so many bits that nobody can try them all."""
    circuit, entropy = Histogram(64, 8), Counted(1)
    noise = mechanism.noise(circuit, entropy)
    check(noise == mechanism.noise(circuit, SeededEntropy(1)), "the noise of the same entropy")
    check(entropy.bits >= KEY_BITS, "the noise of a short seed")


@pytest.mark.parametrize("mechanism", noisy_examples(), ids=lambda mechanism: mechanism.name)
def test_noise_is_made_of_a_whole_key_of_entropy(mechanism: Mechanism) -> None:
    check_entropy(mechanism)


@dataclasses.dataclass(frozen=True, slots=True)
class Stretched(Honest):
    """Its 64 bits of entropy do not repeat in two thousand releases, but can all be tried."""

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        return Honest.noise(self, circuit, SeededEntropy(entropy.bytes(8)))


@dataclasses.dataclass(frozen=True, slots=True)
class OfItsOwn(Honest):
    """It has a generator of its own."""

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        return Honest.noise(self, circuit, SystemEntropy())


@pytest.mark.parametrize(("kind", "why"), [(Stretched, "short seed"), (OfItsOwn, "same entropy")])
def test_noise_of_another_source_is_refused(kind: type[Mechanism], why: str) -> None:
    with pytest.raises(WrongAnswerError, match=why):
        check_entropy(example_of(kind))
