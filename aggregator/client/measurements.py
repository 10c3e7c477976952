"""Reads measurements from a command line or a CSV file, and checks them before anything is sent.

A histogram's measurement is a bucket, given by its index, or by its name if names are known. A
vector has one cell per coordinate. Everything else is one cell.
"""

import csv
import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from aggregator.errors import ParameterError
from aggregator.vdaf.circuits.base import Circuit
from aggregator.vdaf.circuits.measurements import Measurement, MeasurementError

DELIMITERS = ",;\t|"
"""What separates the cells of a line in files called CSV."""


class CellError(ParameterError):
    """An invalid cell; the message names its row, its column and what is allowed."""


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
        self, cells: Sequence[str], place: str = "measurement", columns: Sequence[str] = ()
    ) -> Measurement:
        """Return the measurement in some cells: one, or for a vector one per coordinate.

        Raises `CellError`, whose message names the place and the column.
        """
        expected = self.circuit.output_len if self.circuit.takes_vectors else 1
        if len(cells) != expected:
            raise CellError(f"{place}: {expected} cells make a measurement, not {len(cells)}")
        places = [f"{place}, {column}" for column in columns] or [place] * len(cells)
        values = [self._integer(*each) for each in zip(map(str.strip, cells), places, strict=True)]
        measurement: Measurement = values if self.circuit.takes_vectors else values[0]
        try:
            self.circuit.encode([measurement])
        except MeasurementError as error:
            raise CellError(f"{', '.join((place, *columns))}: {error.problem}") from None
        return measurement

    def read_csv(
        self,
        file: TextIO,
        columns: Sequence[str],
        person_column: str | None = None,
        max_reports_per_person: int = 1,
        delimiter: str = ",",
    ) -> tuple[list[Measurement], list[str]]:
        """Return a measurement for each row of a CSV file with a header line, and whose rows.

        Args:
            file: The file, opened as text with `newline=""`.
            columns: The column to read; for a vector, one per coordinate, in order.
            person_column: The column that says whose row it is; without it each row belongs to a
                different person, and nobody is named.
            max_reports_per_person: How many rows one person may have.
            delimiter: Between the cells of a line.

        Raises:
            CellError: A column is missing, a cell is invalid, or a person has too many rows; the
                message names the line but no person.
        """
        rows = csv.DictReader(file, delimiter=delimiter, strict=True)
        persons = list[str]()
        found = self._read_rows(rows, columns, person_column, max_reports_per_person, persons)
        return list(found), persons

    def read_arguments(self, arguments: Iterable[str]) -> list[Measurement]:
        """Return a measurement for each argument; a vector's coordinates are joined by commas."""
        return [
            self.read(
                argument.split(",") if self.circuit.takes_vectors else [argument],
                f"measurement {index + 1} ({argument!r})",
            )
            for index, argument in enumerate(arguments)
        ]

    def _read_rows(
        self,
        rows: "csv.DictReader[str]",
        columns: Sequence[str],
        person_column: str | None,
        max_reports_per_person: int,
        persons: list[str],
    ) -> Iterator[Measurement]:
        counted: Counter[str] = Counter()
        try:
            header = rows.fieldnames or ()
            for column in columns if person_column is None else (*columns, person_column):
                if column not in header:
                    raise CellError(
                        f"column {column!r}: not in the file, which has {', '.join(header)}"
                        + _other_delimiter(header, rows.reader.dialect.delimiter)
                    )
            for row in rows:
                if person_column is not None:
                    person = row[person_column]
                    if not person:
                        raise CellError(f"line {rows.line_num}, {person_column}: names no person")
                    counted[person] += 1
                    if counted[person] > max_reports_per_person:
                        raise CellError(
                            f"line {rows.line_num}, {person_column}: report {counted[person]} of "
                            f"one person; max_reports_per_person is {max_reports_per_person}"
                        )
                    persons.append(person)
                # A row with too few cells has None for the missing ones.
                cells = [row[column] or "" for column in columns]
                yield self.read(cells, f"line {rows.line_num}", columns)
        except csv.Error as error:
            raise CellError(f"line {rows.line_num}: not CSV: {error}") from None

    def _integer(self, cell: str, place: str) -> int:
        if self.labels:
            try:
                return self.labels.index(cell)
            except ValueError:
                raise CellError(
                    f"{place}: {cell!r} is none of the buckets {', '.join(self.labels)}"
                ) from None
        try:
            return int(cell)
        except ValueError:
            hint = "; names need buckets" if self.circuit.is_one_hot else ""
            raise CellError(f"{place}: must be an integer, not {cell!r}{hint}") from None


def _other_delimiter(header: Sequence[str], delimiter: str) -> str:
    """Return a hint if the only column looks like several with another delimiter."""
    others = [each for each in DELIMITERS if each != delimiter and each in "".join(header)]
    if len(header) > 1 or not others:
        return ""
    return f"; is it separated by {others[0]!r} and not by {delimiter!r}?"
