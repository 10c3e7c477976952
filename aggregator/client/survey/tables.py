"""Tables by group: the answers to one question among people who gave one answer to another."""

import dataclasses
from collections.abc import Sequence

from aggregator.client.survey.answers import Amount, Entries, Question, ones_at
from aggregator.errors import ParameterError

GROUPS = "groups must be the labels, bins or points of another question of which each has one"


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table of the answers to one question by those to another, named by their places.

    People who gave no answer to `by` are in none of its groups.

    Attributes:
        of: The question with the answers.
        by: The question with the groups.
        groups: How many groups there are.
        largest: The most that a person adds to each power of a number, all of which are summed in
            each group; empty if pairs of answers are counted.
        length: How many entries the table has.
    """

    of: int
    by: int
    groups: int
    largest: tuple[int, ...]
    length: int

    @classmethod
    def of_pair(cls, questions: Sequence[Question], name: str, by: str) -> "Table":
        """Return the table of one of these questions by another, or raise `ParameterError`."""
        places = {question.name: place for place, question in enumerate(questions)}
        for each in (name, by):
            if each not in places:
                raise ParameterError(f"tables: the survey has no question {each!r}")
        asked, grouping = questions[places[name]], questions[places[by]]
        if not grouping.makes_groups or name == by:
            raise ParameterError(f"tables: {name} by {by}: {GROUPS}")
        if not (asked.makes_groups or isinstance(asked, Amount)):
            raise ParameterError(f"tables: {name} by {by}: a table is of one answer or one number")
        groups = grouping.length - 1
        largest = asked.largest if isinstance(asked, Amount) else ()
        pairs, sums = asked.length * grouping.length, groups + 1 + groups * len(largest)
        return cls(places[name], places[by], groups, largest, sums if largest else pairs)

    def sections(self, start: int, of: int, by: int) -> list[str]:
        """Return its sections, numbered from `start` on.

        `of` and `by` are the first sections of the two questions.
        """
        if not self.largest:
            return [f"table:{of},{by}"]
        given = (f"given:{start},{self.groups},{each}" for each in self.largest)
        return [f"onehot:{self.groups + 1}", *given]

    def entries(self, answer: Entries, groups: Entries) -> Entries:
        """Return what a person adds to the table, from what they add to both questions.

        Of a number, first counts: of those in each group who gave one, and last of people who gave
        none or are in no group. Then each of its powers in each group.
        """
        if not self.largest:
            return [one * other for one in answer for other in groups]
        is_answered, _, *powers = answer
        hot = ones_at([groups.index(1) if is_answered else self.groups], self.groups + 1)
        return hot + [power * one for power in powers for one in hot[: self.groups]]

    def data(self) -> dict[str, object]:
        """Return what another interpreter needs, as JSON has it."""
        return {"of": self.of, "by": self.by, "is_number": bool(self.largest)}
