"""The options of commands that read a table, and the table that they name."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.client.table_files.table import Table

Delimiter = Annotated[
    str | None,
    typer.Option(
        help="The delimiter of CSV; if not given, the most frequent one in the first line."
    ),
]
DecimalMark = Annotated[str, typer.Option(help='The decimal mark of numbers in text: "." or ",".')]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="The encoding of text that is not UTF-8, such as utf-16 or windows-1252.",
        show_default=False,
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(help="The sheet of a workbook; not needed if only one has cells."),
]


@dataclasses.dataclass(frozen=True, slots=True)
class TableOptions:
    """How a table is read, as options say; raises `ParameterError` for a wrong one."""

    delimiter: str | None
    encoding: str | None
    sheet: str | None
    decimal_mark: str

    def __post_init__(self) -> None:
        from aggregator.client.table_files.csv_tables import check_delimiter

        if self.delimiter is not None:
            check_delimiter(self.delimiter)
        if self.decimal_mark not in (".", ","):
            raise ParameterError(f'decimal-mark: must be "." or ",", not {self.decimal_mark!r}')

    def table_at(self, path: Path) -> "Table":
        """Return the table in a file, or in standard input for -."""
        from aggregator.client.table_files.formats import table_of

        is_input = str(path) == "-"
        data = sys.stdin.buffer.read() if is_input else path.read_bytes()
        return table_of(
            data,
            "standard input" if is_input else path.name,
            delimiter=self.delimiter,
            encoding=self.encoding,
            sheet=self.sheet,
        )
