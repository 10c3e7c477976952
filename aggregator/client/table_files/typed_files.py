"""Tables of typed cells: Parquet, and the workbooks of Excel and LibreOffice."""

import importlib
import io
import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from aggregator.client.table_files.cells import Cell, CellError, Inexact, Strange, cell_of, plain
from aggregator.client.table_files.formulas import not_computed
from aggregator.client.table_files.table import Line, Table, name_of
from aggregator.errors import ConfigurationError

_MILLISECOND = timedelta(milliseconds=1)
_FEW_DIGITS = 12
_SPREADSHEET_DIGITS = 15
_MOST_OF_32_BITS = 3e38
_NOT_COMPUTED = Strange("a formula without its value: open the file in a spreadsheet and save it")


class FloatCells(dict[float, Decimal]):
    """The numbers that floats of fewer than 64 bits are written as, which most of them repeat."""

    def __init__(self, kind: type[np.floating] = np.float32) -> None:
        super().__init__()
        self._kind = kind
        self._exact = 2 ** (np.finfo(kind).nmant + 1)

    def __missing__(self, value: float) -> Decimal:
        written = np.format_float_scientific(self._kind(value), unique=True)
        self[value] = (Decimal if abs(value) < self._exact else Inexact)(written)
        return self[value]


def library(name: str, what: str, extra: str) -> Any:  # noqa: ANN401  a module without types
    """Return a module, or raise `ConfigurationError` that names the extra which has it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigurationError(f"{what} needs {name}: install prio-aggregator[{extra}]") from None


def parquet_table(data: bytes, source: str) -> Table:
    """Return the table in a Parquet file, or raise `CellError`."""
    polars = library("polars", "Parquet", "frames")
    # Polars panics at some damaged files, which is no `Exception`.
    panic = getattr(polars.exceptions, "PanicException", OSError)
    errors = (polars.exceptions.PolarsError, OSError, panic)
    try:
        names = list(polars.read_parquet_schema(io.BytesIO(data)))
    except errors as error:
        raise CellError(f"{source}: not Parquet: {error}") from None

    def lines(places: Sequence[int]) -> Iterator[Line]:
        try:
            frame = polars.read_parquet(io.BytesIO(data), columns=sorted(set(places)))
        except errors as error:
            raise CellError(f"{source}: not Parquet: {error}") from None
        by_place = dict(zip(sorted(set(places)), frame.get_columns(), strict=True))
        try:
            columns = [_cells_of(polars, by_place[place]) for place in places]
        except (*errors, ValueError, OverflowError) as error:  # a year beyond 9999
            raise CellError(f"{source}: has a value that cannot be read: {error}") from None
        yield from enumerate(zip(*columns, strict=True), start=2)

    return Table(source, [*map(name_of, names)], lines)


def _cells_of(polars: Any, series: Any) -> Sequence[Cell]:  # noqa: ANN401  a library without types
    values = series.to_list()
    # It hands out doubles, of which 0.7 in 32 bits is another.
    if series.dtype == polars.Float32:
        return of_floats(values)
    if series.dtype == getattr(polars, "Float16", None):  # newer than the oldest version
        return of_floats(values, np.float16)
    return [cell_of(value) for value in values]


def of_floats(values: Sequence[object], kind: type[np.floating] = np.float32) -> list[Cell]:
    """Return what numbers say that were stored in fewer than 64 bits."""
    written = FloatCells(kind)
    return [
        written[value] if isinstance(value, float) and math.isfinite(value) else cell_of(value)
        for value in values
    ]


def of_double(value: float, digits: int = 17) -> Cell:
    """Return what a number says in a format that has no numbers of 32 bits, to so many digits.

    A fraction of many digits that is exactly a number of 32 bits was one before: of others one in
    500 million is.
    """
    cell = cell_of(value)
    if value.is_integer() or not isinstance(cell, Decimal):
        return cell
    if len(cell.as_tuple().digits) <= _FEW_DIGITS:
        return cell
    if abs(value) < _MOST_OF_32_BITS and float(np.float32(value)) == value:
        return of_floats([value])[0]
    return cell_of(float(f"{value:.{digits}g}"))


def workbook_table(data: bytes, source: str, sheet: str | None) -> Table:
    """Return the table in a sheet of a workbook, whose first row with cells has the names.

    Raises `CellError` if there is no such sheet, or several and none is named.
    """
    calamine = library("python_calamine", "a workbook", "tables")
    try:
        workbook = calamine.CalamineWorkbook.from_filelike(io.BytesIO(data))
        name = _sheet_of(workbook, source, sheet)
        cells_of_sheet = workbook.get_sheet_by_name(name)
        rows = [*enumerate(cells_of_sheet.iter_rows(), start=1)]
    except calamine.CalamineError as error:
        raise CellError(f"{source}: no workbook that can be read: {error}") from None
    filled = [(number, row) for number, row in rows if not all(map(_is_blank, row))]
    if not filled:
        return Table(source, [], lambda _: iter(()))
    names = [_name(cell) for cell in filled[0][1]]

    def lines(places: Sequence[int]) -> Iterator[Line]:
        unknown = not_computed(data, name)
        first = cells_of_sheet.start[1]  # of the columns that have cells
        for number, row in filled[1:]:
            cells = [_of_spreadsheet(row[place]) for place in places]
            for at, place in enumerate(places) if unknown else ():
                if (number, first + place) in unknown:
                    cells[at] = _NOT_COMPUTED
            yield number, cells

    return Table(f"{source}, sheet {name!r}" if sheet else source, names, lines)


def _sheet_of(workbook: Any, source: str, sheet: str | None) -> str:  # noqa: ANN401  without types
    # Not charts, nor what only macros see.
    names = [each.name for each in workbook.sheets_metadata if "WorkSheet" in str(each.typ)]
    has = ", ".join(map(repr, names)) or "none"
    if sheet is not None:
        found = [each for each in names if name_of(each) == name_of(sheet)]
        if not found:
            raise CellError(f"{source}: has no sheet {sheet!r}: it has {has}")
        return str(found[0])
    filled = [each for each in names if workbook.get_sheet_by_name(each).height]
    if len(filled) > 1:
        raise CellError(f"{source}: has several sheets, {has}: name one with --sheet")
    if not names:
        raise CellError(f"{source}: has no sheet of cells")
    return str([*filled, *names][0])


def _is_blank(cell: object) -> bool:
    return isinstance(cell, str) and not cell.strip()


def _name(cell: object) -> str:
    read = _of_spreadsheet(cell)
    if isinstance(read, Decimal):
        return plain(read)
    return read if isinstance(read, str) else ""


def _of_spreadsheet(value: object) -> Cell:
    match value:
        case bool():
            return cell_of(value)
        case float() if math.isfinite(value) and not value.is_integer():
            # A spreadsheet shows, and saves as CSV, no more digits than these.
            return of_double(value, _SPREADSHEET_DIGITS)
        case datetime():
            nearest = value + _MILLISECOND / 2
            return nearest.replace(microsecond=nearest.microsecond // 1000 * 1000)
        case _:
            return cell_of(value)
