"""Tables by group: the answers to one question among people who gave one answer to another."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction

from typing_extensions import override

from aggregator.client.survey.answer_sheet import by_group
from aggregator.client.survey.answers import Entries, ones_at
from aggregator.collector.results import Noised, total
from aggregator.dp.sensitivity import max_entry
from aggregator.errors import ParameterError
from aggregator.steward.survey.designs import Design, Figure, Sums, moved
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.questions.base import shares
from aggregator.steward.survey.questions.numbers import Number
from aggregator.vdaf.circuits.section_lists import sections_of_text


@dataclasses.dataclass(frozen=True)
class Table(ABC):
    """A question, as it is asked, by groups.

    People who gave no answer to `group` are in none of its groups.
    """

    question: Question
    design: Design
    group: Question
    groups: Sequence[str]

    @property
    def name(self) -> str:
        """Its name."""
        return f"{self.question.name} by {self.group.name}"

    @abstractmethod
    def sections(self, start: int, of: int, by: int) -> list[str]:
        """Return its sections from number `start` on.

        `of` and `by` are the first sections of the two questions.
        """

    def measurement(self, answer: Entries, group: Entries) -> Entries:
        """Return what a person adds, from what they add to both questions' sections."""
        return by_group(answer, group, is_number=isinstance(self, NumbersByGroup))

    @abstractmethod
    def figures(self, sums: Sums) -> list[Figure]:
        """Return what its sums show, each figure with its group."""

    @abstractmethod
    def answered(self, sums: Sums) -> dict[str, Noised]:
        """Return how many people of each group answered the question, by the group's label."""

    @property
    @abstractmethod
    def length(self) -> int:
        """The number of entries in its sections."""

    @abstractmethod
    def units(self) -> list[Fraction]:
        """Return for each section the error that is as bad as an error of 1 in a count."""

    def typical(self, people: int) -> list[Fraction]:
        """Return the sums of a batch with groups of equal size that answer as in `design`."""
        size, answers = len(self.groups), self.design.extremes
        added = [
            self.measurement(self.design.measurement(answer), ones_at([group], size + 1))
            for answer in answers
            for group in range(size)
        ]
        return [Fraction(people * sum(entries), len(added)) for entries in zip(*added, strict=True)]


class PairTable(Table):
    """Counts of each pair of two answers, proved to be the counts of the given answers."""

    @override
    def sections(self, start: int, of: int, by: int) -> list[str]:
        return [f"table:{of},{by}"]

    @property
    @override
    def length(self) -> int:
        return (len(self.design.labels) + 1) * (len(self.groups) + 1)

    @override
    def units(self) -> list[Fraction]:
        return [Fraction(1)]

    @override
    def figures(self, sums: Sums) -> list[Figure]:
        found = []
        for group, cells in self._cells(sums).items():
            people = total(cells)
            found += [Figure("count", cell, is_wanted=True, group=group) for cell in cells]
            found += shares(cells, people, group)
            found += self.question.of_counts(cells, people, group)
        return found

    @override
    def answered(self, sums: Sums) -> dict[str, Noised]:
        return {group: total(cells) for group, cells in self._cells(sums).items()}

    def _cells(self, sums: Sums) -> dict[str, list[Noised]]:
        """Return, by the label of each group, how many of its people gave each answer."""
        labels, columns = self.design.labels, len(self.groups) + 1
        return {
            group: [
                cell.named(label)
                for cell, label in zip(sums.best[place::columns], labels, strict=False)
            ]
            for place, group in enumerate(self.groups)
        }


class NumbersByGroup(Table):
    """How many people of each group gave a number, and the moments of these numbers.

    The last entry of the first section counts people who gave no number, or are in no group.
    """

    @property
    def _texts(self) -> list[str]:
        given = [text.rpartition(",")[2] for text in self.design.sections[1:]]
        size = len(self.groups)
        return [f"onehot:{size + 1}", *(f"given:0,{size},{largest}" for largest in given)]

    @override
    def sections(self, start: int, of: int, by: int) -> list[str]:
        return moved(self._texts, start)

    @property
    @override
    def length(self) -> int:
        size = len(self.groups)
        return size + 1 + size * (len(self.design.sections) - 1)

    @override
    def units(self) -> list[Fraction]:
        made = sections_of_text(" ".join(self._texts))
        return [Fraction(max_entry(each)) for each in made]

    @override
    def figures(self, sums: Sums) -> list[Figure]:
        assert isinstance(self.question, Number)  # noqa: S101  as `table_of` makes it
        size, found = len(self.groups), []
        for place, group in enumerate(self.groups):
            moments = sums.best[size + 1 + place :: size]
            found += self.question.moments(sums.best[place], moments, group)
        return found

    @override
    def answered(self, sums: Sums) -> dict[str, Noised]:
        return dict(zip(self.groups, sums.best, strict=False))


def table_of(question: Question, design: Design, group: Question, by: Design) -> Table:
    """Return the table of a question by the groups of another question.

    Raises `ParameterError` if there is no such table.
    """
    if not by.labels or isinstance(group, Number) or question.name == group.name:
        raise ParameterError(
            f"tables: {question.name} by {group.name}: groups must be the labels, bins or points "
            "of another question of which each person has one"
        )
    if design.labels:
        return PairTable(question, design, group, by.labels)
    if isinstance(question, Number):
        return NumbersByGroup(question, design, group, by.labels)
    raise ParameterError(
        f"tables: {question.name} by {group.name}: a table is of one answer or one number, and "
        f"{question.name} is asked as {design.name}"
    )
