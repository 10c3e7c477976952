"""A table of answers as a file has it: CSV and Parquet."""

import csv
import dataclasses
import importlib
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import TextIO

from aggregator.errors import ConfigurationError, ParameterError
from aggregator.steward.survey.cells import AnswerError, Cell

DELIMITERS = ",;\t|"

Row = Mapping[str, Cell | datetime | date]


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerTable:
    """A table whose rows, cells by column name, are read as they are iterated over, once.

    `names` are those of the columns; a table without rows has them too.
    """

    names: Collection[str]
    rows: Iterable[Row]


def table_in(path: Path, delimiter: str | None = None) -> AnswerTable:
    """Return the table in a CSV or Parquet file, by the ending of its name; see `csv_table`.

    CSV is UTF-8, with or without a byte order mark. Without polars, Parquet is a
    `ConfigurationError`.
    """
    if path.suffix.lower() in (".parquet", ".pq"):
        return _parquet(path)

    def lines() -> Iterator[list[str]]:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _lines(file, delimiter)

    return _table(lines())


def csv_table(file: TextIO, delimiter: str | None = None) -> AnswerTable:
    """Return the table in CSV, from a file opened as text with `newline=""`.

    The delimiter is by default the most frequent one in the first line. Raises `AnswerError` if
    that is not CSV in UTF-8, and while iterating, for a row with more or fewer cells than it has
    names.
    """
    return _table(_lines(file, delimiter))


def _table(lines: Iterator[list[str]]) -> AnswerTable:
    names = next(lines)
    return AnswerTable(names, (dict(zip(names, line, strict=True)) for line in lines))


def _lines(file: TextIO, delimiter: str | None) -> Iterator[list[str]]:
    """Yield the cells of each line; the first line has the names, and the others as many cells."""
    try:
        line = file.readline()
        if delimiter is None:
            delimiter = max(DELIMITERS, key=line.count)
        yield from _cells(itertools.chain([line], file), delimiter)
    except UnicodeDecodeError:
        raise AnswerError("the table is not UTF-8") from None


def _cells(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        names = next(rows, [])
        if len(set(names)) != len(names):
            raise AnswerError("the first line names a column twice")
        yield names
        number = 0
        for row in rows:
            if not row:
                continue
            number += 1
            if len(row) != len(names):
                raise AnswerError(f"row {number}: has {len(row)} cells, not {len(names)}")
            yield row
    except csv.Error as error:
        raise AnswerError(f"line {rows.line_num}: not CSV: {error}") from None


def _parquet(path: Path) -> AnswerTable:
    try:
        polars = importlib.import_module("polars")
    except ImportError:
        raise ConfigurationError("Parquet needs polars: install prio-aggregator[frames]") from None
    try:
        frame = polars.read_parquet(path)
    except polars.exceptions.PolarsError as error:
        raise ParameterError(f"{path.name}: not Parquet: {error}") from None
    return AnswerTable(frame.columns, frame.iter_rows(named=True))
