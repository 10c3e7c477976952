"""Reads measurements from a command line or a table, and checks them before anything is sent.

A histogram's measurement is a bucket, given by its index, or by its name if names are known. A
vector has one cell per coordinate. Everything else is one cell.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence

from aggregator.client.table_files.cells import Cell, CellError, shown, text_cell
from aggregator.client.table_files.laws import number_of, person_of, words_of
from aggregator.client.table_files.table import Table
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits.base import Circuit
from aggregator.vdaf.circuits.measurements import Measurement, MeasurementError


@dataclasses.dataclass(frozen=True, slots=True)
class MeasurementReader:
    """Reads measurements of one circuit from text.

    Attributes:
        circuit: What the measurements are for.
        labels: Names of a histogram's buckets in the order of their indices; empty for indices.
    """

    circuit: Circuit
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.labels:
            return
        if not self.circuit.is_one_hot:
            raise ParameterError(f"buckets: only a histogram has them, not {self.circuit.name}")
        if len(self.labels) != self.circuit.output_len:
            raise ParameterError(
                f"buckets: the histogram has {self.circuit.output_len}, not {len(self.labels)}"
            )
        if len(set(self.labels)) != len(self.labels):
            raise ParameterError("buckets: two have the same name")

    def read(
        self,
        cells: Sequence[Cell],
        place: str = "measurement",
        columns: Sequence[str] = (),
        decimal_mark: str = ".",
    ) -> Measurement:
        """Return the measurement in some cells: one, or for a vector one per coordinate.

        Raises `CellError`, whose message names the place and the column.
        """
        expected = self.circuit.output_len if self.circuit.takes_vectors else 1
        if len(cells) != expected:
            raise CellError(f"{place}: {expected} cells make a measurement, not {len(cells)}")
        places = [f"{place}, {column}" for column in columns] or [place] * len(cells)
        values = [self._integer(*each, decimal_mark) for each in zip(cells, places, strict=True)]
        measurement: Measurement = values if self.circuit.takes_vectors else values[0]
        try:
            self.circuit.encode([measurement])
        except MeasurementError as error:
            raise CellError(f"{', '.join((place, *columns))}: {error.problem}") from None
        return measurement

    def read_table(
        self,
        table: Table,
        columns: Sequence[str],
        person_column: str | None = None,
        max_reports_per_person: int = 1,
        decimal_mark: str = ".",
    ) -> tuple[list[Measurement], list[str]]:
        """Return a measurement for each row of a table, and whose rows they are.

        Args:
            table: The table.
            columns: The column to read; for a vector, one per coordinate, in order.
            person_column: The column that says whose row it is; without it each row belongs to a
                different person, and nobody is named.
            max_reports_per_person: How many rows one person may have.
            decimal_mark: "." or ",", in text.

        Raises:
            CellError: A column is missing, a cell is invalid, or a person has too many rows; the
                message names the line but no person.
        """
        expected = self.circuit.output_len if self.circuit.takes_vectors else 1
        if len(columns) != expected:
            raise CellError(f"column: {expected} make a measurement, not {len(columns)}")
        found, persons = list[Measurement](), list[str]()
        counted: Counter[str] = Counter()
        wanted = [*columns, *([] if person_column is None else [person_column])]
        for number, cells in table.read(wanted):
            place = f"{table.source}, line {number}"
            if person_column is not None:
                try:
                    person = person_of(cells[-1], decimal_mark)
                except CellError as error:
                    raise CellError(f"{place}, {person_column}: {error}") from None
                counted[person] += 1
                if counted[person] > max_reports_per_person:
                    raise CellError(
                        f"{place}, {person_column}: report {counted[person]} of one person; "
                        f"max_reports_per_person is {max_reports_per_person}"
                    )
                persons.append(person)
            found.append(self.read(cells[: len(columns)], place, columns, decimal_mark))
        return found, persons

    def read_arguments(self, arguments: Iterable[str]) -> list[Measurement]:
        """Return a measurement for each argument; a vector's coordinates are joined by commas."""
        return [
            self.read(
                [
                    text_cell(each)
                    for each in (argument.split(",") if self.circuit.takes_vectors else [argument])
                ],
                f"measurement {index + 1} ({argument!r})",
            )
            for index, argument in enumerate(arguments)
        ]

    def _integer(self, cell: Cell, place: str, decimal_mark: str) -> int:
        if self.labels:
            labels = [text_cell(label) for label in self.labels]
            for word in words_of(cell, decimal_mark):
                if word in labels:
                    return labels.index(word)
            raise CellError(
                f"{place}: {shown(cell)} is none of the buckets {', '.join(self.labels)}"
            )
        try:
            number = number_of(cell, decimal_mark)
        except CellError:
            number = None
        if number is None or number.denominator != 1:
            hint = "; names need buckets" if self.circuit.is_one_hot else ""
            raise CellError(f"{place}: must be an integer, not {shown(cell)}{hint}")
        return int(number)
