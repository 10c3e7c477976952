"""How answers become measurements of one Prio3 type, and released sums become figures."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from aggregator.collector.results import Batch, Noised, Quantity
from aggregator.collector.results.sums import SumLaw
from aggregator.dp.laws import DiscreteLaplaceLaw, NoiseLaw
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.sensitivity import max_entry
from aggregator.protocol.results import DEFAULT_CONFIDENCE
from aggregator.vdaf.circuits import Circuit
from aggregator.vdaf.circuits.measurements import Measurement
from aggregator.vdaf.instances import Value, VdafType
from aggregator.vdaf.prio3 import Prio3

Answer: TypeAlias = tuple[int, ...]
"""What one person answered, in whole numbers: places of labels, or steps above the least number."""

_REFERENCE = DiscreteLaplaceLaw(2, Fraction(1))
"""Any law: how a figure is made of draws does not depend on it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One thing that a question's result says.

    Attributes:
        shows: "count", "share", "sum", "mean", "variance" or a quantile.
        quantity: With its label, unit and interval.
        is_wanted: Whether designs are compared by its error.
    """

    shows: str
    quantity: Quantity
    is_wanted: bool = False


@dataclasses.dataclass(frozen=True)
class Design:
    """One way to ask a question.

    Attributes:
        name: Told apart by it from the question's other designs, and bound into the task with it.
        type: Of the measurements.
        parameters: Of the type, without `chunk_length`.
        measurement: The measurement of an answer.
        figures: What a batch's values say, given the values in their order and the number of
            reports.
    """

    name: str
    type: VdafType
    parameters: Mapping[str, Value]
    measurement: Callable[[Answer], Measurement]
    figures: Callable[[Sequence[Noised], int], list[Figure]]

    def prio3(self) -> Prio3:
        """Return the type with the parameters, checked."""
        return self.type.prio3(self.parameters)

    def figures_of(self, batch: Batch) -> list[Figure]:
        """Return what a batch says.

        Raises:
            ParameterError: A value is withheld, or a threshold chose it.
        """
        return self.figures(batch.plain(), batch.report_count)

    def spreads(self, report_count: int) -> list["Spread"]:
        """Return how the figures by which designs are compared are made of draws of noise.

        Args:
            report_count: Of the batch; a mean's part of each draw falls with it.

        Returns:
            One for all figures of one pattern, which are as precise as each other.
        """
        values = [
            Noised.released(0, _REFERENCE, index)
            for index in range(self.prio3().circuit.output_len)
        ]
        found: dict[SumLaw, Figure] = {}
        for figure in self.figures(values, report_count):
            if figure.is_wanted and isinstance(figure.quantity, Noised):
                found[figure.quantity.law] = figure
        return [Spread(law, figure) for law, figure in found.items()]

    def error(
        self, mechanism: Mechanism, report_count: int, confidence: Fraction = DEFAULT_CONFIDENCE
    ) -> tuple[Fraction, Figure]:
        """Return the largest half width among the figures by which designs are compared, and whose.

        Args:
            mechanism: Of each aggregator's noise.
            report_count: Of the batch; the error of a mean falls with it.
            confidence: Of each interval by itself.
        """
        law = mechanism.law(self.prio3().circuit, 2)
        widths = (
            (spread.half_width(law, confidence), spread.figure)
            for spread in self.spreads(report_count)
        )
        return max(widths, key=lambda each: each[0])


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """How some figures of one batch are made of draws of noise, whatever the noise.

    Attributes:
        pattern: The law of their noise, were each draw of `_REFERENCE`.
        figure: One of them.
    """

    pattern: SumLaw
    figure: Figure

    def half_width(
        self, law: NoiseLaw | None, confidence: Fraction = DEFAULT_CONFIDENCE
    ) -> Fraction:
        """Return the half width of their intervals where each draw is of this law, or is none."""
        if law is None:
            return Fraction(0)
        counts = {(law, part.weight): part.count for part in self.pattern.parts}
        return SumLaw.counted(counts).width(confidence).size

    def largest(self, circuit: Circuit, report_count: int) -> Fraction:
        """Return the largest that they can be, above the least; that of a count is all reports."""
        if self.figure.shows == "count":
            return Fraction(report_count)
        weight = max(part.weight for part in self.pattern.parts)
        return weight * max_entry(circuit) * report_count
