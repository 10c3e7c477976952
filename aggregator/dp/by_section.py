"""Noise by section: one epsilon or rho, split exactly over what a report holds.

One scale for all entries is right if all of them are counts. But a number from 0 to 100 in the same
report would put the noise that it needs on every count. So a policy may give each section a share
of the whole; the mechanism then treats each section as a sum of its own. The noise of sections is
independent, so their costs add up: to the whole, since the shares add up to 1.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, Self, get_args

from typing_extensions import override

from aggregator.dp.accounting import Pieces
from aggregator.dp.discrete_gaussian import DiscreteGaussian
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.filters import Cost, total
from aggregator.dp.gaussian_shifts import Shifts, epsilon_of
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.mechanisms import Guarantee, Mechanism, PolicyParameters
from aggregator.dp.search import least
from aggregator.dp.sensitivity import l1_sensitivity, l2_sensitivity_squared, max_entry
from aggregator.dp.zcdp import rho_of
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit, Run, Sections, Summed

MAX_SHARES = 2**16 - 1

_FINENESS = 10**7

Base = PureDpDiscreteLaplace | DiscreteGaussian
"""The mechanisms that can be split."""

Shares = tuple[Fraction, ...]
"""The share of each section, above 0; they add up to 1."""


@dataclasses.dataclass(frozen=True, slots=True)
class BySection(Mechanism):
    """A mechanism whose epsilon or rho is split over sections, by their shares in order."""

    base: Base
    shares: Shares
    name: str = dataclasses.field(init=False)  # type: ignore[misc]  # that of what is split

    parameter_names: ClassVar[tuple[str, ...]] = ()

    @override
    def __post_init__(self) -> None:
        if not 1 <= len(self.shares) <= MAX_SHARES:
            raise ParameterError(f"shares: there must be 1 to {MAX_SHARES}, not {len(self.shares)}")
        if min(self.shares) <= 0 or sum(self.shares) != 1:
            raise ParameterError(
                f"shares: each must be above 0 and all must add up to 1, not {sum(self.shares)}"
            )
        object.__setattr__(self, "name", self.base.name)
        object.__setattr__(self, "max_reports_per_person", self.base.max_reports_per_person)
        Mechanism.__post_init__(self)

    @classmethod
    @override
    def of(cls, parameters: PolicyParameters, max_reports_per_person: int) -> Self:
        raise ParameterError("shares: a policy names the mechanism that is split")

    @override
    def parameters(self) -> Mapping[str, Fraction]:
        return self.base.parameters()

    @override
    def by_part(self, circuit: Summed) -> Sequence[tuple[Mechanism, Summed]]:
        parts = circuit.parts()
        if len(parts) != len(self.shares):
            raise ParameterError(
                f"shares: there must be one for each of the {len(parts)} sections, "
                f"not {len(self.shares)}"
            )
        return [(self._part(share), part) for share, part in zip(self.shares, parts, strict=True)]

    def _part(self, share: Fraction) -> Mechanism:
        """Return the mechanism with a share of the whole."""
        if isinstance(self.base, DiscreteGaussian):
            return dataclasses.replace(self.base, rho=share * self.base.rho)
        return dataclasses.replace(self.base, epsilon=share * self.base.epsilon)

    @override
    def scale(self, circuit: Summed) -> Fraction:
        """Return the largest parameter of any section's noise."""
        return max(each.scale(part) for each, part in self.by_part(circuit))

    @override
    def describe_scale(self, circuit: Summed) -> str:
        described: dict[str, list[str]] = {}
        for index, (each, part) in enumerate(self.by_part(circuit)):
            described.setdefault(each.describe_scale(part), []).append(str(index))
        if len(described) == 1:
            return next(iter(described))
        return "; ".join(
            f"section{'s' * (len(places) > 1)} {', '.join(places)}: {noise}"
            for noise, places in described.items()
        )

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        # One draw for all sections of one scale: a sampler takes long to begin.
        parts = self.by_part(circuit)
        scales = [each.scale(part) for each, part in parts]
        drawn: dict[Fraction, list[int]] = {}
        for scale in sorted(set(scales)):
            chosen = [index for index, each in enumerate(scales) if each == scale]
            together = JoinedParts(tuple(parts[index][1] for index in chosen))
            share = sum((self.shares[index] for index in chosen), Fraction(0))
            drawn[scale] = self._part(share).noise(together, entropy)[::-1]
        return [
            drawn[scale].pop()
            for scale, (_, part) in zip(scales, parts, strict=True)
            for _ in range(part.output_len)
        ]

    @override
    def guarantee(self, circuit: Summed) -> Guarantee:
        shifts = self.shifts(circuit)
        if shifts is None or not isinstance(self.base, DiscreteGaussian):
            return self.base.guarantee(circuit)
        return self.base.promise_of(shifts)

    @override
    def shifts(self, circuit: Summed) -> Sequence[Shifts] | None:
        found: list[Shifts] = []
        for each, part in self.by_part(circuit):
            shifts = each.shifts(part)
            if shifts is None:
                return None
            found += shifts
        return found

    @override
    def cost(self, circuit: Summed, releases: int) -> Cost:
        costs = [each.cost(part, releases) for each, part in self.by_part(circuit)]
        return total(cost for cost in costs if cost is not None)

    @override
    def pieces(self, circuit: Summed) -> Pieces | None:
        """Return one piece for the whole release; those of `by_part` compose better."""
        if isinstance(self.base, PureDpDiscreteLaplace):
            return Pieces(1, self.base.epsilon, Fraction(0))
        return None

    @override
    def losses(self, circuit: Summed) -> None:
        return None  # of each part, as `by_part` has them

    @override
    def law(self, circuit: Summed, aggregators: int) -> NoiseLaw | None:
        """Return the law of every coordinate, or raise `ParameterError`: they may differ."""
        found = {law for _, law in self.laws(circuit, aggregators)}
        if len(found) > 1:
            raise ParameterError("the noise of this task has another law in each section")
        return found.pop()

    @override
    def tail_bound(self, circuit: Summed, aggregators: int = 1) -> int:
        # That of a release with the largest scale in every entry.
        share = self.base.scale(circuit) / self.scale(circuit)
        return self._part(share).tail_bound(circuit, aggregators)

    @override
    def bound(self, circuit: Summed) -> None:
        return None


def split(base: Mechanism, shares: Shares) -> BySection:
    """Return a mechanism split over sections; a ParameterError if it cannot be."""
    if not isinstance(base, Base):
        raise ParameterError(
            f"shares: the mechanism {base.name} has one scale for all sections; only "
            f"{' and '.join(kind.name for kind in get_args(Base))} are split"
        )
    return BySection(base, shares)


@dataclasses.dataclass(frozen=True, slots=True)
class JoinedParts(Summed):
    """Several parts as one: noise of one scale on all of them has the sum of their shares."""

    of: tuple[Summed, ...]

    name: ClassVar[str] = "Sections"

    @property
    @override
    def output_len(self) -> int:
        return sum(part.output_len for part in self.of)

    @override
    def furthest(self) -> Sequence[Run]:
        return [run for part in self.of for run in part.furthest()]

    @property
    @override
    def most_entries(self) -> int:
        return sum(part.most_entries for part in self.of)


def equal_errors(base: Mechanism, circuit: Summed, units: Sequence[Fraction] = ()) -> Shares:
    """Return the shares with which each section has the same error in its unit.

    Args:
        base: The mechanism that is split.
        circuit: What is summed.
        units: For each section, the error that is as bad as an error of 1 in a count, above 0. By
            default the largest value of one entry, so 1 for counts.

    Returns:
        (Delta_2/u)^2 for Gaussian noise or Delta_1/u for Laplace noise, as parts of their sum.
    """
    parts, most = circuit.parts(), base.max_reports_per_person
    given = units or [Fraction(max_entry(part)) for part in parts]
    if len(given) != len(parts) or min(given) <= 0:
        raise ParameterError(f"units: there must be {len(parts)} above 0, one for each section")
    if isinstance(base, DiscreteGaussian):
        weights = [
            l2_sensitivity_squared(part, most) / Fraction(unit) ** 2
            for part, unit in zip(parts, given, strict=True)
        ]
    else:
        weights = [
            l1_sensitivity(part, most) / Fraction(unit)
            for part, unit in zip(parts, given, strict=True)
        ]
    whole = sum(weights, Fraction(0))
    return tuple(weight / whole for weight in weights)


def with_gaussian_epsilon(
    epsilon: Fraction, delta: Fraction, circuit: Summed, shares: Shares, most: int = 1
) -> BySection:
    """Return Gaussian noise, split over sections, of which a release is (epsilon, delta)-DP.

    It is the least such noise: rho is the largest, up to a ten-millionth, for which a release
    states no more than this epsilon. A person may have `most` reports in a release. An epsilon too
    small for any rho is a `ParameterError`.
    """
    step = rho_of(epsilon, delta) / _FINENESS

    def noise(rho: Fraction) -> BySection:
        return BySection(DiscreteGaussian(rho, delta, max_reports_per_person=most), shares)

    whole = noise(Fraction(1)).shifts(circuit) or ()

    def is_too_little(count: int) -> bool:
        rho = (count + 1) * step
        scaled = [
            dataclasses.replace(each, sigma_squared=each.sigma_squared / rho) for each in whole
        ]
        return epsilon_of(scaled, delta) > epsilon

    return noise((least(is_too_little, _FINENESS) if whole else _FINENESS) * step)


def with_equal_errors(base: Mechanism, circuit: Circuit) -> Mechanism:
    """Return a mechanism split with equal errors, or unchanged if that cannot be done."""
    if isinstance(circuit, Sections) and isinstance(base, Base):
        return BySection(base, equal_errors(base, circuit))
    return base
