"""Exact sums: no noise, and no differential privacy."""

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from typing import ClassVar, Self

from typing_extensions import override

from aggregator.dp.laws import NoiseLaw
from aggregator.dp.mechanisms import Guarantee, Mechanism, PolicyParameters
from aggregator.dp.sensitivity import NEIGHBOURS
from aggregator.entropy import Entropy
from aggregator.vdaf.circuits import Summed


@dataclasses.dataclass(frozen=True, slots=True)
class NoPrivacy(Mechanism):
    """No noise. It must be asked for by its name, "None"."""

    name: ClassVar[str] = "None"
    parameter_names: ClassVar[tuple[str, ...]] = ()
    is_noisy: ClassVar[bool] = False

    @classmethod
    @override
    def of(cls, parameters: PolicyParameters, max_reports_per_person: int) -> Self:
        return cls(max_reports_per_person=max_reports_per_person)

    @override
    def parameters(self) -> Mapping[str, Fraction]:
        return {}

    @override
    def scale(self, circuit: Summed) -> Fraction:
        return Fraction(0)

    @override
    def describe_scale(self, circuit: Summed) -> str:
        return "no noise"

    @override
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        return [0] * circuit.output_len

    @override
    def guarantee(self, circuit: Summed) -> Guarantee:
        return Guarantee(
            epsilon=None,
            delta=None,
            rho=None,
            neighbours=NEIGHBOURS,
            statement="No noise is added: the exact sum is released, and there is no differential "
            "privacy. The aggregators see no report as long as one of them is honest.",
        )

    @override
    def cost(self, circuit: Summed, releases: int) -> None:
        return None

    @override
    def pieces(self, circuit: Summed) -> None:
        return None

    @override
    def losses(self, circuit: Summed) -> None:
        return None

    @override
    def law(self, circuit: Summed, aggregators: int) -> NoiseLaw | None:
        return None

    @override
    def bound(self, circuit: Summed) -> int:
        return 0
