"""A table of values with their intervals: rows, data frame, CSV, Parquet, HTML and a chart.

What needs pandas, polars, pyarrow or matplotlib imports it when it is called.
"""

import dataclasses
import html
import importlib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from aggregator.collector.results.charts import Cell, Layout, draw, draw_multiples
from aggregator.collector.results.csv_rows import as_csv
from aggregator.collector.results.intervals import ConfidenceInterval
from aggregator.collector.results.sayable import Range, Shown, shown
from aggregator.collector.results.values import Quantity, joint_intervals
from aggregator.collector.results.whole_files import written_whole
from aggregator.collector.results.written import aligned
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ConfigurationError, ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWN_COLUMNS = ("label", "value", "low", "high", "unit", "confidence", "jointly", "method")
_RIGHT = frozenset({"value", "from", "to"})


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Values in rows.

    Attributes:
        quantities: One a row.
        columns: More cells of each row, by column, such as a week or a group. They come first.
        confidence: Of the intervals.
        jointly: Whether all intervals hold at once with that confidence, or each by itself.
        intervals: Those to show in place of the quantities' own, such as corrected for selection.
        guarantee: What people are promised, in a few words; it stands above the rows.
        possible: What each value may be: one whose interval covers more than half of it is not
            shown as a number, but for `rows`, frames and files.
    """

    quantities: Sequence[Quantity]
    columns: Mapping[str, Sequence[Cell]] = dataclasses.field(default_factory=dict)
    confidence: Fraction = DEFAULT_CONFIDENCE
    jointly: bool = False
    intervals: Sequence[ConfidenceInterval] | None = None
    title: str = ""
    guarantee: str = ""
    possible: Sequence[Range | None] = ()

    def __post_init__(self) -> None:
        count = len(self.quantities)
        for name, cells in self.columns.items():
            if name in _OWN_COLUMNS:
                raise ParameterError(f"columns: {name!r} is a column of every table")
            if len(cells) != count:
                raise ParameterError(f"columns: {name!r} has {len(cells)} cells, not {count}")
        if self.intervals is not None and len(self.intervals) != count:
            raise ParameterError(f"intervals: there are {len(self.intervals)}, not {count}")
        if self.possible and len(self.possible) != count:
            raise ParameterError(f"possible: there are {len(self.possible)}, not {count}")

    @cached_property
    def rows(self) -> list[dict[str, Cell]]:
        """A dictionary for each row, with floats for exact numbers; None without an estimate."""
        return [
            {name: cells[index] for name, cells in self.columns.items()}
            | {
                "label": quantity.label,
                "value": None if quantity.estimate is None else float(quantity.estimate),
                "low": float(interval.low),
                "high": float(interval.high),
                "unit": quantity.unit,
                "confidence": float(interval.confidence),
                "jointly": interval.jointly,
                "method": interval.method,
            }
            for index, (quantity, interval) in enumerate(
                zip(self.quantities, self._intervals, strict=True)
            )
        ]

    @cached_property
    def shown(self) -> list[Shown]:
        """Each value in words, or what is said in place of it."""
        possible = self.possible or [None] * len(self.quantities)
        return list(map(shown, self.quantities, possible, self._intervals))

    def frame(self) -> Any:  # noqa: ANN401 - of whichever of two libraries is installed
        """Return a data frame of pandas, or of polars where that is installed and pandas is not.

        Raises `ConfigurationError` if neither is installed.
        """
        library = import_library("a data frame", "pandas", "polars")
        return library.DataFrame(self._by_column())

    def to_csv(self, path: Path | str) -> None:
        """Write the rows as CSV in UTF-8, with a line of column names; see `as_csv`."""
        with written_whole(Path(path)) as file:
            file.write(as_csv(self._names(), self.rows))

    def to_parquet(self, path: Path | str) -> None:
        """Write the rows as Parquet.

        Raises `ConfigurationError` if neither polars nor pyarrow is installed.
        """
        library = import_library("Parquet", "polars", "pyarrow")
        if library.__name__ == "polars":
            with written_whole(Path(path)) as file:
                library.DataFrame(self._by_column()).write_parquet(file)
        else:
            parquet = importlib.import_module("pyarrow.parquet")
            with written_whole(Path(path)) as file:
                parquet.write_table(library.table(self._by_column()), file)

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw the estimates with their intervals; unbounded ones are left out.

        Rows of several windows (the column `window`) become lines over time, other rows stand
        below each other. What all rows have in common is said once, in the title. Groups (the
        column `group`) become small charts with one scale, unless axes are given.

        Args:
            axes: The axes of matplotlib to draw into; new ones by default.

        Returns:
            The axes; the first of them if there are several.

        Raises:
            ConfigurationError: matplotlib is not installed.
        """
        layout = Layout(self.rows, list(self.columns))
        if axes is None:
            pyplot = import_library("a chart", "matplotlib.pyplot", extra="plots")
            if len({row.get("group") for row in self.rows}) > 1:
                title = "; ".join(filter(None, [self.title, self._statement()]))
                return draw_multiples(pyplot, self.rows, list(self.columns), title)[0]
            axes = pyplot.subplots(figsize=layout.size, layout="constrained")[1]
        draw(axes, layout, self.title, self._statement())
        return axes

    @override
    def __repr__(self) -> str:
        """Show the title, and each value on a line."""
        said = "; ".join(filter(None, [self.title, self.guarantee, self._statement()]))
        names, cells = self._readable()
        return "\n".join(filter(None, [said, *aligned([names, *cells])]))

    def _repr_html_(self) -> str:
        """Return the table for a notebook: escaped text, no script and no style but alignment."""
        names, cells = self._readable()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(map(_html_cell, names, row)) + "</tr>" for row in cells)
        said = "; ".join(filter(None, [self.guarantee, self._statement()]))
        caption = html.escape(f"{self.title} ({said})".strip())
        return (
            f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )

    def _readable(self) -> tuple[list[str], list[list[str]]]:
        """Return names and cells for a reader: what says something, and values in words."""
        named = {
            name: [str(row[name] or "") for row in self.rows] for name in (*self.columns, "label")
        }
        kept = {name: cells for name, cells in named.items() if any(cells)}
        columns = kept | {
            "value": [each.value for each in self.shown],
            "from": ["" if each.ends is None else each.ends[0] for each in self.shown],
            "to": ["" if each.ends is None else each.ends[1] for each in self.shown],
        }
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]

    @cached_property
    def _intervals(self) -> Sequence[ConfidenceInterval]:
        if self.intervals is not None:
            return self.intervals
        if self.jointly and self.quantities:
            return joint_intervals(self.quantities, self.confidence)
        return [quantity.interval(self.confidence) for quantity in self.quantities]

    def _statement(self) -> str:
        return statement(self._intervals)

    def _names(self) -> list[str]:
        return [*self.columns, *_OWN_COLUMNS]

    def _by_column(self) -> dict[str, list[Cell]]:
        return {name: [row[name] for row in self.rows] for name in self._names()}


def statement(intervals: Sequence[ConfidenceInterval]) -> str:
    """Return what intervals are: at which confidence, and how many at once."""
    found = {(each.confidence, each.jointly) for each in intervals}
    return "; ".join(
        f"{100 * float(confidence):.6g} % intervals, "
        + ("each by itself" if jointly == 1 else f"{jointly} at once")
        for confidence, jointly in sorted(found)
    )


def _html_cell(name: str, cell: str) -> str:
    side = "right" if name in _RIGHT else "left"
    return f'<td style="text-align:{side}">{html.escape(cell)}</td>'


def import_library(what: str, *names: str, extra: str = "frames") -> Any:  # noqa: ANN401 - a module
    """Return the first of some modules that is installed, or raise `ConfigurationError`.

    The message says what needs one of them, and which extra of the package installs the first.
    """
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    libraries = " or ".join(name.split(".")[0] for name in names)
    raise ConfigurationError(f"{what} needs {libraries}: install prio-aggregator[{extra}]")
