"""Which format a file has: its first bytes say so, whatever it is called."""

import codecs
from collections.abc import Mapping
from pathlib import Path

from aggregator.client.table_files.cells import CellError
from aggregator.client.table_files.csv_tables import csv_table
from aggregator.client.table_files.encodings import text_lines
from aggregator.client.table_files.table import Table
from aggregator.errors import ParameterError

_OTHERS: Mapping[bytes, str] = {
    b"\x1f\x8b": "compressed by gzip: unpack it",
    b"BZh": "compressed by bzip2: unpack it",
    b"\xfd7zXZ": "compressed by xz: unpack it",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: unpack it",
    b"7z\xbc\xaf": "a 7z archive: unpack it",
    b"Rar!": "a rar archive: unpack it",
    b"%PDF": "a PDF: save the table as CSV",
    b"ARROW1": "Arrow (Feather): save it as Parquet",
    b"Obj\x01": "Avro: save it as Parquet",
    b"SQLite format 3": "an SQLite database: save the table as CSV",
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xc2\xea\x81\x60": "SAS: save it as CSV",
    b"HEADER RECORD": "a SAS transport file: save it as CSV",
    b"RDX": "of R: save it as CSV",
    b"PK": "a zip archive: unpack it",
    b"\x89PNG": "a picture",
}
"""What else people have, and what helps."""
_OTHER_TEXT: Mapping[bytes, str] = {
    b"<": "HTML or XML: save it as CSV or .xlsx",
    b"{": "JSON: save it as CSV",
    b"[{": "JSON: save it as CSV",
}
"""Likewise after a byte order mark, and whatever white space is in it."""
_STATA = (
    b"<stata_dta>",
    *(bytes((version, order, 1, 0)) for version in range(104, 116) for order in (1, 2)),
)
_WORKBOOKS = (
    b"[Content_Types].xml",
    b"xl/",
    b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet",
)
_OLD_WORKBOOK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BEGINNING = 4096


def table_of(
    data: bytes,
    source: str,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> Table:
    """Return the table in a file's bytes: CSV, Parquet, a workbook, or a file of SPSS or Stata.

    Args:
        data: The bytes.
        source: What the file is called, for messages.
        delimiter: Between the cells of CSV; if not given, the one that the line of names has most.
        encoding: That of CSV or of a file of SPSS or Stata; if not given, UTF-8, or what the file
            says.
        sheet: Which sheet of a workbook; not needed if there is only one with cells.

    Raises:
        CellError: This is no table, or one that is not known.
        ConfigurationError: A library is not installed; names the extra that has it.
        ParameterError: An option does not fit the format.
    """
    kind = kind_of(data)
    if kind is None:
        _refuse_others(data, source)
        _refuse(sheet, "sheet", source, "CSV")
        return csv_table(text_lines(data, encoding, source), delimiter, source)
    _refuse(delimiter, "delimiter", source, kind)
    if kind not in ("SPSS", "Stata"):
        _refuse(encoding, "encoding", source, kind)
    if kind != "a workbook":
        _refuse(sheet, "sheet", source, kind)
    # Each imports a library only when it is called.
    from aggregator.client.table_files import statistics_files, typed_files

    if kind == "Parquet":
        return typed_files.parquet_table(data, source)
    if kind == "a workbook":
        return typed_files.workbook_table(data, source, sheet)
    return statistics_files.statistics_table(data, source, kind, encoding)


def table_in(
    path: Path,
    delimiter: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> Table:
    """Return the table in a file; see `table_of`."""
    return table_of(
        path.read_bytes(), path.name, delimiter=delimiter, encoding=encoding, sheet=sheet
    )


def kind_of(data: bytes) -> str | None:
    """Return the format that a file's first bytes say; None for text, or what is not known."""
    if data.startswith(b"PAR1"):
        return "Parquet"
    if data.startswith((b"$FL2", b"$FL3")):
        return "SPSS"
    if data.startswith(_STATA):
        return "Stata"
    beginning = data[:_BEGINNING]
    if data.startswith(_OLD_WORKBOOK):
        return "a workbook"
    if data.startswith(b"PK\x03\x04") and any(each in beginning for each in _WORKBOOKS):
        return "a workbook"
    return None


def _refuse_others(data: bytes, source: str) -> None:
    text = b"".join(data[:_BEGINNING].removeprefix(codecs.BOM_UTF8).split())
    for beginnings, found in ((_OTHERS, data), (_OTHER_TEXT, text)):
        for beginning, said in beginnings.items():
            if found.startswith(beginning):
                raise CellError(f"{source}: is no table that can be read, but {said}")


def _refuse(given: object, option: str, source: str, kind: str) -> None:
    if given is not None:
        raise ParameterError(f"{option}: {source} is {kind}, which has none")
