"""What an aggregator adds to its share, and what that buys: a sampler, its scale and its guarantee.

A mechanism is chosen per task and named in the privacy policy. It reads a circuit's sensitivity and
nothing else, so the same four mechanisms serve every type of measurement.
"""

import dataclasses
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar

from typing_extensions import override

from aggregator.dp.certified import to_float
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw
from aggregator.dp.rationals import format_rational, require_positive
from aggregator.dp.samplers import DiscreteLaplaceSampler
from aggregator.dp.sensitivity import (
    NEIGHBOURS,
    check_max_reports_per_person,
    l1_sensitivity,
)
from aggregator.dp.utility import half_width_of
from aggregator.entropy import Entropy
from aggregator.vdaf.circuits import Circuit

TAIL = Fraction(1, 2**64)
"""The probability beyond which a sum of noise is not reckoned with."""


@dataclasses.dataclass(frozen=True, slots=True)
class Guarantee:
    """What one release promises to a person, and on what condition.

    Attributes:
        epsilon: The (epsilon, delta) bound; None if nothing is promised.
        delta: 0 for pure differential privacy; None if nothing is promised.
        rho: The bound of zero-concentrated differential privacy, if the mechanism has one.
        neighbours: Which data sets are compared: always "replacement", the measurements of one
            person change while report ids, times and counts stay.
        statement: The same for a reader, with who must be honest.
    """

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None
    neighbours: str
    statement: str


@dataclasses.dataclass(frozen=True, slots=True)
class Mechanism(ABC):
    """One way to add noise.

    Attributes:
        max_reports_per_person: How many reports one person may have in a batch; the client keeps
            to it, no aggregator can check it.
    """

    max_reports_per_person: int

    name: ClassVar[str]
    """As task files, results and ledgers say it."""

    is_noisy: ClassVar[bool] = True
    """Whether results are signed and have intervals."""

    def __post_init__(self) -> None:
        check_max_reports_per_person(self.max_reports_per_person)

    @abstractmethod
    def scale(self, circuit: Circuit) -> Fraction:
        """Return the exact parameter of the noise; 0 where there is nothing to protect."""

    @abstractmethod
    def describe_scale(self, circuit: Circuit) -> str:
        """Return the parameter of the noise for a reader."""

    @abstractmethod
    def noise(self, circuit: Circuit, entropy: Entropy) -> list[int]:
        """Return one aggregator's noise: `output_len` independent exact draws.

        At scale 0 they are zeros, and `entropy` is not asked.
        """

    @abstractmethod
    def guarantee(self, circuit: Circuit) -> Guarantee:
        """Return what one release promises a person, and who must be honest for it."""

    @abstractmethod
    def law(self, circuit: Circuit, aggregators: int) -> NoiseLaw | None:
        """Return the law of the noise of one coordinate; None if there is none."""

    def half_width(self, circuit: Circuit, confidence: Fraction, aggregators: int = 2) -> int:
        """Return the least h such that one value lies within h of its true sum."""
        law = self.law(circuit, aggregators)
        return 0 if law is None else half_width_of(law, confidence)

    def joint_half_width(self, circuit: Circuit, confidence: Fraction, aggregators: int = 2) -> int:
        """Return the least h that holds for all coordinates at once, by the union bound."""
        law = self.law(circuit, aggregators)
        return 0 if law is None else half_width_of(law, confidence, circuit.output_len)

    def tail_bound(self, circuit: Circuit, aggregators: int = 1) -> int:
        """Return what no coordinate's noise exceeds in size, but for a probability of 2^-64."""
        return self.joint_half_width(circuit, 1 - TAIL, aggregators)

    def variance(self, circuit: Circuit, aggregators: int = 2) -> float:
        """Return the variance of the noise of one coordinate."""
        law = self.law(circuit, aggregators)
        return 0.0 if law is None else to_float(law.variance())


@dataclasses.dataclass(frozen=True, slots=True)
class PureDpDiscreteLaplace(Mechanism):
    """Discrete Laplace noise of scale (L1 sensitivity) / epsilon on every coordinate.

    Source:
        Cook, "Differential Privacy Mechanism for Prio3 and PureDpDiscreteLaplace", Theorem 4.
    """

    max_reports_per_person: int = dataclasses.field(default=1, kw_only=True)
    epsilon: Fraction

    name: ClassVar[str] = "PureDpDiscreteLaplace"

    @override
    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        require_positive(self.epsilon, "epsilon")

    @override
    def scale(self, circuit: Circuit) -> Fraction:
        return l1_sensitivity(circuit, self.max_reports_per_person) / self.epsilon

    @override
    def describe_scale(self, circuit: Circuit) -> str:
        return f"discrete Laplace, t = {format_rational(self.scale(circuit))}"

    @override
    def noise(self, circuit: Circuit, entropy: Entropy) -> list[int]:
        draws = DiscreteLaplaceSampler(self.scale(circuit)).sample(circuit.output_len, entropy)
        return list(map(int, draws))

    @override
    def guarantee(self, circuit: Circuit) -> Guarantee:
        if self.scale(circuit) == 0:
            return nothing_to_protect()
        promise = f"({format_rational(self.epsilon)}, 0)-differential privacy"
        return Guarantee(
            epsilon=self.epsilon,
            delta=Fraction(0),
            rho=None,
            neighbours=NEIGHBOURS,
            statement=statement(promise, self.max_reports_per_person),
        )

    @override
    def law(self, circuit: Circuit, aggregators: int) -> NoiseLaw | None:
        scale = self.scale(circuit)
        return None if scale == 0 else DiscreteLaplaceLaw(aggregators, scale)


@dataclasses.dataclass(frozen=True, slots=True)
class NoPrivacy(Mechanism):
    """No noise. It must be asked for by its name, "None"."""

    max_reports_per_person: int = dataclasses.field(default=1, kw_only=True)

    name: ClassVar[str] = "None"
    is_noisy: ClassVar[bool] = False

    @override
    def scale(self, circuit: Circuit) -> Fraction:
        return Fraction(0)

    @override
    def describe_scale(self, circuit: Circuit) -> str:
        return "no noise"

    @override
    def noise(self, circuit: Circuit, entropy: Entropy) -> list[int]:
        return [0] * circuit.output_len

    @override
    def guarantee(self, circuit: Circuit) -> Guarantee:
        return Guarantee(
            epsilon=None,
            delta=None,
            rho=None,
            neighbours=NEIGHBOURS,
            statement="No noise is added: the exact sum is released, and there is no differential "
            "privacy. The aggregators see no report as long as one of them is honest.",
        )

    @override
    def law(self, circuit: Circuit, aggregators: int) -> NoiseLaw | None:
        return None


def statement(promise: str, max_reports_per_person: int) -> str:
    """Return a promise with its conditions, for a reader."""
    reports = (
        "one report" if max_reports_per_person == 1 else f"at most {max_reports_per_person} reports"
    )
    return (
        f"{promise} for each release, for a person with {reports} in the batch, whose measurements "
        "may be any others while report ids, times and counts stay (replacement). It holds against "
        "everyone, the collector and the other aggregator included, if at least one of the two "
        "aggregators is honest; one operator of both has no privacy from itself."
    )


def nothing_to_protect() -> Guarantee:
    """Return the guarantee of a sum that no measurement can change."""
    return Guarantee(
        epsilon=Fraction(0),
        delta=Fraction(0),
        rho=Fraction(0),
        neighbours=NEIGHBOURS,
        statement="There is nothing to protect: no measurement changes the result, which is the "
        "public number of reports. No noise is added.",
    )
