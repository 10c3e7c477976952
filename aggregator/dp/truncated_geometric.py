"""Truncated symmetric geometric noise for histograms: bounded, at the price of a delta."""

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, Self

from typing_extensions import override

from aggregator.dp.accounting import Pieces
from aggregator.dp.certified import round_up
from aggregator.dp.filters import Cost, rho_of_pure
from aggregator.dp.laws import NoiseLaw, TruncatedGeometricLaw
from aggregator.dp.mechanisms import Guarantee, Mechanism, PolicyParameters, nothing_to_protect
from aggregator.dp.rationals import (
    format_rational,
    parse_probability,
    parse_rational,
    require_positive,
    require_probability,
)
from aggregator.dp.sensitivity import UnsupportedCircuit
from aggregator.dp.truncation import edge_mass, least_bound
from aggregator.entropy import Entropy
from aggregator.vdaf.circuits import Summed

_COORDINATES = 2
"""A report that changes buckets moves two counts, each by 1."""


@dataclasses.dataclass(frozen=True, slots=True)
class TruncatedGeometric(Mechanism):
    """Noise of (epsilon / 2, delta / 2) on every bucket, always within -k to k.

    A replaced report moves two counts by 1 each; g reports of one person, by at most g each. If
    both aggregators follow the protocol, a bucket's noise lies within -2k to 2k, so a release
    threshold of 2k shows no bucket that nobody chose.

    Source: [DVGM22], Theorem 5, for one count; the two-count form with its proof is in
    docs/privacy.md.
    """

    epsilon: Fraction
    delta: Fraction

    name: ClassVar[str] = "TruncatedGeometric"
    offered: ClassVar[str] = "Laplace, or truncated where that is smaller (ε and δ)"
    parameter_names: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    default_private_threshold: ClassVar[str] = "2k"

    @override
    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        require_positive(self.epsilon, "epsilon")
        require_probability(self.delta, "delta")

    @classmethod
    @override
    def of(cls, parameters: PolicyParameters, max_reports_per_person: int) -> Self:
        epsilon = parameters.take("epsilon", parse_rational)
        delta = parameters.take("delta", parse_probability)
        return cls(epsilon, delta, max_reports_per_person=max_reports_per_person)

    @override
    def parameters(self) -> Mapping[str, Fraction]:
        return {"epsilon": self.epsilon, "delta": self.delta}

    @override
    def scale(self, circuit: Summed) -> Fraction:
        if _buckets(circuit) == 1:
            return Fraction(0)
        return _COORDINATES * self.max_reports_per_person / self.epsilon

    @override
    def bound(self, circuit: Summed) -> int:
        if _buckets(circuit) == 1:
            return 0
        shift = self.max_reports_per_person
        return least_bound(self.epsilon / _COORDINATES, self.delta / _COORDINATES, shift)

    def coordinate_delta(self, circuit: Summed) -> Fraction:
        """Return the delta of one bucket at this k, the mass at the edge, rounded up."""
        if _buckets(circuit) == 1:
            return Fraction(0)
        edge = edge_mass(
            self.epsilon / _COORDINATES, self.bound(circuit), self.max_reports_per_person
        )
        # As many decimals as delta has leading zeros, and a dozen more.
        return round_up(edge, len(str(self.delta.denominator // self.delta.numerator)) + 12)

    def exact_delta(self, circuit: Summed) -> Fraction:
        """Return the delta of a release at this k: neither of two buckets may be at its edge."""
        return 1 - (1 - self.coordinate_delta(circuit)) ** _COORDINATES

    @override
    def describe_scale(self, circuit: Summed) -> str:
        scale, bound = format_rational(self.scale(circuit)), self.bound(circuit)
        return f"truncated symmetric geometric, t = {scale}, k = {bound}"

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        from aggregator.dp.samplers import TruncatedGeometricSampler

        sampler = TruncatedGeometricSampler(self.scale(circuit), self.bound(circuit))
        return list(map(int, sampler.sample(circuit.output_len, entropy)))

    @override
    def guarantee(self, circuit: Summed) -> Guarantee:
        if self.scale(circuit) == 0:
            return nothing_to_protect()
        parameters = f"{format_rational(self.epsilon)}, {format_rational(self.delta)}"
        return self.promised(f"({parameters})-differential privacy", self.epsilon, self.delta)

    @override
    def cost(self, circuit: Summed, releases: int) -> Cost:
        # But for the edges a release is two (epsilon / 2)-DP mechanisms: what a report leaves, and
        # what it goes to.
        rho = _COORDINATES * rho_of_pure(self.epsilon / _COORDINATES)
        return Cost(releases * self.epsilon, releases * rho, releases * self.exact_delta(circuit))

    @override
    def pieces(self, circuit: Summed) -> Pieces:
        edge = self.coordinate_delta(circuit)
        return Pieces(_COORDINATES, self.epsilon / _COORDINATES, edge)

    @override
    def losses(self, circuit: Summed) -> None:
        return None  # the library has no such noise

    @override
    def law(self, circuit: Summed, aggregators: int) -> NoiseLaw | None:
        scale = self.scale(circuit)
        if scale == 0:
            return None
        return TruncatedGeometricLaw(aggregators, scale, self.bound(circuit))


def _buckets(circuit: Summed) -> int:
    if not circuit.is_one_hot:
        raise UnsupportedCircuit(
            f"mechanism TruncatedGeometric is for Prio3Histogram, not Prio3{circuit.name}"
        )
    return circuit.output_len
