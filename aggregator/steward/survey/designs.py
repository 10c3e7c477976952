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
"""The label of those who give none: the last of every question that has labels."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One thing that a question's result says.

    Attributes:
        shows: "count", "share", "sum", "mean", "variance" or a quantile.
        quantity: With its label, unit and interval.
        is_wanted: Whether designs are compared by its error.
        group: Of a table the label of the group of people that it is of.
    """

    shows: str
    quantity: Quantity
    is_wanted: bool = False
    group: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Sums:
    """What was released of a report, or of some of its sections.

    Attributes:
        best: The best estimates, in which answers and tables agree; they have noise in common.
        released: The values as they were released, of independent noise.
        reports: How many reports there are: public and exact.
    """

    best: Sequence[Noised]
    released: Sequence[Noised]
    reports: int

    def part(self, first: int, count: int) -> "Sums":
        """Return those of some sections, by their entries."""
        end = first + count
        return Sums(self.best[first:end], self.released[first:end], self.reports)


@dataclasses.dataclass(frozen=True)
class Design:
    """One way to ask a question.

    Attributes:
        name: Told apart by it from the question's other designs, and bound into the task with it.
        asked: As clients read it out of the task: they alone say what an answer adds.
        figures: What the sums of these sections say.
        extremes: Answers of which equal parts make a typical batch: the least and the largest.
        labels: Of the first section where it is the answer and a table can be of it: those of
            `onehot` without the last, which is no answer.
        nobody: The entry that counts those who gave no answer.
    """

    name: str
    asked: AsAsked
    figures: Callable[[Sums], list[Figure]]
    extremes: tuple[Answer, ...] = ((0,),)
    labels: tuple[str, ...] = ()
    nobody: int = -1

    @property
    def length(self) -> int:
        """Entries of all its sections."""
        return len(self.asked.nothing)

    @property
    def sections(self) -> tuple[str, ...]:
        """Their texts; what refers to a section counts from the first of these."""
        return tuple(self.asked.sections(0))

    def measurement(self, answer: Answer | None) -> Entries:
        """Return what an answer adds to each entry; None is no answer."""
        return self.asked.added(answer)

    def units(self, weight: Fraction = Fraction(1)) -> list[Fraction]:
        """Return for each section the error that is as bad as one of 1 in a count.

        Args:
            weight: How many times more precise than the rest of a survey it shall be.
        """
        made = sections_of_text(" ".join(self.sections))
        return [max_entry(each) / weight for each in made]

    def answered(self, sums: Sums) -> Noised:
        """Return how many people gave an answer, of the sums of these sections."""
        return (sums.reports - sums.best[self.nobody]).named("answered", "")

    def typical(self, people: int) -> list[Fraction]:
        """Return the sums of a batch in which each of `extremes` is as frequent."""
        added = [self.measurement(answer) for answer in self.extremes]
        return [Fraction(people * sum(entries), len(added)) for entries in zip(*added, strict=True)]


def moved(sections: Sequence[str], by: int) -> list[str]:
    """Return texts of sections whose references count from another section than the first."""
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
