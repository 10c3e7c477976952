"""The properties and methods of every question."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from aggregator.client.survey.alternatives import Labels, comparable
from aggregator.client.survey.answers import Amount, Amounts, Answer, One
from aggregator.client.survey.answers import Question as ClientQuestion
from aggregator.client.survey.numbers import Beyond, Grid, Ranges, Unfit
from aggregator.client.survey.read_meaning import question_of
from aggregator.client.table_files.cells import Cell, CellError, shown
from aggregator.client.table_files.laws import words_of
from aggregator.collector.results import Noised, ratio
from aggregator.errors import ParameterError
from aggregator.steward.survey.conditions import Conditions
from aggregator.steward.survey.designs import NO_ANSWER, Design, Figure, Sums
from aggregator.steward.survey.said import Own, Said
from aggregator.untrusted_text import defused

MAX_LABELS = 100_000
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"
"""The names that a question may have."""

MAY_HAVE_LINES = frozenset({"text"})
"""The members of a question whose text may have more than one line."""

_PERCENT = 100
_POINTS = 21
"""How many different answers made-up people give to a question about numbers."""
_MOST_ENTRIES = 2**32 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """What cells answer.

    Attributes:
        answer: The answer, in whole numbers.
        given: The answer as it stands: a label, labels, a number, numbers by name, or a truth.
        is_clipped: Whether a number was beyond the range, and the nearest in it counts.
    """

    answer: Answer
    given: object
    is_clipped: bool


@dataclasses.dataclass(frozen=True, slots=True)
class NumberField:
    """A field of a survey's page in which a number is written.

    Attributes:
        grid: The possible numbers.
        unit: Their unit.
        label: What the field is called, if a question has several.
        is_in_range: Whether any number is possible, and counted in its range from step to step.
    """

    grid: Grid
    unit: str
    label: str = ""
    is_in_range: bool = False


class Question(BaseModel, ABC):
    """What every question has.

    Each kind says in `is_answered_by` what an answer is, as the planner's page offers it, and in
    `planned_by` by which fields of that page it is made.

    Attributes:
        name: Its name in files, commands and results.
        text: The question as people are asked it.
        ask_if: Earlier questions, each with labels; people whose answers are not among these are
            not asked this question.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    is_answered_by: ClassVar[str]
    planned_by: ClassVar[tuple[str, ...]] = ()

    name: str = Field(pattern=NAME)
    text: str = ""
    ask_if: Conditions = ()

    @property
    def choices(self) -> Sequence[str]:
        """The labels from which a person chooses; empty if there are none."""
        return self.simplest.choices

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table of answers from which it is read, unless others are given."""
        return (self.name,)

    @property
    def parts(self) -> Sequence[str]:
        """What each of several columns holds, in the order of their cells."""
        return self.columns

    def order(self, columns: Sequence[str]) -> Sequence[int]:
        """Return the places of given columns in the order in which their cells are read.

        Raises `CellError` if the question is not read from so many columns.
        """
        if len(columns) != len(self.columns):
            takes = "one column" if len(self.columns) == 1 else f"{len(self.columns)} columns"
            raise CellError(f"{self.name}: is read from {takes}, not from {len(columns)}")
        return range(len(columns))

    def is_missing(self, cells: Sequence[Cell]) -> bool:
        """Whether cells, of which None means no answer, hold none to the question."""
        return None in cells

    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        """Return the answer in cells, which are not missing, in the order of `order`.

        Raises `CellError`, which says what an answer looks like.
        """
        given = self.given(cells, decimal_mark)
        try:
            answer = self.simplest.parse(given)
        except Unfit as unfit:
            parts: Sequence[Cell] = given if isinstance(given, list) else cells
            cell = cells[0] if unfit.at is None else parts[unfit.at]
            hint = "; `clip = true` would take the nearest" if isinstance(unfit, Beyond) else ""
            raise CellError(f"{unfit}, not {shown(cell)}{hint}") from None
        assert answer is not None  # noqa: S101  no cell is missing
        return Reading(answer, given, _is_beyond(given, self.simplest))

    def given(self, cells: Sequence[Cell], decimal_mark: str) -> object:
        """Return the answer in cells as an application's client takes it: by default a label.

        Raises `CellError` if a cell is not even a number where one is needed.
        """
        return self.label_in(cells[0], decimal_mark)

    def label_in(self, cell: Cell, decimal_mark: str) -> str | None:
        """Return the label that a cell is, as the survey writes it; else what the cell says."""
        words = words_of(cell, decimal_mark)
        found = (self._labels[word] for word in words if word in self._labels)
        return next(found, words[0] if words else None)

    @property
    def labels_in_tables(self) -> Sequence[str]:
        """The labels that a cell may be."""
        return self.choices

    @cached_property
    def _labels(self) -> Mapping[str, str]:
        labels = self.labels_in_tables
        # Our own CSV has some labels with an apostrophe in front.
        as_written = {comparable(defused(label)): label for label in labels}
        return as_written | {comparable(label): label for label in labels}

    @abstractmethod
    def designs(self) -> tuple[Design, ...]:
        """Return every way to ask it, the simplest first."""

    @cached_property
    def simplest(self) -> ClientQuestion:
        """The question as clients read it if it is asked in the simplest way."""
        return self.designs()[0].client_question

    def client_question(self, design: str) -> ClientQuestion:
        """Return the question as clients read it from a task, asked with the named design."""
        table = self.model_dump(mode="json", by_alias=True)
        return question_of(table, design, _MOST_ENTRIES)

    @property
    def options(self) -> Sequence[Own | Said]:
        """What a survey's page offers to choose from."""
        return [Own(each) for each in self.choices]

    @property
    def number_fields(self) -> Sequence[NumberField]:
        """The fields of a survey's page in which numbers are written."""
        return ()

    def made_up_answers(self) -> Sequence[Answer]:
        """Return the different answers of made-up people, in order."""
        return [(place,) for place in range(self.simplest.length - 1)]  # the last is no answer

    def labelled(
        self,
        name: str,
        figures: Callable[[Sums], list[Figure]] | None = None,
        labels: Sequence[str] = (),
    ) -> Design:
        """Return the design of one answer among labels, which are what a person chooses from.

        Counts and shares are shown unless `figures` are given.
        """
        asked = self.client_question(name)
        shown = tuple(labels or asked.choices)
        of_counts = figures or (lambda sums: counts(sums, shown))
        return Design(name, asked, of_counts, ((0,), (len(shown) - 1,)), shown)

    def crossed_designs(self) -> tuple[Design, ...]:
        """Return the designs from which tables by group can be made; empty if there are none."""
        return tuple(design for design in self.designs() if design.labels)

    @property
    def makes_groups(self) -> bool:
        """Whether tables by this question's answers can be made."""
        return any(design.client_question.makes_groups for design in self.designs())

    def of_counts(
        self,
        values: Sequence[Noised],  # noqa: ARG002  others need it
        people: Noised,  # noqa: ARG002  others need it
        reports: int,  # noqa: ARG002  others need it
        group: str = "",  # noqa: ARG002  others need it
    ) -> list[Figure]:
        """Return figures that follow from counts by label, for a group of people."""
        return []

    def design(self, name: str) -> Design:
        """Return the design with this name, or raise `ParameterError`."""
        for design in self.designs():
            if design.name == name:
                return design
        names = ", ".join(design.name for design in self.designs())
        raise ParameterError(f"question {self.name}: design: must be one of {names}, not {name!r}")


def check_labels(labels: Sequence[str], least: int = 2) -> None:
    """Refuse labels that are too few, too many, empty or alike, by a ValueError."""
    if not least <= len(labels) <= MAX_LABELS:
        raise ValueError(f"labels: from {least} to {MAX_LABELS:,} are possible, not {len(labels)}")
    Labels(labels)  # refuses what is one label
    if not all(label.strip() for label in labels):
        raise ValueError("labels: one label is empty")
    for label in labels:
        check_ends("labels", label)
    if NO_ANSWER in labels:
        raise ValueError(f"labels: {NO_ANSWER!r} is there already: it is the label for giving none")


def check_ends(name: str, text: str) -> None:
    """Refuse a text with blanks at its ends, which answers are compared without.

    Raises ValueError, which says what the text is.
    """
    if text != text.strip():
        raise ValueError(f"{name}: {text!a} begins or ends with a blank")


def answered(sums: Sums) -> Noised:
    """Return how many people gave an answer: all but those in the last entry."""
    return (sums.reports - sums.best[-1]).named("answered", "")


def counts(sums: Sums, labels: Sequence[str]) -> list[Figure]:
    """Return counts by label, that of no answer, and shares of the people who answered."""
    named = [value.named(label) for value, label in zip(sums.best, labels, strict=False)]
    found = [Figure("count", value, is_wanted=True) for value in named]
    nothing = Figure("count", sums.best[len(labels)].named(NO_ANSWER))
    return [*found, nothing, *shares(named, answered(sums))]


def shares(counts: Sequence[Noised], people: Noised, group: str = "") -> list[Figure]:
    """Return each count as a share of the people, in per cent."""
    whole = Fraction(_PERCENT)
    return [
        Figure(
            "share",
            ratio(
                count * whole, people, label=count.label, unit="%", least=Fraction(0), most=whole
            ),
            group=group,
            range=whole,
        )
        for count in counts
    ]


def sum_and_mean(
    sum_: Noised,
    people: Noised,
    within: tuple[Fraction, Fraction],
    reports: int,
    unit: str = "",
    label: str = "",
    group: str = "",
) -> list[Figure]:
    """Return a sum, and the mean over the people who gave a number.

    Numbers are `within` two, for certain, and at most `reports`.
    """
    low, high = within
    mean = ratio(sum_, people, label=label, unit=unit, least=low, most=high)
    most = max(high, Fraction(0)) - min(low, Fraction(0))
    return [
        Figure("sum", sum_.named(label, unit), group=group, range=reports * most),
        Figure("mean", mean, is_wanted=True, group=group, range=high - low),
    ]


def spread_over(steps: Sequence[int]) -> list[Answer]:
    """Return answers spread evenly from the least to the largest number of each range."""
    return [tuple(round(most * at / (_POINTS - 1)) for most in steps) for at in range(_POINTS)]


def _is_beyond(given: object, asked: ClientQuestion) -> bool:
    """Return whether a number that was given is below the least or above the largest possible."""
    match given, asked:
        case Fraction(), Amount(grid=limits) | One(alternatives=Ranges() as limits):
            return not limits.low <= given <= limits.high
        case dict(), Amounts(grids=grids):
            return any(not each.low <= given[name] <= each.high for name, each in grids.items())
        case _:
            return False
