"""A question by group: a row for each answer, a column for each group of people."""

import dataclasses
import html
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from aggregator.collector.results.charts import Cell, draw_multiples
from aggregator.collector.results.csv_rows import as_csv
from aggregator.collector.results.intervals import ConfidenceInterval
from aggregator.collector.results.sayable import Range, Shown, shown
from aggregator.collector.results.tables import import_library, statement
from aggregator.collector.results.values import Quantity, joint_intervals
from aggregator.collector.results.whole_files import written_whole
from aggregator.collector.results.written import aligned
from aggregator.dp.utility import DEFAULT_CONFIDENCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Place = tuple[str, str]
"""The label of an answer and that of a group."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CrossTable:
    """Figures of one kind by answer and by group.

    Attributes:
        quantities: By answer and group, in their order.
        possible: Likewise what each may be, if there are limits.
        shows: What they are: "share", of the group's people who answered; "mean".
        by: The name of the question whose answers are the groups.
        guarantee: What a person pays, in a few words.
        confidence: Of the intervals.
        jointly: Whether all intervals hold at once with that confidence, or each by itself.
    """

    quantities: Mapping[Place, Quantity]
    possible: Mapping[Place, Range | None]
    shows: str
    by: str
    title: str = ""
    guarantee: str = ""
    confidence: Fraction = DEFAULT_CONFIDENCE
    jointly: bool = False

    @property
    def answers(self) -> list[str]:
        """The labels of the rows."""
        return list(dict.fromkeys(answer for answer, _ in self.quantities))

    @property
    def groups(self) -> list[str]:
        """The labels of the columns."""
        return list(dict.fromkeys(group for _, group in self.quantities))

    @cached_property
    def intervals(self) -> Mapping[Place, ConfidenceInterval]:
        """The interval of each figure."""
        values = list(self.quantities.values())
        if self.jointly:
            found = joint_intervals(values, self.confidence)
        else:
            found = [value.interval(self.confidence) for value in values]
        return dict(zip(self.quantities, found, strict=True))

    @cached_property
    def shown(self) -> Mapping[Place, Shown]:
        """Each figure in words, or what is said in place of it."""
        return {
            place: shown(value, self.possible.get(place), self.intervals[place])
            for place, value in self.quantities.items()
        }

    @property
    def rows(self) -> list[dict[str, Cell]]:
        """A dictionary for each answer: for each group a value, and both ends of its interval."""
        made = []
        for answer in self.answers:
            row: dict[str, Cell] = {"label": answer}
            for group in self.groups:
                quantity, interval = self.quantities[answer, group], self.intervals[answer, group]
                estimate = quantity.estimate
                row[group] = None if estimate is None else float(estimate)
                row[f"{group} low"] = float(interval.low)
                row[f"{group} high"] = float(interval.high)
            made.append(row)
        return made

    def frame(self) -> Any:  # noqa: ANN401 - of whichever of two libraries is installed
        """Return a data frame of pandas, or of polars where that is installed and pandas is not.

        Raises `ConfigurationError` if neither is installed.
        """
        rows = self.rows
        columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
        return import_library("a data frame", "pandas", "polars").DataFrame(columns)

    def to_csv(self, path: Path | str) -> None:
        """Write the rows as CSV in UTF-8, with a line of column names; see `as_csv`."""
        rows = self.rows
        with written_whole(Path(path)) as file:
            file.write(as_csv(list(rows[0]) if rows else [], rows))

    def plot(self) -> "list[Axes]":
        """Draw a small chart for each group, all with one scale; return their axes.

        Raises `ConfigurationError` if matplotlib is not installed.
        """
        units = {each.unit for each in self.quantities.values()}
        rows = [
            {
                "group": group,
                "label": answer,
                "unit": ", ".join(sorted(filter(None, units))),
                "value": None if quantity.estimate is None else float(quantity.estimate),
                "low": float(self.intervals[answer, group].low),
                "high": float(self.intervals[answer, group].high),
            }
            for (answer, group), quantity in self.quantities.items()
        ]
        pyplot = import_library("a chart", "matplotlib.pyplot", extra="plots")
        return draw_multiples(pyplot, rows, [], f"{self.title}, {self._said}")

    @override
    def __repr__(self) -> str:
        """Show the table as text."""
        table = [
            ["", *self.groups],
            *([each, *(self._cell(each, group) for group in self.groups)] for each in self.answers),
        ]
        head = "; ".join(filter(None, [self.title, self._said]))
        return "\n".join(filter(None, [head, *aligned(table), self.guarantee]))

    def _repr_html_(self) -> str:
        """Return the table for a notebook: escaped text, no script and no style but alignment."""
        head = "".join(f'<th scope="col">{html.escape(each)}</th>' for each in ("", *self.groups))
        body = "".join(
            f'<tr><th scope="row" style="text-align:left">{html.escape(answer)}</th>'
            + "".join(
                f'<td style="text-align:right">{html.escape(self._cell(answer, group))}</td>'
                for group in self.groups
            )
            + "</tr>"
            for answer in self.answers
        )
        said = "; ".join(filter(None, [self.title, self._said, self.guarantee]))
        return (
            f"<table><caption>{html.escape(said)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )

    @property
    def _said(self) -> str:
        of = "of each group" if self.shows == "share" else "by group"
        return f"{self.shows} {of} ({self.by}), {statement(list(self.intervals.values()))}"

    def _cell(self, answer: str, group: str) -> str:
        return str(self.shown[answer, group])
