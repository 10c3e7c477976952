"""The content of an address as a file: JSON, CSV or Parquet; and the media type of each.

Spreadsheets and programs read these files, so they have all digits.
"""

import dataclasses
import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fastapi import Response

from aggregator.collector.pages.view import View
from aggregator.collector.results.csv_rows import as_csv
from aggregator.collector.results.tables import import_library
from aggregator.dap.problems import UnrecognizedCollectionJob
from aggregator.service.web.pages.frame import HEADERS


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file."""

    media_type: str
    said: str
    write: Callable[[View], bytes]


def as_json(view: View) -> bytes:
    """Return the content of an address as JSON."""
    return json.dumps(
        {"version": 1, **view.document, "rows": view.rows()}, allow_nan=False
    ).encode()


def rows_as_csv(view: View) -> bytes:
    """Return the rows of an address as CSV."""
    rows = view.rows()
    return as_csv(list(rows[0]) if rows else [], rows)


def as_parquet(view: View) -> bytes:
    """Return the rows of an address as Parquet.

    Raises `UnrecognizedCollectionJob` if polars is not installed.
    """
    if not writes_parquet():
        raise UnrecognizedCollectionJob(
            "Parquet needs polars where the service runs: prio-aggregator[frames]"
        )
    polars = import_library("Parquet", "polars")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "rows.parquet"
        polars.DataFrame(view.rows(), infer_schema_length=None).write_parquet(file)
        return file.read_bytes()


TABLES: Final[Mapping[str, Kind]] = {
    "csv": Kind(
        "text/csv",
        "The rows in UTF-8, below a line of their names; a text that a spreadsheet would compute "
        "begins with an apostrophe.",
        rows_as_csv,
    ),
    "parquet": Kind(
        "application/vnd.apache.parquet",
        "The rows, where the service has polars; 404 elsewhere.",
        as_parquet,
    ),
}
"""Kinds of files with rows, by the ending of their addresses."""


def writes_parquet() -> bool:
    """Return whether the library that writes Parquet is installed."""
    return importlib.util.find_spec("polars") is not None


def as_file(view: View, ending: str) -> Response:
    """Return the content of an address as a file of the kind that the ending names."""
    if ending == "json":
        return Response(as_json(view), headers=HEADERS, media_type="application/json")
    kind = TABLES[ending]
    return download(kind.write(view), kind.media_type, f"results.{ending}")


def download(content: bytes, media_type: str, name: str) -> Response:
    """Return a file that a browser saves."""
    attached = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, headers={**HEADERS, **attached}, media_type=media_type)
