"""How answers become sections of a report, and released sums become figures."""

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction

from aggregator.client.survey.answers import Answer, Entries
from aggregator.client.survey.answers import Question as ClientQuestion
from aggregator.collector.results import Noised, Quantity, Range

NO_ANSWER = "no answer"
"""The label for people who give no answer: the last of every question with labels."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One figure in a question's result.

    Attributes:
        shows: "count", "share", "sum", "mean", "variance" or a quantile.
        quantity: The value, with its label, unit and interval.
        is_wanted: Whether it is among those that are drawn and compared first.
        group: In a table, the label of the group of people that the figure is about.
        range: The largest value that it can have less the least; None for the number of people.
    """

    shows: str
    quantity: Quantity
    is_wanted: bool = False
    group: str = ""
    range: Fraction | None = None

    def possible(self, reports: int) -> Range | None:
        """Return what it may be in a batch of so many reports; None for a sum."""
        if self.shows == "count":
            return Range(Fraction(0), Fraction(reports), is_of_people=True)
        low, high = self.quantity.limits
        return (
            Range(low, high) if isinstance(low, Fraction) and isinstance(high, Fraction) else None
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Sums:
    """The released sums of a report, or of some of its sections.

    Attributes:
        best: The best estimates, in which answers and tables agree; they share noise.
        released: The released values, whose noise is independent.
        reports: The number of reports, which is public and exact.
    """

    best: Sequence[Noised]
    released: Sequence[Noised]
    reports: int

    def part(self, first: int, count: int) -> "Sums":
        """Return the sums of some sections, given by their entries."""
        end = first + count
        return Sums(self.best[first:end], self.released[first:end], self.reports)


@dataclasses.dataclass(frozen=True)
class Design:
    """One way to ask a question.

    Attributes:
        name: Tells it apart from the question's other designs, and is bound into the task.
        client_question: How clients read it from the task; it alone defines what an answer adds.
        figures: Returns what the sums of its sections show.
        usual: Answers that make up a typical batch in equal parts.
        labels: The labels of its section, if tables can be made of it, without "no answer".
    """

    name: str
    client_question: ClientQuestion
    figures: Callable[[Sums], list[Figure]]
    usual: tuple[Answer, ...] = ((0,),)
    labels: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """The number of entries in all its sections."""
        return self.client_question.length

    @property
    def nobody(self) -> int:
        """The entry that counts people who gave no answer: the last to which giving none adds."""
        return max(place for place, added in enumerate(self.client_question.nothing) if added)

    def measurement(self, answer: Answer | None) -> Entries:
        """Return what an answer adds to each entry; None means no answer."""
        return self.client_question.added(answer)

    def answered(self, sums: Sums) -> Noised:
        """Return how many people gave an answer, from the sums of its sections."""
        return (sums.reports - sums.best[self.nobody]).named("answered", "")

    def typical(self, people: int) -> list[Fraction]:
        """Return the sums of a batch in which all of `usual` are equally frequent."""
        return sums_of_equal_parts([self.measurement(answer) for answer in self.usual], people)


def sums_of_equal_parts(added: Sequence[Entries], people: int) -> list[Fraction]:
    """Return the sums of people of whom equally many add each of these."""
    return [Fraction(people * sum(entries), len(added)) for entries in zip(*added, strict=True)]
