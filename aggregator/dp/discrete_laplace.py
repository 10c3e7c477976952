"""Discrete Laplace noise for every type of measurement: pure differential privacy."""

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, Self

from typing_extensions import override

from aggregator.dp import pld
from aggregator.dp.accounting import Pieces
from aggregator.dp.composition import equal_pieces
from aggregator.dp.filters import Cost, cost_of_dp
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw
from aggregator.dp.mechanisms import Guarantee, Mechanism, PolicyParameters, nothing_to_protect
from aggregator.dp.rationals import format_rational, parse_rational, require_positive
from aggregator.dp.sensitivity import furthest_move, l1_sensitivity
from aggregator.entropy import Entropy
from aggregator.vdaf.circuits import Summed


@dataclasses.dataclass(frozen=True, slots=True)
class PureDpDiscreteLaplace(Mechanism):
    """Discrete Laplace noise of scale (L1 sensitivity) / epsilon on every coordinate.

    Source: Cook, "Differential Privacy Mechanism for Prio3 and PureDpDiscreteLaplace", Theorem 4.
    """

    epsilon: Fraction

    name: ClassVar[str] = "PureDpDiscreteLaplace"
    offered: ClassVar[str] = "Laplace: one ε and no δ"

    @override
    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        require_positive(self.epsilon, "epsilon")

    @classmethod
    @override
    def of(cls, parameters: PolicyParameters, max_reports_per_person: int) -> Self:
        epsilon = parameters.take("epsilon", parse_rational)
        return cls(epsilon, max_reports_per_person=max_reports_per_person)

    @override
    def parameters(self) -> Mapping[str, Fraction]:
        return {"epsilon": self.epsilon}

    @override
    def scale(self, circuit: Summed) -> Fraction:
        return l1_sensitivity(circuit, self.max_reports_per_person) / self.epsilon

    @override
    def describe_scale(self, circuit: Summed) -> str:
        return f"discrete Laplace, t = {format_rational(self.scale(circuit))}"

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        from aggregator.dp.samplers import DiscreteLaplaceSampler

        draws = DiscreteLaplaceSampler(self.scale(circuit)).sample(circuit.output_len, entropy)
        return list(map(int, draws))

    @override
    def guarantee(self, circuit: Summed) -> Guarantee:
        if self.scale(circuit) == 0:
            return nothing_to_protect()
        promise = f"({format_rational(self.epsilon)}, 0)-differential privacy"
        return self.promised(promise, self.epsilon, Fraction(0))

    @override
    def cost(self, circuit: Summed, releases: int) -> Cost:
        pieces = self.pieces(circuit)
        return cost_of_dp(pieces.epsilon, count=releases * pieces.count)

    @override
    def pieces(self, circuit: Summed) -> Pieces:
        count = equal_pieces(circuit, self.max_reports_per_person)
        return Pieces(count, self.epsilon / count, Fraction(0))

    @override
    def losses(self, circuit: Summed) -> pld.ReleaseLosses | None:
        # The furthest move is the worst, as docs/privacy.md proves.
        move = furthest_move(circuit, self.max_reports_per_person)
        return pld.of_discrete_laplace(self.scale(circuit), move)

    @override
    def law(self, circuit: Summed, aggregators: int) -> NoiseLaw | None:
        scale = self.scale(circuit)
        return None if scale == 0 else DiscreteLaplaceLaw(aggregators, scale)
