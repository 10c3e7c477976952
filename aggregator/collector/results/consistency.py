"""Makes a report's answers and tables agree with each other, which narrows their intervals.

A table of two answers is proved to have rows that add up to the one answer and columns that add up
to the other, and every answer's counts add up to the number of reports, which is public. So a count
of an answer was released many times over: by its own section and by each table of it. The best
linear unbiased estimate under which all of them agree takes no more epsilon.

A table is the sum of four parts that are orthogonal: its total, the deviations of its rows, those
of its columns, and what is left, the interaction. A section has noise of one variance, so parts are
estimated apart: the total is known; the deviations of an answer are a mean over all releases of it,
weighted by 1 over variance; an interaction is in one table only. No matrix is inverted, and all
coefficients are rational: every estimate is a fixed combination of released values, whose noise has
an exact law.

Source: Barak et al., "Privacy, Accuracy, and Consistency Too" (2007), has the aim; that least
squares are done part by part is analysis of variance in a balanced layout.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

from aggregator.collector.results.batches import Batch
from aggregator.collector.results.values import Exact, Noised, combination, shared
from aggregator.dp.decimals import integer_in
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.vdaf.circuits import Sections
from aggregator.vdaf.circuits.section_choices import OneHot
from aggregator.vdaf.circuits.section_choices import Table as PairTable

Terms: TypeAlias = list[tuple[Noised, Exact]]

_DENOMINATOR = 1000
"""Weights are rounded to fractions of this denominator: any weights are unbiased, and those near
the best are as good."""


@dataclasses.dataclass(frozen=True, eq=False)
class Consistent:
    """The released values of one report's sections, and the best estimates of them.

    `released` has all entries of the sum, in order. The number of reports is the leader's word.
    """

    circuit: Sections
    released: Sequence[Noised]
    report_count: int

    def __post_init__(self) -> None:
        if len(self.released) != self.circuit.output_len:
            raise ParameterError(
                f"values: there must be {self.circuit.output_len}, not {len(self.released)}"
            )
        integer_in(self.report_count, "report_count", 1, None)

    def section(self, number: int) -> list[Noised]:
        """Return the estimates of one section; only answers and tables differ from those released.

        Raises `ParameterError` if there is no such section.
        """
        sections = self.circuit.parts()
        if not 0 <= number < len(sections):
            raise ParameterError(f"sections are 0 to {len(sections) - 1}, not {number}")
        section, own = sections[number], self._parts[number]
        if isinstance(section, OneHot):
            found = self._answers(number)
        elif isinstance(section, PairTable):
            found = self._cells(section, number)
        else:
            return own
        return [
            combination(terms, label=value.label, unit=value.unit)
            for terms, value in zip(found, own, strict=True)
        ]

    @cached_property
    def _parts(self) -> list[list[Noised]]:
        """The released values of each section."""
        sizes = (section.output_len for section in self.circuit.parts())
        ends = list(itertools.accumulate(sizes))
        starts = [0, *ends[:-1]]
        return [[*self.released[a:b]] for a, b in zip(starts, ends, strict=True)]

    def _answers(self, number: int) -> list[Terms]:
        deviations = self._deviations(number)
        mean = Noised.exact(Fraction(self.report_count, len(deviations)))
        return [[(deviation, 1), (mean, 1)] for deviation in deviations]

    def _cells(self, table: PairTable, number: int) -> list[Terms]:
        rows, columns, own = table.rows, table.columns, self._parts[number]
        size = rows * columns
        each = Fraction(1, size)
        whole = combination((cell, each) for cell in own)
        mean = shared(whole + Fraction(self.report_count, size))
        # The interaction is the cell less the means of its row and column, and the table's mean.
        of = self._less(self._deviations(table.of), self._margin(table, number, table.of), columns)
        by = self._less(self._deviations(table.by), self._margin(table, number, table.by), rows)
        of = [combination([(row, 1), (mean, 1)]) for row in of]
        # Of few rows or few columns, each is in many cells.
        if rows < columns:
            of = [shared(row) for row in of]
        else:
            by = [shared(column) for column in by]
        return [
            [(of[row], 1), (by[column], 1), (own[row * columns + column], 1)]
            for row, column in itertools.product(range(rows), range(columns))
        ]

    @staticmethod
    def _less(deviations: list[Noised], margin: list[Noised], cells: int) -> list[Noised]:
        """Return, per cell, how much lines of a table differ from the sums of their own cells."""
        each = Fraction(1, cells)
        return [
            combination([(deviation, each), (line, -each)])
            for deviation, line in zip(deviations, margin, strict=True)
        ]

    @cached_property
    def _found(self) -> dict[int, list[Noised]]:
        """The deviations computed so far."""
        return {}

    def _deviations(self, number: int) -> list[Noised]:
        """Return how far an answer's counts lie from their mean."""
        if number not in self._found:
            entries = self.circuit.parts()[number].output_len
            self._found[number] = self._deviations_of(number, entries)
        return self._found[number]

    def _deviations_of(self, number: int, entries: int) -> list[Noised]:
        observed = [(self._parts[number], _variance(self._parts[number]))]
        for index, section in enumerate(self.circuit.parts()):
            if isinstance(section, PairTable) and number in (section.of, section.by):
                summed = section.columns if number == section.of else section.rows
                margin = self._margin(section, index, number)
                observed.append((margin, summed * _variance(self._parts[index])))
        weights = _weights([variance for _, variance in observed])
        means = [
            combination(
                (counts[entry], weight)
                for (counts, _), weight in zip(observed, weights, strict=True)
            )
            for entry in range(entries)
        ]
        each = Fraction(-1, entries)
        centre = shared(combination((mean, each) for mean in means))
        return [combination([(centre, 1), (mean, 1)]) for mean in means]

    def _margin(self, table: PairTable, index: int, number: int) -> list[Noised]:
        """Return the sums of a table over the other answer."""
        own, columns = self._parts[index], table.columns
        if number == table.of:
            lines = [own[row * columns : (row + 1) * columns] for row in range(table.rows)]
        else:
            lines = [own[column::columns] for column in range(columns)]
        return [combination((cell, 1) for cell in line) for line in lines]


def consistent(task: Task, batch: Batch) -> Batch:
    """Return a batch of Prio3Sections with answers and tables that agree.

    Raises `ParameterError` if the task is of another type, or a value is withheld or above a
    threshold.
    """
    circuit = task.prio3.circuit
    if not isinstance(circuit, Sections):
        raise ParameterError(f"the task is of Prio3{circuit.name}, not of Prio3Sections")
    made = Consistent(circuit, batch.plain(), batch.report_count)
    values = [value for number in range(len(circuit.parts())) for value in made.section(number)]
    return dataclasses.replace(batch, values=dict(zip(batch.values, values, strict=True)))


def _variance(values: Sequence[Noised]) -> float:
    """Return the variance of a section's values, which have noise of one law."""
    return values[0].law.variance()


def _weights(variances: Sequence[float]) -> list[Fraction]:
    """Return weights by 1 over variance that add up to 1; without any noise the first has all."""
    least = min(variances)
    if least == 0:
        weights = [Fraction(variance == 0) for variance in variances]
    else:
        weights = [Fraction(least / each).limit_denominator(_DENOMINATOR) for each in variances]
    whole = sum(weights, Fraction(0))
    return [weight / whole for weight in weights]
