"""Discrete Gaussian noise for long vectors: zero-concentrated differential privacy."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, Self

from typing_extensions import override

from aggregator.dp import pld
from aggregator.dp.filters import Cost, cost_of_zcdp
from aggregator.dp.gaussian_law import DiscreteGaussianLaw, tail_bound
from aggregator.dp.gaussian_shifts import Shifts, epsilon_of
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.mechanisms import (
    TAIL,
    Guarantee,
    Mechanism,
    PolicyParameters,
    nothing_to_protect,
)
from aggregator.dp.rationals import (
    format_rational,
    parse_probability,
    parse_rational,
    require_positive,
    require_probability,
)
from aggregator.dp.sensitivity import is_worst_in_every_entry, l2_sensitivity_squared
from aggregator.entropy import Entropy
from aggregator.vdaf.circuits import Summed

DEFAULT_DELTA = Fraction(1, 10**9)


@dataclasses.dataclass(frozen=True, slots=True)
class DiscreteGaussian(Mechanism):
    """Discrete Gaussian noise with sigma^2 = (L2 sensitivity)^2 / (2 rho) on every coordinate.

    delta is where an epsilon is stated; it has no influence on the noise. [CKS20], Theorem 14.
    """

    rho: Fraction
    delta: Fraction = DEFAULT_DELTA

    name: ClassVar[str] = "DiscreteGaussian"
    offered: ClassVar[str] = "Gaussian (\N{GREEK SMALL LETTER RHO}), for many answers per person"
    parameter_names: ClassVar[tuple[str, ...]] = ("rho", "delta")

    @override
    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        require_positive(self.rho, "rho")
        require_probability(self.delta, "delta")

    @classmethod
    @override
    def of(cls, parameters: PolicyParameters, max_reports_per_person: int) -> Self:
        rho = parameters.take("rho", parse_rational)
        delta = parameters.take("delta", parse_probability, DEFAULT_DELTA)
        return cls(rho, delta, max_reports_per_person=max_reports_per_person)

    @override
    def parameters(self) -> Mapping[str, Fraction]:
        return {"delta": self.delta, "rho": self.rho}

    @override
    def scale(self, circuit: Summed) -> Fraction:
        """Return sigma squared: sigma itself is usually irrational."""
        return l2_sensitivity_squared(circuit, self.max_reports_per_person) / (2 * self.rho)

    @override
    def describe_scale(self, circuit: Summed) -> str:
        return f"discrete Gaussian, sigma^2 = {format_rational(self.scale(circuit))}"

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        from aggregator.dp.samplers import DiscreteGaussianSampler

        sampler = DiscreteGaussianSampler(self.scale(circuit))
        return list(map(int, sampler.sample(circuit.output_len, entropy)))

    @override
    def guarantee(self, circuit: Summed) -> Guarantee:
        return self.promise_of(self.shifts(circuit))

    def promise_of(self, shifts: Sequence[Shifts]) -> Guarantee:
        """Return the promise of a release with these shifts, and of the whole rho."""
        if not shifts:
            return nothing_to_protect()
        epsilon = epsilon_of(shifts, self.delta)
        shown = math.ceil(epsilon * 10**4) / 10**4  # never below the bound itself
        promise = (
            f"{format_rational(self.rho)}-zero-concentrated differential privacy and "
            f"({shown:.4f}, {format_rational(self.delta)})-differential privacy"
        )
        return self.promised(promise, epsilon, self.delta, self.rho)

    @override
    def shifts(self, circuit: Summed) -> list[Shifts]:
        most = self.max_reports_per_person
        squared = l2_sensitivity_squared(circuit, most)
        # Without windows each report of a person may be in a release of its own, with all its
        # entries.
        entries = most * circuit.output_len
        return [Shifts(entries, squared, self.scale(circuit))] if squared else []

    @override
    def cost(self, circuit: Summed, releases: int) -> Cost:
        return cost_of_zcdp(self.rho, releases)

    @override
    def pieces(self, circuit: Summed) -> None:
        return None  # it has an epsilon at every delta, but none of its own

    @override
    def losses(self, circuit: Summed) -> pld.ReleaseLosses | None:
        if not is_worst_in_every_entry(circuit, self.max_reports_per_person):
            return None
        worst = pld.equal_shifts(circuit, self.max_reports_per_person)
        return None if worst is None else pld.of_discrete_gaussian(self.scale(circuit), *worst)

    @override
    def law(self, circuit: Summed, aggregators: int) -> NoiseLaw | None:
        scale = self.scale(circuit)
        return None if scale == 0 else DiscreteGaussianLaw(aggregators, scale)

    @override
    def tail_bound(self, circuit: Summed, aggregators: int = 1) -> int:
        scale = self.scale(circuit)
        if scale == 0:
            return 0
        return tail_bound(aggregators * scale, TAIL / circuit.output_len)
