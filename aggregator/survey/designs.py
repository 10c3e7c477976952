"""How answers become measurements of one Prio3 type, and released sums become figures."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from aggregator.dp.mechanisms import Mechanism
from aggregator.protocol.results import DEFAULT_CONFIDENCE
from aggregator.results import Batch, Noised, Quantity
from aggregator.vdaf.circuits.measurements import Measurement
from aggregator.vdaf.instances import VdafType
from aggregator.vdaf.prio3 import Prio3

Answer: TypeAlias = tuple[int, ...]
"""What one person answered, in whole numbers: places of labels, or steps above the least number."""


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
    parameters: Mapping[str, int]
    measurement: Callable[[Answer], Measurement]
    figures: Callable[[Sequence[Noised], int], list[Figure]]

    def prio3(self) -> Prio3:
        """Return the type with the parameters, checked."""
        return self.type.prio3(self.parameters)

    def figures_of(self, batch: Batch) -> list[Figure]:
        """Return what a batch says.

        Raises:
            ParameterError: A value is withheld.
        """
        return self.figures([batch[label] for label in batch.values], batch.report_count)

    def error(
        self, mechanism: Mechanism, report_count: int, confidence: Fraction = DEFAULT_CONFIDENCE
    ) -> tuple[Fraction, Figure]:
        """Return the largest half width among the figures by which designs are compared, and whose.

        Args:
            mechanism: Of each aggregator's noise.
            report_count: Of the batch; the error of a mean falls with it.
            confidence: Of each interval by itself.
        """
        circuit = self.prio3().circuit
        law = mechanism.law(circuit, 2)
        values = [Noised.released(0, law, index) for index in range(circuit.output_len)]
        # Figures of one law are as precise as each other, and one is enough.
        figures = {
            figure.quantity.law: figure
            for figure in self.figures(values, report_count)
            if figure.is_wanted and isinstance(figure.quantity, Noised)
        }
        widths = ((law.width(confidence).size, figure) for law, figure in figures.items())
        return max(widths, key=lambda each: each[0])
