"""What tables by group show: answers to one question among people who gave one to another."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction

from typing_extensions import override

from aggregator.client.survey.answers import ones_at
from aggregator.client.survey.tables import Table
from aggregator.collector.results import Noised, total
from aggregator.steward.survey.designs import Design, Figure, Sums, sums_of_equal_parts
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.questions.base import shares
from aggregator.steward.survey.questions.numbers import Number


@dataclasses.dataclass(frozen=True)
class ByGroup(ABC):
    """A question, as it is asked, by groups.

    Attributes:
        question: The question.
        design: How it is asked.
        group: The question whose answers are the groups.
        groups: Their labels.
        table: What a person adds.
    """

    question: Question
    design: Design
    group: Question
    groups: Sequence[str]
    table: Table

    @property
    def name(self) -> str:
        """Its name."""
        return f"{self.question.name} by {self.group.name}"

    @abstractmethod
    def figures(self, sums: Sums) -> list[Figure]:
        """Return what its sums show, each figure with its group."""

    @abstractmethod
    def answered(self, sums: Sums) -> dict[str, Noised]:
        """Return how many people of each group answered the question, by the group's label."""

    @property
    def length(self) -> int:
        """The number of entries in its sections."""
        return self.table.length

    def typical(self, people: int) -> list[Fraction]:
        """Return the sums of a batch with groups of equal size that answer as in `design`."""
        size = len(self.groups)
        added = [
            self.table.entries(self.design.measurement(answer), ones_at([group], size + 1))
            for answer in self.design.usual
            for group in range(size)
        ]
        return sums_of_equal_parts(added, people)


class CountsByGroup(ByGroup):
    """Counts of each pair of two answers, proved to be the counts of the given answers."""

    @override
    def figures(self, sums: Sums) -> list[Figure]:
        found = []
        for group, cells in self._cells(sums).items():
            people = total(cells)
            found += [Figure("count", cell, is_wanted=True, group=group) for cell in cells]
            found += shares(cells, people, group)
            found += self.question.of_counts(cells, people, sums.reports, group)
        return found

    @override
    def answered(self, sums: Sums) -> dict[str, Noised]:
        return {group: total(cells) for group, cells in self._cells(sums).items()}

    def _cells(self, sums: Sums) -> dict[str, list[Noised]]:
        """Return, by the label of each group, how many of its people gave each answer."""
        # A row for each answer; its last cell is of people in no group.
        labels, columns = self.design.labels, len(self.groups) + 1
        return {
            group: [
                cell.named(label)
                for cell, label in zip(sums.best[place::columns], labels, strict=False)
            ]
            for place, group in enumerate(self.groups)
        }


class NumbersByGroup(ByGroup):
    """How many people of each group gave a number, and the moments of these numbers."""

    @override
    def figures(self, sums: Sums) -> list[Figure]:
        assert isinstance(self.question, Number)  # noqa: S101  nothing else has powers
        size, found = len(self.groups), []
        for place, group in enumerate(self.groups):
            # After one count for each group and one for nobody, a sum for each group and power.
            moments = sums.best[size + 1 + place :: size]
            found += self.question.moments(sums.best[place], moments, sums.reports, group)
        return found

    @override
    def answered(self, sums: Sums) -> dict[str, Noised]:
        return dict(zip(self.groups, sums.best, strict=False))


def by_group(table: Table, asked: Sequence[tuple[Question, Design]]) -> ByGroup:
    """Return what a table of these questions shows."""
    (question, design), (group, grouped) = asked[table.of], asked[table.by]
    kind = NumbersByGroup if table.largest else CountsByGroup
    return kind(question, design, group, grouped.labels, table)
