"""Tables of SPSS (.sav) and Stata (.dta), with the labels of their numbers and missing codes."""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from aggregator.client.table_files.cells import Cell, CellError, Labelled, cell_of
from aggregator.client.table_files.table import Line, Table, name_of
from aggregator.client.table_files.typed_files import library, of_double, of_floats


def statistics_table(data: bytes, source: str, kind: str, encoding: str | None) -> Table:
    """Return the table in a file of SPSS or Stata, whose own missing values are empty cells.

    Raises `CellError` if it cannot be read.
    """
    pyreadstat = library("pyreadstat", f"a file of {kind}", "tables")
    read = pyreadstat.read_sav if kind == "SPSS" else pyreadstat.read_dta
    own = getattr(pyreadstat, "PyreadstatError", pyreadstat.ReadstatError)  # newer than the oldest
    errors = (pyreadstat.ReadstatError, own, ValueError, OverflowError)

    def of_file(**options: object) -> tuple[Mapping[str, Sequence[object]], Any]:
        try:
            found: tuple[Mapping[str, Sequence[object]], Any] = read(
                io.BytesIO(data), output_format="dict", encoding=encoding, **options
            )
        except errors as error:
            hint = "; give its --encoding" if encoding is None else ""
            raise CellError(
                f"{source}: no file of {kind} that can be read: {error}{hint}"
            ) from None
        return found

    _, about = of_file(metadataonly=True)
    names = list(about.column_names)

    def lines(places: Sequence[int]) -> Iterator[Line]:
        columns, _ = of_file(usecols=[names[place] for place in dict.fromkeys(places)])
        cells = [_cells_of(columns[names[place]], names[place], about) for place in places]
        yield from enumerate(zip(*cells, strict=True), start=2)

    return Table(source, [*map(name_of, names)], lines)


def _cells_of(values: Sequence[object], name: str, about: Any) -> list[Cell]:  # noqa: ANN401  without types
    is_short = about.readstat_variable_types[name] == "float"
    cells = of_floats(values) if is_short else [_cell_of(value) for value in values]
    labels = about.variable_value_labels.get(name)
    if not labels:
        return cells
    of_value = {
        key: label
        for value, label in labels.items()
        if label.strip() and not (isinstance(value, float) and math.isnan(value))
        for key in [cell_of(value)]
    }
    return [_labelled(cell, of_value) for cell in cells]


def _cell_of(value: object) -> Cell:
    return of_double(value) if isinstance(value, float) else cell_of(value)


def _labelled(cell: Cell, labels: Mapping[Cell, str]) -> Cell:
    label = labels.get(cell)
    if label is None:
        return cell
    written = cell_of(label)
    match cell, written:
        case ((Decimal() | str()), str()):
            return Labelled(cell, written)
        case _:
            return cell
