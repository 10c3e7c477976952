"""The content of an address as a file: JSON, CSV or Parquet, with the media type of each; PNG.

Spreadsheets and programs read these files, so they have all digits.
"""

import dataclasses
import importlib.util
import io
import json
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Final

from fastapi import APIRouter, Response

from aggregator.collector.openapi import described, described_file
from aggregator.collector.pages.view import View
from aggregator.collector.results.charts import TIME, Cell, Layout, draw
from aggregator.collector.results.csv_rows import as_csv
from aggregator.collector.results.tables import import_library
from aggregator.dap.problems import UnrecognizedCollectionJob
from aggregator.dp.utility import PERCENT
from aggregator.service.web.pages.charts import Chart
from aggregator.service.web.pages.frame import HEADERS
from aggregator.service.web.pages.html import legible

_LONGEST_LABEL = 90
_DOTS_AN_INCH = 144


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


def add_files(
    router: APIRouter,
    path: str,
    model: type,
    query: Sequence[str],
    file_of: Callable[[str], Callable[..., Awaitable[Response]]],
    shows: str,
    rows: str,
) -> None:
    """Add the addresses of a page's files to a router: its document, and its rows of each kind.

    Args:
        router: The router.
        path: The page's address, with `{task_id}` if it is of a task.
        model: What the document is.
        query: The names in the query that the handlers read.
        file_of: Returns the handler of the files of a kind, named by its ending.
        shows: What the document is, for programmers.
        rows: What the rows are, likewise.
    """
    in_path = "{task_id}" in path
    of_document = file_of("json")
    of_document.__doc__ = shows
    router.get(f"{path}.json", **described(model, *query, in_path=in_path))(of_document)
    for ending, kind in TABLES.items():
        of_rows = file_of(ending)
        of_rows.__doc__ = rows
        said = described_file(kind.media_type, kind.said, *query, in_path=in_path)
        router.get(f"{path}.{ending}", **said)(of_rows)


def writes_parquet() -> bool:
    """Return whether the library that writes Parquet is installed."""
    return importlib.util.find_spec("polars") is not None


def as_file(view: View, ending: str) -> Response:
    """Return the content of an address as a file of the kind that the ending names."""
    if ending == "json":
        return Response(as_json(view), headers=HEADERS, media_type="application/json")
    kind = TABLES[ending]
    return download(kind.write(view), kind.media_type, f"results.{ending}")


def draws_png() -> bool:
    """Return whether the library that draws PNG is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def as_png(chart: Chart) -> bytes:
    """Return what a chart shows as a notebook's chart of it, in PNG.

    Raises `ConfigurationError` if matplotlib is not installed.
    """
    name = TIME if chart.is_over_time else "label"
    unit = legible(chart.unit)
    rows: list[dict[str, Cell]] = [
        {"label": "", "unit": unit, "value": each.value, "low": each.low, "high": each.high}
        | {name: shorten(legible(each.label), _LONGEST_LABEL, placeholder="…")}
        for each in chart.marks
    ]
    layout = Layout(rows, [TIME] if chart.is_over_time else [])
    # Not `pyplot`, which keeps figures for a program that shows windows.
    library = import_library("PNG", "matplotlib.figure", extra="plots")
    figure = library.Figure(figsize=layout.size, layout="constrained")
    is_exact = all(each.low == each.high for each in chart.marks)
    said = "" if is_exact else f"{PERCENT} intervals"
    draw(figure.subplots(), layout, legible(chart.title), said)
    file = io.BytesIO()
    with warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes.
        warnings.filterwarnings("ignore", "Glyph ")
        figure.savefig(file, format="png", dpi=_DOTS_AN_INCH)
    return file.getvalue()


def download(content: bytes, media_type: str, name: str) -> Response:
    """Return a file that a browser saves."""
    attached = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, headers={**HEADERS, **attached}, media_type=media_type)
