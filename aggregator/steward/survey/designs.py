"""How answers become sections of a report, and released sums become figures."""

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction

from aggregator.client.survey.answers import Answer, Entries
from aggregator.client.survey.answers import Question as AsAsked
from aggregator.collector.results import Noised, Quantity
from aggregator.dp.sensitivity import max_entry
from aggregator.vdaf.circuits.section_lists import KINDS, sections_of_text
from aggregator.vdaf.prio3 import Prio3

NO_ANSWER = "no answer"
"""The label for people who give no answer: the last of every question with labels."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One figure in a question's result.

    Attributes:
        shows: "count", "share", "sum", "mean", "variance" or a quantile.
        quantity: The value, with its label, unit and interval.
        is_wanted: Whether designs are compared by its error.
        group: In a table, the label of the group of people that the figure is about.
    """

    shows: str
    quantity: Quantity
    is_wanted: bool = False
    group: str = ""


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
        asked: How clients read it from the task; it alone defines what an answer adds.
        figures: Returns what the sums of these sections show.
        extremes: Answers that make up a typical batch in equal parts: the least and the largest.
        labels: The labels of the first section, if it holds the answer and tables can be made of
            it: those of `onehot` without the last, which is no answer.
        nobody: The entry that counts people who gave no answer.
    """

    name: str
    asked: AsAsked
    figures: Callable[[Sums], list[Figure]]
    extremes: tuple[Answer, ...] = ((0,),)
    labels: tuple[str, ...] = ()
    nobody: int = -1

    @property
    def length(self) -> int:
        """The number of entries in all its sections."""
        return len(self.asked.nothing)

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections' texts; references to sections count from the first of these."""
        return tuple(self.asked.sections(0))

    def measurement(self, answer: Answer | None) -> Entries:
        """Return what an answer adds to each entry; None means no answer."""
        return self.asked.added(answer)

    def units(self, weight: Fraction = Fraction(1)) -> list[Fraction]:
        """Return for each section the error that is as bad as an error of 1 in a count.

        A weight of 2 makes the question twice as precise as the rest of the survey.
        """
        made = sections_of_text(" ".join(self.sections))
        return [max_entry(each) / weight for each in made]

    def answered(self, sums: Sums) -> Noised:
        """Return how many people gave an answer, from the sums of these sections."""
        return (sums.reports - sums.best[self.nobody]).named("answered", "")

    def typical(self, people: int) -> list[Fraction]:
        """Return the sums of a batch in which all of `extremes` are equally frequent."""
        added = [self.measurement(answer) for answer in self.extremes]
        return [Fraction(people * sum(entries), len(added)) for entries in zip(*added, strict=True)]


def moved(sections: Sequence[str], by: int) -> list[str]:
    """Return texts of sections whose references are moved by this many sections."""
    return [_moved(text, by) for text in sections]


def _moved(text: str, by: int) -> str:
    name, _, numbers = text.partition(":")
    parts = [
        str(int(number) + by) if meaning in ("of", "by") else number
        for meaning, number in zip(KINDS[name].number_names, numbers.split(","), strict=True)
    ]
    return f"{name}:{','.join(parts)}"


def prio3_of(sections: Sequence[str]) -> Prio3:
    """Return the type of a report with these sections."""
    from aggregator.vdaf.instances import SECTIONS

    return SECTIONS.prio3({"sections": " ".join(sections)})
