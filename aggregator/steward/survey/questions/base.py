"""The properties and methods of every question."""

import bisect
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from aggregator.client.survey.answers import Question as AsAsked
from aggregator.client.survey.read_meaning import question_of
from aggregator.collector.results import Noised, ratio
from aggregator.errors import ParameterError
from aggregator.steward.survey.cells import AnswerError, Cell, Reading, number, shown
from aggregator.steward.survey.designs import NO_ANSWER, Design, Figure, Sums
from aggregator.steward.survey.exact import Grid

MAX_LABELS = 100_000
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"
"""The names that a question may have."""

MAY_HAVE_LINES = frozenset({"text"})
"""The members of a question whose text may have more than one line."""

_PERCENT = 100
_MOST_ENTRIES = 2**32 - 1


def _conditions(value: object) -> object:
    """Read `{ smoker = "yes", age = ["0 to under 18"] }`: one label, or a list of them."""
    if not isinstance(value, dict):
        message = 'must be the name of a question and its labels, such as { smoker = "yes" }'
        raise ValueError(message)  # noqa: TRY004  pydantic reports it to the file's author
    found = []
    for name, given in value.items():
        labels = [given] if isinstance(given, str) else given
        is_right = isinstance(labels, list) and all(isinstance(each, str) for each in labels)
        if not is_right or not labels:
            raise ValueError(f'{name}: must be a label or a list of labels, such as ["yes"]')
        if len(set(labels)) != len(labels):
            raise ValueError(f"{name}: a label is there twice")
        found.append((str(name), tuple(labels)))
    return tuple(found)


Conditions: TypeAlias = Annotated[
    tuple[tuple[str, tuple[str, ...]], ...],
    BeforeValidator(_conditions),
    PlainSerializer(lambda value: {name: list(labels) for name, labels in value}),
]


class Question(BaseModel, ABC):
    """What every question has.

    Attributes:
        name: Its name in files, commands and results.
        text: The question as people are asked it.
        ask_if: Earlier questions, each with labels; people whose answers are not among these are
            not asked this question.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(pattern=NAME)
    text: str = ""
    ask_if: Conditions = ()

    @property
    def choices(self) -> tuple[str, ...]:
        """The labels from which a person chooses; empty if there are none."""
        return ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a table of answers from which it is read, unless others are given."""
        return (self.name,)

    @abstractmethod
    def read(self, cells: Sequence[Cell], decimal_mark: str = ".") -> Reading:
        """Return the answer in cells, one for each of `columns`, none of which is missing.

        Raises `AnswerError`, which says what an answer looks like.
        """

    @abstractmethod
    def designs(self) -> tuple[Design, ...]:
        """Return every way to ask it, the simplest first."""

    def as_asked(self, design: str) -> AsAsked:
        """Return the question as clients read it from a task, asked with the named design."""
        table = self.model_dump(mode="json", by_alias=True)
        return question_of(table, design, _MOST_ENTRIES)

    def labelled(
        self,
        name: str,
        labels: Sequence[str],
        figures: Callable[[Sums], list[Figure]] | None = None,
    ) -> Design:
        """Return the design of one answer among labels, the last of which is "no answer".

        The labels are given without it. Counts and shares are shown unless `figures` are given.
        """
        return Design(
            name,
            self.as_asked(name),
            figures or (lambda sums: counts(sums, labels)),
            extremes=((0,), (len(labels) - 1,)),
            labels=tuple(labels),
        )

    def crossed_designs(self) -> tuple[Design, ...]:
        """Return the designs from which tables by group can be made; empty if there are none."""
        return tuple(design for design in self.designs() if design.labels)

    @property
    def makes_groups(self) -> bool:
        """Whether tables by this question's answers can be made."""
        return bool(self.crossed_designs())

    def of_counts(
        self,
        values: Sequence[Noised],  # noqa: ARG002  others need it
        people: Noised,  # noqa: ARG002  others need it
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


def grid_of(low: Fraction, high: Fraction, step: Fraction) -> Grid:
    """Return a grid, or raise ValueError."""
    try:
        return Grid(low, high, step)
    except ParameterError as error:
        raise ValueError(str(error)) from None


def check_labels(labels: Sequence[str], least: int = 2) -> None:
    """Refuse labels that are too few, too many, empty or repeated, by a ValueError."""
    if not least <= len(labels) <= MAX_LABELS:
        raise ValueError(f"labels: from {least} to {MAX_LABELS:,} are possible, not {len(labels)}")
    if len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(f"labels: {twice!r} is there twice")
    if not all(label.strip() for label in labels):
        raise ValueError("labels: one label is empty")
    if NO_ANSWER in labels:
        raise ValueError(f"labels: {NO_ANSWER!r} is there already: it is the label for giving none")


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
    return [
        Figure("share", ratio(count * _PERCENT, people, label=count.label, unit="%"), group=group)
        for count in counts
    ]


def sum_and_mean(
    sum_: Noised, people: Noised, unit: str, label: str = "", group: str = ""
) -> list[Figure]:
    """Return a sum, and the mean over the people who gave a number."""
    mean = ratio(sum_, people, label=label, unit=unit)
    return [
        Figure("sum", sum_.named(label, unit), group=group),
        Figure("mean", mean, is_wanted=True, group=group),
    ]


def bin_of(cell: Cell, edges: Sequence[Fraction], decimal_mark: str, *, clips: bool) -> Reading:
    """Return the bin of a cell's number; the last bin includes its upper edge.

    Raises `AnswerError` for no number, or one beyond the edges that may not be clipped.
    """
    value = number(cell, decimal_mark)
    is_beyond = not edges[0] <= value <= edges[-1]
    if is_beyond and not clips:
        raise AnswerError(
            f"must be from {as_text(edges[0])} to {as_text(edges[-1])}, not {shown(cell)}; "
            "`clip = true` would take the nearest bin"
        )
    last = len(edges) - 2
    return Reading((min(max(bisect.bisect_right(edges, value) - 1, 0), last),), is_beyond)


def range_labels(edges: Sequence[Fraction]) -> list[str]:
    """Return the names of the ranges between edges; each shows the edge that it includes.

    The names are for display only: a task is bound to the edges.
    """
    *others, last = itertools.pairwise(edges)
    return [
        *(f"{as_text(low)} to under {as_text(high)}" for low, high in others),
        f"{as_text(last[0])} to {as_text(last[1])}",
    ]


def as_text(number: Fraction) -> str:
    """Return a number as text for a reader."""
    return str(number) if number.denominator == 1 else f"{float(number):.6g}"
