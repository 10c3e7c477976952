"""The noise that an aggregator adds to its share, and all that is known about its privacy.

Each task chooses a mechanism and names it in its privacy policy. A mechanism reads only a circuit's
sensitivity, so one mechanism serves every type of measurement. Code that adds up, composes, bounds
or describes asks the mechanism, and never checks which one it is. A mechanism gets no credit for
what it does not state, and one that leaves a question unanswered cannot be constructed.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, Self

from aggregator.dp.accounting import Pieces
from aggregator.dp.filters import Cost
from aggregator.dp.gaussian_shifts import Shifts
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.pld import ReleaseLosses
from aggregator.dp.sensitivity import NEIGHBOURS, check_max_reports_per_person
from aggregator.dp.utility import half_width_of, variance_of
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Summed

TAIL = Fraction(1, 2**64)
"""Noise is assumed to stay within a tail bound of this probability."""


@dataclasses.dataclass(frozen=True, slots=True)
class Guarantee:
    """What one release promises a person, and on what condition.

    Attributes:
        epsilon: The (epsilon, delta) bound; None if nothing is promised.
        delta: 0 for pure differential privacy; None if nothing is promised.
        rho: The bound of zero-concentrated differential privacy, if the mechanism has one.
        neighbours: Which data sets are compared: always "replacement", the measurements of one
            person change while report ids, times and counts stay.
        statement: The same in words, with who must be honest.
    """

    epsilon: Fraction | None
    delta: Fraction | None
    rho: Fraction | None
    neighbours: str
    statement: str


class PolicyParameters:
    """The parameters that a policy gives a mechanism; one that is not read is an error."""

    def __init__(self, mechanism: str, given: Mapping[str, object]) -> None:
        self._mechanism = mechanism
        self._left = {name: value for name, value in given.items() if value is not None}

    def take(
        self, name: str, parse: Callable[[object, str], Fraction], default: Fraction | None = None
    ) -> Fraction:
        """Return the parameter `name`; one without a default must be there.

        Raises `ParameterError` if it is missing, or out of range.
        """
        if name in self._left:
            return parse(self._left.pop(name), name)
        if default is None:
            raise ParameterError(f"{name}: missing; the mechanism {self._mechanism} needs it")
        return default

    def finish(self) -> None:
        """Refuse parameters that nobody has read."""
        for name in self._left:
            raise ParameterError(f"{name}: the mechanism {self._mechanism} has no such parameter")


@dataclasses.dataclass(frozen=True, slots=True)
class Mechanism(ABC):
    """One way to add noise.

    Attributes:
        max_reports_per_person: How many reports one person may have in a batch; the client enforces
            it, and no aggregator can check it.
    """

    max_reports_per_person: int = dataclasses.field(default=1, kw_only=True)

    name: ClassVar[str]
    """The name in task files, results and ledgers."""

    offered: ClassVar[str] = ""
    """How it is described to a steward who chooses among mechanisms; by default its name."""

    parameter_names: ClassVar[tuple[str, ...]] = ("epsilon",)
    """The parameters that `of` reads; as the first one grows, the noise gets smaller."""

    is_noisy: ClassVar[bool] = True
    """Whether results are signed and have intervals."""

    default_private_threshold: ClassVar[str] = "none"
    """The `private_threshold` of a task file that sets none."""

    def __post_init__(self) -> None:
        check_max_reports_per_person(self.max_reports_per_person)

    @classmethod
    @abstractmethod
    def of(cls, parameters: PolicyParameters, max_reports_per_person: int) -> Self:
        """Return the mechanism that a policy describes.

        Raises `ParameterError` if a parameter is missing or out of range.
        """

    @abstractmethod
    def parameters(self) -> Mapping[str, Fraction]:
        """Return the parameters by the names that `of` reads."""

    @abstractmethod
    def scale(self, circuit: Summed) -> Fraction:
        """Return the exact parameter of the noise; 0 if there is nothing to protect."""

    @abstractmethod
    def describe_scale(self, circuit: Summed) -> str:
        """Describe the noise and its parameter."""

    @abstractmethod
    def noise(self, circuit: Summed, entropy: Entropy) -> list[int]:
        """Return one aggregator's noise: `output_len` independent exact draws.

        At scale 0 they are zeros, and no entropy is drawn.
        """

    @abstractmethod
    def guarantee(self, circuit: Summed) -> Guarantee:
        """Return what one release promises a person, and who must be honest for it."""

    @abstractmethod
    def cost(self, circuit: Summed, releases: int) -> Cost | None:
        """Return the sum of the costs of `releases` releases to a person.

        None if nothing is promised, even for one release.
        """

    @abstractmethod
    def pieces(self, circuit: Summed) -> Pieces | None:
        """Return the independent mechanisms of equal (epsilon, delta) that a release divides into.

        One piece with the promise of the whole release is always valid. None if the release has no
        epsilon of its own.
        """

    def shifts(self, circuit: Summed) -> Sequence[Shifts] | None:  # noqa: ARG002  others ask it
        """Return how far a person moves a release's Gaussian noise; None if it has other noise."""
        return None

    @abstractmethod
    def losses(self, circuit: Summed) -> ReleaseLosses | None:
        """Return the distribution of the privacy loss of one release.

        None if the worst pair of neighbours is not known, or the library has no such noise. Raises
        `ConfigurationError` if `dp-accounting` is not installed.
        """

    @abstractmethod
    def law(self, circuit: Summed, aggregators: int) -> NoiseLaw | None:
        """Return the law of the noise of one coordinate; None only where nothing is drawn."""

    def tail_bound(self, circuit: Summed, aggregators: int = 1) -> int:
        """Return a size that no coordinate's noise exceeds, except with a probability of 2^-64."""
        return self.joint_half_width(circuit, 1 - TAIL, aggregators)

    def bound(self, circuit: Summed) -> int | None:
        """Return k, the most that one aggregator adds to or takes from a coordinate, if bounded."""
        law = self.law(circuit, 1)
        return None if law is None else law.largest_draw

    def by_part(self, circuit: Summed) -> Sequence[tuple["Mechanism", Summed]]:
        """Return the independent mechanisms that a release consists of, and what each one noises.

        Their entries come one after another. Usually there is only this mechanism.
        """
        return [(self, circuit)]

    def laws(self, circuit: Summed, aggregators: int = 2) -> list[tuple[int, NoiseLaw | None]]:
        """Return the law of each coordinate's noise, as runs of coordinates in order."""
        return [
            (part.output_len, each.law(part, aggregators)) for each, part in self.by_part(circuit)
        ]

    def half_widths(
        self, circuit: Summed, confidence: Fraction, aggregators: int = 2, *, jointly: bool = False
    ) -> list[tuple[int, int]]:
        """Return the least half width h of each coordinate, as runs of coordinates.

        Args:
            circuit: What is summed.
            confidence: The probability that a value lies within h of its true sum.
            aggregators: How many add noise.
            jointly: Whether it is the probability that all values do, by the union bound.
        """
        values = circuit.output_len if jointly else 1
        return [
            (entries, 0 if law is None else half_width_of(law, confidence, values))
            for entries, law in self.laws(circuit, aggregators)
        ]

    def promised(
        self, promise: str, epsilon: Fraction, delta: Fraction, rho: Fraction | None = None
    ) -> Guarantee:
        """Return a promise to a person, with its conditions in words."""
        most = self.max_reports_per_person
        reports = "one report" if most == 1 else f"at most {most} reports"
        statement = (
            f"{promise} for each release, for a person with {reports} in the batch, whose "
            "measurements may be any others while report ids, times and counts stay (replacement). "
            "It holds against everyone, the collector and the other aggregator included, if at "
            "least one of the two aggregators is honest; one operator of both has no privacy from "
            "itself."
        )
        return Guarantee(epsilon, delta, rho, NEIGHBOURS, statement)

    def half_width(self, circuit: Summed, confidence: Fraction, aggregators: int = 2) -> int:
        """Return the least h such that any one value lies within h of its true sum."""
        return max(width for _, width in self.half_widths(circuit, confidence, aggregators))

    def joint_half_width(self, circuit: Summed, confidence: Fraction, aggregators: int = 2) -> int:
        """Return the least h that holds for all coordinates at once, by the union bound."""
        widths = self.half_widths(circuit, confidence, aggregators, jointly=True)
        return max(width for _, width in widths)

    def variance(self, circuit: Summed, aggregators: int = 2) -> float:
        """Return the largest variance of the noise of one coordinate."""
        laws = {law for _, law in self.laws(circuit, aggregators)}
        return max(0.0 if law is None else variance_of(law) for law in laws)


def nothing_to_protect() -> Guarantee:
    """Return the guarantee for a sum that no measurement can change."""
    return Guarantee(
        epsilon=Fraction(0),
        delta=Fraction(0),
        rho=Fraction(0),
        neighbours=NEIGHBOURS,
        statement="There is nothing to protect: no measurement changes the result, which is the "
        "public number of reports. No noise is added.",
    )
