"""The figures of a survey's window, each with its question, window and group."""

import dataclasses

from aggregator.collector.results import Batch, Noised, Quantity, Range
from aggregator.steward.survey.designs import Figure
from aggregator.steward.survey.report_parts import Part
from aggregator.steward.survey.write_meaning import Meaning


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One figure of one question in one window.

    Attributes:
        window: The window, for a reader.
        part: The question, or its table by group.
        figure: What it shows, with its value.
        answered: How many answered the question in the window, or in a table's group: noised.
        reports: How many reports the window has.
    """

    window: str
    part: Part
    figure: Figure
    answered: Noised
    reports: int

    @property
    def question(self) -> str:
        """The question's name."""
        return self.part.question.name

    @property
    def shows(self) -> str:
        """The kind of figure: "count", "share", "sum", "mean", "variance" or "quantile"."""
        return self.figure.shows

    @property
    def quantity(self) -> Quantity:
        """The value, with its label, unit and interval."""
        return self.figure.quantity

    @property
    def by(self) -> str:
        """In a table, the question whose answers are the groups."""
        return self.part.by

    @property
    def group(self) -> str:
        """The label of the group."""
        return self.figure.group

    @property
    def possible(self) -> Range | None:
        """What it may be; None for a sum."""
        return self.figure.possible(self.reports)

    @property
    def named(self) -> Quantity:
        """The quantity, with a name that tells it apart from that of any other row."""
        return named(self, self.quantity, self.shows)

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
        rows += [
            Row(window, part, each, answered[each.group], batch.report_count)
            for each in part.figures(sums)
        ]
    return rows


def named(row: Row, quantity: Quantity, shows: str) -> Quantity:
    """Return a quantity under a name that tells it apart from that of any other row."""
    names = (row.question, shows, quantity.label)
    of = f" of {row.by} {row.group}" if row.by else ""
    label = f"{' '.join(filter(None, names))}{of}, {row.window}"
    return quantity.named(label)
