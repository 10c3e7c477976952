"""What of a survey enters a synthetic table: its questions with labels, and their tables of pairs.

What cannot enter is left out with its reason. A question's column is a one-hot section, whose last
entry counts people without an answer; a pair is a table of two such questions.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from aggregator.client.survey.alternatives import comparable
from aggregator.client.survey.routing import Needs
from aggregator.collector.results import Batch
from aggregator.dp.certified import to_float
from aggregator.dp.laws import NoiseLaw
from aggregator.dp.mechanisms import Mechanism
from aggregator.errors import ParameterError
from aggregator.steward.survey.by_group import CountsByGroup
from aggregator.steward.survey.designs import NO_ANSWER, Design
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.questions.labels import Multiple
from aggregator.steward.survey.questions.numbers import Number, Scale
from aggregator.steward.survey.questions.trees import Hierarchy
from aggregator.steward.survey.questions.vectors import Vector
from aggregator.steward.survey.write_meaning import Meaning
from aggregator.untrusted_text import meant

Floats: TypeAlias = NDArray[np.float64]

Cell: TypeAlias = str | int | float | None

MOST_LABELS = 200
"""The most answers that a question in a synthetic table may have."""

_AGGREGATORS = 2
_LEAST_VARIANCE = 1e-6
"""What stands for no noise at all, by which nothing can be divided."""

STAMP = "synthetic"
"""The column that tells synthetic rows from people's."""

OWN_COLUMNS = ("window", STAMP)
"""The columns of every synthetic table that are no questions."""

NO_PAIRS = (
    "no two of these questions are in a table, so nothing is known of what goes with what: "
    'a survey with tables = "all" has a table of each pair'
)


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A question in the table.

    Attributes:
        name: Its name.
        place: Its place among all questions of the survey.
        section: The number of its section.
        first: Its first entry.
        labels: The labels of its answers, without that of no answer.
        written: What stands in a row for each, as an upload reads it; last, None for no answer.
    """

    name: str
    place: int
    section: int
    first: int
    labels: tuple[str, ...]
    written: tuple[Cell, ...]

    @property
    def size(self) -> int:
        """How many entries it has."""
        return len(self.written)

    @property
    def shown(self) -> tuple[str, ...]:
        """The labels of all its entries."""
        return (*self.labels, NO_ANSWER)

    def label_place(self, label: object) -> int:
        """Return the entry of a label or of a written value, or raise `ParameterError`."""
        known = {comparable(text): at for at, text in enumerate(self.shown)}
        known |= {comparable(str(text)): at for at, text in enumerate(self.written[:-1])} | known
        found = known.get(comparable(str(label)))
        if found is None:
            raise ParameterError(
                f"{self.name} has no answer {str(label)!r}{meant(str(label), self.shown)}"
            )
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """A table of two columns: the first has its rows, the second its columns."""

    of: int
    by: int
    section: int
    first: int


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """The columns and pairs of a synthetic table, with the noise of each.

    Attributes:
        title: The survey's title.
        columns: The questions that are in it.
        pairs: Their tables.
        laws: The law of the noise of each entry of a report.
        windows: How many windows are added up.
        needs: For each column, the columns and entries of which one must be chosen, or nobody is
            asked it.
        left_out: Why other questions are not in it, by name.
        notes: What else a reader must know, a sentence each.
    """

    title: str
    columns: tuple[Column, ...]
    pairs: tuple[Pair, ...]
    laws: Sequence[NoiseLaw | None]
    windows: int
    needs: tuple[Needs, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def sizes(self) -> list[int]:
        """How many entries each column has."""
        return [each.size for each in self.columns]

    @cached_property
    def variances(self) -> tuple[Floats, Floats]:
        """The variance of the noise of each column's entries, and of each pair's."""
        known: dict[int, float] = {}

        def variance(entry: int) -> float:
            law = self.laws[entry]
            if law is None:
                return _LEAST_VARIANCE
            if id(law) not in known:
                known[id(law)] = to_float(law.variance())
            return max(known[id(law)] * self.windows, _LEAST_VARIANCE)

        return (
            np.array([variance(each.first) for each in self.columns]),
            np.array([variance(each.first) for each in self.pairs]),
        )

    def column(self, name: str) -> int:
        """Return the place of a question's column, or raise `ParameterError`."""
        for place, each in enumerate(self.columns):
            if each.name == name:
                return place
        if name in self.left_out:
            raise ParameterError(f"{name} is not in the table: {self.left_out[name]}")
        known = [each.name for each in self.columns]
        raise ParameterError(f"the survey has no question {name!r}{meant(name, known)}")

    @cached_property
    def pair_at(self) -> Mapping[tuple[int, int], int]:
        """The place of the pair of two columns, in either order."""
        found = {(each.of, each.by): place for place, each in enumerate(self.pairs)}
        return found | {(by, of): place for (of, by), place in found.items()}

    def check_pair(self, of: int, by: int) -> None:
        """Refuse two columns of which there is no table."""
        if (of, by) not in self.pair_at:
            names = self.columns[of].name, self.columns[by].name
            raise ParameterError(f"no table has {names[0]} and {names[1]} together")

    @property
    def not_asked(self) -> list[tuple[str, str]]:
        """The pairs of columns of which there is no table."""
        pairs = itertools.combinations(range(len(self.columns)), 2)
        return [
            (self.columns[i].name, self.columns[j].name)
            for i, j in pairs
            if (i, j) not in self.pair_at
        ]

    @property
    def alone(self) -> list[int]:
        """The columns that are in no pair."""
        paired = {place for each in self.pairs for place in (each.of, each.by)}
        return [place for place in range(len(self.columns)) if place not in paired]

    @cached_property
    def filters(self) -> list[frozenset[int]]:
        """For each column, all columns on whose answers it depends whether it is asked."""
        found = list[frozenset[int]]()
        for needs in self.needs:
            of = {place for place, _ in needs}
            found.append(frozenset(of).union(*(found[place] for place in of)))
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class Released:
    """The released counts of a layout's columns and pairs, of one or several windows together."""

    layout: Layout
    ones: Sequence[Floats]
    tables: Sequence[Floats]
    people: int


def layout_of(meaning: Meaning, laws: Sequence[NoiseLaw | None], windows: int = 1) -> Layout:
    """Return what of a survey's reports enters a synthetic table.

    Args:
        meaning: What the survey's numbers mean.
        laws: The law of the noise of each entry.
        windows: How many windows are added up.
    """
    sheet = meaning.sheet
    columns, left_out = list[Column](), dict[str, str]()
    for place, part in enumerate(sheet.parts[: len(sheet.asked)]):
        assert isinstance(part.source, Design)  # noqa: S101  tables come after the questions
        if reason := _reason(part.question, part.source):
            left_out[part.question.name] = reason
            continue
        labels = part.source.labels
        written = (*_written(part.question, labels), None)
        columns.append(
            Column(part.name, place, part.span.start, part.span.first, tuple(labels), written)
        )
    for name, _ in meaning.texts:
        left_out[name] = "what people write is in reports of its own, which are linked to nobody"
    at = {each.place: number for number, each in enumerate(columns)}
    pairs = tuple(
        Pair(at[part.source.table.of], at[part.source.table.by], part.span.start, part.span.first)
        for part in sheet.parts
        if isinstance(part.source, CountsByGroup)
        and part.source.table.of in at
        and part.source.table.by in at
    )
    needs, notes = _needs(meaning, columns, at)
    return Layout(
        meaning.title, tuple(columns), pairs, laws, windows, needs, left_out, tuple(notes)
    )


def planned_layout(meaning: Meaning, mechanism: Mechanism) -> Layout:
    """Return the layout of a survey before anybody has answered it."""
    laws = mechanism.laws(meaning.sheet.circuit, _AGGREGATORS)
    return layout_of(meaning, [law for run, law in laws for _ in range(run)])


def released_of(meaning: Meaning, batches: Sequence[Batch]) -> Released:
    """Return the counts of one window, or of several together.

    Raises `ParameterError` if a value is withheld, no two questions are in a table, or nobody
    answered.
    """
    plain = [batch.plain() for batch in batches]
    laws = [next((source.law for source in each.terms), None) for each in plain[0]]
    layout = layout_of(meaning, laws, len(batches))
    people = sum(batch.report_count for batch in batches)
    if not layout.pairs:
        raise ParameterError(NO_PAIRS)
    if not people:
        raise ParameterError("nobody answered in this window")
    total = np.array([[float(each.value) for each in values] for values in plain]).sum(axis=0)
    ones = [total[each.first : each.first + each.size] for each in layout.columns]
    tables = []
    for pair in layout.pairs:
        rows, columns = layout.columns[pair.of].size, layout.columns[pair.by].size
        cells = total[pair.first : pair.first + rows * columns]
        tables.append(cells.reshape(rows, columns))
    return Released(layout, ones, tables, people)


def _reason(question: Question, design: Design) -> str:
    """Return why a question cannot be in a synthetic table; empty if it can."""
    count = len(design.labels)
    match question:
        case _ if question.name in OWN_COLUMNS:
            reason = "every synthetic table has a column of this name"
        case _ if count > MOST_LABELS:
            reason = f"it has {count:,} answers, and at most {MOST_LABELS} can be in a table"
        case Multiple():
            reason = "several answers at once have no tables; yes-no questions, one for each, do"
        case Vector():
            reason = "of several numbers only sums are released"
        case Number() if not design.labels:
            reason = 'of a number only sums are released; design = "histogram", or bins, counts it'
        case Hierarchy() if not design.labels:
            reason = 'every level is counted by itself; design = "leaves" counts the leaves'
        case _:
            reason = ""
    return reason


def _written(question: Question, labels: Sequence[str]) -> list[Cell]:
    match question:
        case Scale():
            return [question.low + at for at in range(len(labels))]
        case Number():
            grid = question.grid
            numbers = [grid.low + at * grid.step for at in range(len(labels))]
            # All of one type, as a column of a file is.
            whole = all(each.denominator == 1 for each in numbers)
            return [int(each) if whole else float(each) for each in numbers]
        case Hierarchy():
            return list(question.levels.labels[-1])
        case _:
            return list(labels)


def _needs(
    meaning: Meaning, columns: Sequence[Column], at: Mapping[int, int]
) -> tuple[tuple[Needs, ...], list[str]]:
    """Return who is asked which column, and what of that cannot be kept to."""
    found, notes = list[Needs](), list[str]()
    routing, questions = meaning.routing, meaning.sheet.questions
    for each in columns:
        needs = routing.needs[each.place]
        found.append(tuple((at[place], labels) for place, labels in needs if place in at))
        notes += [
            f"{each.name} is asked by the answer to {questions[place].name}, which is left out: "
            "rows cannot keep to that"
            for place, _ in needs
            if place not in at
        ]
    return tuple(found), notes
