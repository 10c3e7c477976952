"""Every mechanism's certified law against what the mechanism promises a person.

The other tests compare draws with the law that the mechanism itself names: a mechanism with half
the noise that its epsilon needs, and a law to match, would pass them. Here the promise is computed
from the law, for the furthest move of a circuit, by nothing that the mechanism says.
"""

import dataclasses
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from typing_extensions import override

from aggregator.dp.certified import Enclosure, exp, to_float
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.gaussian_law import DiscreteGaussianLaw
from aggregator.dp.laws import NoiseLaw, TruncatedGeometricLaw
from aggregator.dp.mechanisms import Guarantee, Mechanism
from aggregator.dp.policy import MECHANISMS
from aggregator.dp.sensitivity import UnsupportedCircuit
from aggregator.dp.truncated_geometric import TruncatedGeometric
from aggregator.vdaf.circuits import Circuit, Count, Histogram, Sum
from tests.support.losses_of_laws import (
    DIGITS,
    circuits,
    delta_at,
    enclosed,
    probabilities,
    reach_of,
    renyi,
    shifts_of,
)
from tests.support.mechanisms import example_of

CIRCUITS = circuits()
HISTOGRAMS = [circuit for circuit in CIRCUITS if isinstance(circuit, Histogram)]
"""Every mechanism is for them, at least."""
ORDERS = (1.01, 2.0, 8.0, 40.0)


class BrokenPromiseError(Exception):
    """A law that hides a person less than is promised."""


def check_pure(law: NoiseLaw, shifts: list[int], epsilon: Fraction, reach: int) -> None:
    """The product over entries of the largest ratio of probabilities, enclosed by rationals."""
    worst = Enclosure(Fraction(1), Fraction(1))
    for shift, entries in Counter(shifts).items():
        masses = [enclosed(law, value) for value in range(-reach - shift, reach + shift + 1)]
        if not all(mass.high for mass in masses):
            raise BrokenPromiseError("an outcome that no neighbour has, and no delta for it")
        ratios = [here / there for here, there in zip(masses, masses[shift:], strict=False)]
        largest = max(ratios, key=lambda ratio: ratio.low)
        for _ in range(entries):
            worst *= largest
    if worst.low > exp(epsilon, DIGITS).high:
        raise BrokenPromiseError(f"{float(worst.low)} instead of {math.exp(epsilon)}")


def check_promise(mechanism: Mechanism, circuit: Circuit) -> None:
    """Refuse a mechanism whose law breaks what `guarantee` says of one release.

    Raises:
        BrokenPromiseError: It does.
        UnsupportedCircuit: The mechanism is not for such a circuit.
    """
    promise: Guarantee = mechanism.guarantee(circuit)
    law = mechanism.law(circuit, 1)  # one aggregator is honest
    if promise.epsilon is None:
        if mechanism.is_noisy:
            raise BrokenPromiseError("noise that promises nothing")
        return
    assert law is not None
    assert promise.delta is not None
    shifts = shifts_of(mechanism, circuit)
    assert shifts, "a circuit that nobody moves says nothing"
    reach = reach_of(law)
    drawn = probabilities(law, reach)
    if not np.array_equal(drawn, drawn[::-1]):
        raise BrokenPromiseError("up and down are not alike")
    if promise.delta == 0:
        check_pure(law, shifts, promise.epsilon, reach)
    delta = delta_at(law, shifts, float(promise.epsilon), reach)
    if delta > float(promise.delta) * (1 + 1e-9) + 1e-12:
        raise BrokenPromiseError(f"delta {delta} instead of {float(promise.delta)}")
    if promise.rho is not None:
        for order in ORDERS:
            found = renyi(law, shifts, order, reach)
            if found > float(promise.rho) * order * (1 + 1e-9):
                raise BrokenPromiseError(f"order {order}: {found} instead of {promise.rho * order}")


def check_far(mechanism: Mechanism) -> int:
    """Refuse too little noise for one number that a person moves far: too far to enumerate the law.

    Among the outcomes above some value, one of two neighbours must not have many more than the
    other. Returns for how many types the mechanism is.
    """
    found = 0
    for most, circuit in ((1, Sum(2**40)), (10**6, Count())):
        far = dataclasses.replace(mechanism, max_reports_per_person=most)
        try:
            law, promise = far.law(circuit, 1), far.guarantee(circuit)
        except UnsupportedCircuit:
            continue
        assert law is not None
        assert promise.epsilon is not None
        assert promise.delta is not None
        (shift,) = shifts_of(far, circuit)
        for step in range(64):
            least = 1 + int(step * law.spread() / 8)
            here, there = (to_float(law.upper_tail(each) or 0) for each in (least, least + shift))
            delta = here - math.exp(promise.epsilon) * there
            if delta > float(promise.delta) * (1 + 1e-9) + 1e-12:
                raise BrokenPromiseError(f"delta {delta} instead of {float(promise.delta)}")
        found += 1
    return found


def judged(mechanism: Mechanism) -> list[Circuit]:
    """Check a mechanism on every circuit that it is for, and return these."""
    found = []
    for circuit in CIRCUITS:
        try:
            check_promise(mechanism, circuit)
        except UnsupportedCircuit:
            continue
        found.append(circuit)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("reports", [1, 3])
@pytest.mark.parametrize("kind", MECHANISMS.values(), ids=lambda kind: kind.name)
def test_the_law_keeps_the_promise(kind: type[Mechanism], reports: int) -> None:
    found = judged(example_of(kind, reports))
    assert [each for each in HISTOGRAMS if each not in found] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", MECHANISMS.values(), ids=lambda kind: kind.name)
def test_the_law_keeps_another_promise(kind: type[Mechanism]) -> None:
    weak = {"epsilon": Fraction(5, 2), "delta": Fraction(1, 50), "rho": Fraction(1, 2)}
    strong = {"epsilon": Fraction(1, 5), "delta": Fraction(1, 10**6), "rho": Fraction(1, 50)}
    for other in (weak, strong):
        for circuit in HISTOGRAMS:
            check_promise(example_of(kind, **other), circuit)


@pytest.mark.parametrize("kind", MECHANISMS.values(), ids=lambda kind: kind.name)
def test_the_law_keeps_the_promise_to_who_moves_a_number_far(kind: type[Mechanism]) -> None:
    mechanism = example_of(kind)
    if mechanism.is_noisy:
        assert check_far(mechanism) == (0 if kind is TruncatedGeometric else 2)


@dataclasses.dataclass(frozen=True, slots=True)
class Thrifty(PureDpDiscreteLaplace):
    """Half of the noise that its epsilon needs, in its scale and in its law alike."""

    @override
    def scale(self, circuit: Circuit) -> Fraction:
        return PureDpDiscreteLaplace.scale(self, circuit) / 2


@dataclasses.dataclass(frozen=True, slots=True)
class Narrow(TruncatedGeometric):
    """Cut off one earlier than its delta allows."""

    @override
    def bound(self, circuit: Circuit) -> int:
        return TruncatedGeometric.bound(self, circuit) - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Slim(DiscreteGaussian):
    """A variance that is a tenth too small."""

    @override
    def scale(self, circuit: Circuit) -> Fraction:
        return DiscreteGaussian.scale(self, circuit) * Fraction(9, 10)


@dataclasses.dataclass(frozen=True, slots=True)
class ShortSighted(Slim):
    """The same, and it says that no draw is larger than 1."""

    @override
    def tail_bound(self, circuit: Circuit, aggregators: int = 1) -> int:
        return 1


@dataclasses.dataclass(frozen=True, slots=True)
class CutOff(PureDpDiscreteLaplace):
    """It draws nothing beyond some size, and promises a delta of 0."""

    @override
    def law(self, circuit: Circuit, aggregators: int) -> NoiseLaw | None:
        return TruncatedGeometricLaw(
            aggregators, self.scale(circuit), int(20 * self.scale(circuit))
        )


@dataclasses.dataclass(frozen=True, slots=True)
class OfOneTypeOnly(PureDpDiscreteLaplace):
    """Honest for all types but one."""

    @override
    def scale(self, circuit: Circuit) -> Fraction:
        right = PureDpDiscreteLaplace.scale(self, circuit)
        return right / 2 if circuit.name == "L1BoundSum" else right


@dataclasses.dataclass(frozen=True, slots=True)
class ShortOnly(PureDpDiscreteLaplace):
    """Honest for few buckets."""

    @override
    def scale(self, circuit: Circuit) -> Fraction:
        right = PureDpDiscreteLaplace.scale(self, circuit)
        return right / 100 if circuit.output_len > 6 else right


@dataclasses.dataclass(frozen=True, slots=True)
class ShortInteger(PureDpDiscreteLaplace):
    """It keeps sensitivities in few bits, and so do all its answers."""

    @override
    def scale(self, circuit: Circuit) -> Fraction:
        return min(PureDpDiscreteLaplace.scale(self, circuit), Fraction(2**16) / self.epsilon)


@dataclasses.dataclass(frozen=True, slots=True)
class FarSlim(DiscreteGaussian):
    """A variance that is a tenth too small where it is large; the promise is not told."""

    @override
    def law(self, circuit: Circuit, aggregators: int) -> NoiseLaw | None:
        scale = DiscreteGaussian.scale(self, circuit)
        return DiscreteGaussianLaw(aggregators, scale * Fraction(9, 10) if scale > 10**9 else scale)


@pytest.mark.parametrize("kind", [ShortInteger, FarSlim])
def test_too_little_noise_for_who_moves_a_number_far_is_refused(kind: type[Mechanism]) -> None:
    check_promise(example_of(kind), Histogram(3, 1))  # who moves little is not told apart
    with pytest.raises(BrokenPromiseError):
        check_far(example_of(kind))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [Thrifty, Narrow, Slim, ShortSighted, CutOff, OfOneTypeOnly, ShortOnly]
)
def test_a_mechanism_that_lies_in_all_its_answers_alike_is_refused(kind: type[Mechanism]) -> None:
    with pytest.raises(BrokenPromiseError):
        judged(example_of(kind))


def test_a_mechanism_that_forgets_that_a_report_moves_two_counts_is_refused() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class OneCount(PureDpDiscreteLaplace):
        @override
        def scale(self, circuit: Circuit) -> Fraction:
            return Fraction(1) / self.epsilon

    check_promise(example_of(OneCount), Count())
    with pytest.raises(BrokenPromiseError, match=r"^7\.389"):
        check_promise(example_of(OneCount), Histogram(3, 1))
