"""The results of a survey's collections: labelled figures with intervals."""

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from aggregator.collector.results import Batch, Noised, Quantity, Table
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.protocol.task import MADE_UP, Task
from aggregator.steward.survey.write_meaning import Meaning

if TYPE_CHECKING:
    from aggregator.collector.results.charts import Cell


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One figure of one question in one window.

    Attributes:
        window: The window, for a reader.
        question: The question's name.
        shows: "count", "share", "sum", "mean", "variance" or "quantile".
        answered: How many answered the question in the window, or in a table's group: noised.
        quantity: The value, with its label, unit and interval.
        by: In a table, the question whose answers are the groups.
        group: The label of the group.
    """

    window: str
    question: str
    shows: str
    answered: Noised
    quantity: Quantity
    by: str = ""
    group: str = ""

    @property
    def named(self) -> Quantity:
        """The quantity, with a name that tells it apart from that of any other row."""
        names = (self.question, self.shows, self.quantity.label)
        of = f" of {self.by} {self.group}" if self.by else ""
        label = f"{' '.join(filter(None, names))}{of}, {self.window}"
        return dataclasses.replace(self.quantity, label=label)

    @property
    def place(self) -> tuple[str, ...]:
        """What the figure is, in any window."""
        return self.question, self.shows, self.quantity.label, self.by, self.group


def rows_of(meaning: Meaning, batch: Batch, window: str) -> list[Row]:
    """Return every figure of one window, or raise `ParameterError`."""
    sheet = meaning.sheet
    sums, rows = sheet.sums_of(batch), list[Row]()
    for part in sheet.parts:
        found = part.source.answered(part.of(sums))
        answered = {"": found} if isinstance(found, Noised) else found
        name = part.question.name
        rows += [
            Row(window, name, each.shows, answered[each.group], each.quantity, part.by, each.group)
            for each in part.figures(sums)
        ]
    return rows


@dataclasses.dataclass(frozen=True, eq=False)
class SurveyResults:
    """What was collected of a survey, or of some of its windows.

    `results` are the survey's task, or several tasks with one title, with a batch for each window,
    in the order of the rows.
    """

    results: Sequence[tuple[Task, Batch]]
    title: str = ""

    @cached_property
    def rows(self) -> list[Row]:
        """Every figure.

        Raises `ParameterError` if a task is not of a survey, or a value is withheld.
        """
        rows = list[Row]()
        for task, batch in self.results:
            meaning = Meaning.of_task(task)
            start = meaning.windows.start(datetime.fromtimestamp(batch.start, UTC))
            # Whoever gets a row alone, in a file or a chart, shall see it.
            mark = MADE_UP if task.is_made_up else ""
            rows += rows_of(meaning, batch, f"{mark}{meaning.windows.describe(start)}")
        return rows

    @property
    def guarantee(self) -> str:
        """What people are promised for everything that they are asked."""
        return "; ".join(dict.fromkeys(batch.guarantee for _, batch in self.results))

    @cached_property
    def windows(self) -> list[str]:
        """The windows that have results, the earliest first."""
        return sorted({row.window for row in self.rows})

    def table(
        self,
        question: str | None = None,
        shows: str | None = None,
        *,
        by: str | None = None,
        confidence: Fraction = DEFAULT_CONFIDENCE,
        jointly: bool = False,
    ) -> Table:
        """Return figures in one table, each with its window and question.

        Args:
            question: Only this question's figures.
            shows: Only these figures: "share", "mean".
            by: Only tables by this question's answers; "" for no tables.
            confidence: The confidence of each interval by itself, or of all at once.
            jointly: Whether all intervals hold at once.
        """
        rows = self._chosen(question, shows, by)
        columns: dict[str, Sequence[Cell]] = {
            "window": [row.window for row in rows],
            "question": [row.question for row in rows],
            "by": [row.by for row in rows],
            "group": [row.group for row in rows],
            "shows": [row.shows for row in rows],
            "answered": [round(row.answered.value) for row in rows],
        }
        quantities = [row.quantity for row in rows]
        return Table(
            quantities, columns, confidence, jointly, title=self.title, guarantee=self.guarantee
        )

    def figure(
        self,
        question: str,
        shows: str,
        label: str = "",
        *,
        window: str | int,
        by: str = "",
        group: str = "",
    ) -> Quantity:
        """Return one figure to calculate with and to compare.

        Args:
            question: The question's name.
            shows: "count", "share", "sum", "mean", "variance" or "quantile".
            label: Which figure, if there are several.
            window: One of `windows`, or its index there: -1 is the last.
            by: For a table by group, the question whose answers are the groups.
            group: The label of the group.

        Raises:
            ParameterError: There is no such figure.
        """
        try:
            name = self.windows[window] if isinstance(window, int) else window
        except IndexError:
            raise ParameterError(f"window: there are only {len(self.windows)}") from None
        row = self._by_place.get((name, question, shows, label, by, group))
        if row is None:
            of = f" of {by} {group}" if by or group else ""
            asked = f"{question} {shows} {label}".strip() + of
            raise ParameterError(f"there is no {asked} of {name}")
        return row.named

    def changes(
        self, question: str | None = None, shows: str | None = None
    ) -> list[tuple[Quantity, Quantity]]:
        """Return `changed_rows` as quantities to compare, with their windows in their names."""
        return [(new.named, old.named) for new, old in self.changed_rows(question, shows)]

    def changed_rows(
        self, question: str | None = None, shows: str | None = None
    ) -> list[tuple[Row, Row]]:
        """Return each figure of the last window with that of the window before.

        Args:
            question: Only this question's figures.
            shows: Only these figures.

        Raises:
            ParameterError: There are fewer than two windows.
        """
        if len(self.windows) < 2:  # noqa: PLR2004 - a change has two ends
            raise ParameterError(f"window: a change is of two, not {len(self.windows)}")
        before, last = self.windows[-2:]
        pairs = []
        for row in self._chosen(question, shows):
            old = self._by_place.get((before, *row.place))
            if row.window == last and old is not None:
                pairs.append((row, old))
        return pairs

    @cached_property
    def _by_place(self) -> dict[tuple[str, ...], Row]:
        return {(row.window, *row.place): row for row in self.rows}

    def _chosen(self, question: str | None, shows: str | None, by: str | None = None) -> list[Row]:
        return [
            row
            for row in self.rows
            if question in (None, row.question)
            and shows in (None, row.shows)
            and by in (None, row.by)
        ]
