"""Everything that a survey asks, as the sections of one report."""

import dataclasses
import itertools
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

from aggregator.client.survey.answers import Answer, Entries
from aggregator.collector.results import Batch, Noised
from aggregator.collector.results.consistency import Consistent
from aggregator.errors import ParameterError
from aggregator.steward.survey.designs import Design, Figure, Sums, moved, prio3_of
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.tables import Table, table_of
from aggregator.vdaf.circuits import Sections
from aggregator.vdaf.prio3 import Prio3


@dataclasses.dataclass(frozen=True)
class Part:
    """A question, or a table of two, with its place in a report: its sections and first entry.

    The source is the design of the question, or the table.
    """

    question: Question
    source: Design | Table
    sections: range
    first: int

    @property
    def by(self) -> str:
        """The question whose answers are a table's groups; empty if it is not a table."""
        return self.source.group.name if isinstance(self.source, Table) else ""

    @property
    def name(self) -> str:
        """Its name."""
        return self.source.name if isinstance(self.source, Table) else self.question.name

    def of(self, sums: Sums) -> Sums:
        """Return its part of the sums."""
        return sums.part(self.first, self.source.length)

    def figures(self, sums: Sums) -> list[Figure]:
        """Return the figures that all sums show about it."""
        return self.source.figures(self.of(sums))


@dataclasses.dataclass(frozen=True)
class Sheet:
    """The contents of one report: questions, each with its design, and tables.

    A table is a pair of names: the question with the answers, and the one with the groups.
    """

    asked: tuple[tuple[Question, Design], ...]
    tables: tuple[tuple[str, str], ...] = ()

    @property
    def questions(self) -> list[Question]:
        """The questions in their order."""
        return [question for question, _ in self.asked]

    @cached_property
    def parts(self) -> list[Part]:
        """The questions, and the tables after them.

        Raises `ParameterError` if a table is of unknown questions, or of questions that cannot have
        one.
        """
        return self._laid_out[0]

    @property
    def texts(self) -> list[str]:
        """The texts of the sections."""
        return self._laid_out[1]

    @cached_property
    def _laid_out(self) -> tuple[list[Part], list[str]]:
        parts, texts, first = list[Part](), list[str](), 0
        for question, design in self.asked:
            added = moved(design.sections, len(texts))
            sections = range(len(texts), len(texts) + len(added))
            parts.append(Part(question, design, sections, first))
            texts, first = texts + added, first + design.length
        places = {part.question.name: part for part in parts}
        for name, by in self.tables:
            for each in (name, by):
                if each not in places:
                    raise ParameterError(f"tables: the survey has no question {each!r}")
            of, groups = places[name], places[by]
            assert isinstance(of.source, Design)  # noqa: S101  as all parts so far
            assert isinstance(groups.source, Design)  # noqa: S101  as all parts so far
            table = table_of(of.question, of.source, groups.question, groups.source)
            added = table.sections(len(texts), of.sections[0], groups.sections[0])
            sections = range(len(texts), len(texts) + len(added))
            parts.append(Part(of.question, table, sections, first))
            texts, first = texts + added, first + table.length
        return parts, texts

    @cached_property
    def prio3(self) -> Prio3:
        """The type of its reports."""
        return prio3_of(self.texts)

    @property
    def circuit(self) -> Sections:
        """What is summed."""
        circuit = self.prio3.circuit
        assert isinstance(circuit, Sections)  # noqa: S101  as `prio3_of` makes it
        return circuit

    def measurement(self, answers: Sequence[Answer | None]) -> Entries:
        """Return what one person adds to each sum; None means no answer.

        Its length is the same whatever the answers are.
        """
        of = {
            question.name: design.measurement(answer)
            for (question, design), answer in zip(self.asked, answers, strict=True)
        }
        entries = list(itertools.chain.from_iterable(of.values()))
        for part in self.parts[len(self.asked) :]:
            assert isinstance(part.source, Table)  # noqa: S101  they follow the questions
            entries += part.source.measurement(of[part.question.name], of[part.by])
        return entries

    def units(self, weights: Sequence[Fraction] = ()) -> list[Fraction]:
        """Return for each section the error that is as bad as an error of 1 in a count.

        Weights are one for each question, 1 unless given; tables have weight 1.
        """
        units = list[Fraction]()
        given = weights or [Fraction(1)] * len(self.asked)
        for (_, design), weight in zip(self.asked, given, strict=True):
            units += design.units(weight)
        for part in self.parts[len(self.asked) :]:
            assert isinstance(part.source, Table)  # noqa: S101  they follow the questions
            units += part.source.units()
        return units

    def sums(self, released: Sequence[Noised], reports: int) -> Sums:
        """Return the released values, and the best estimates from them."""
        if not reports:
            return Sums(released, released, reports)
        made = Consistent(self.circuit, released, reports)
        best = [
            value for number in range(len(self.circuit.parts())) for value in made.section(number)
        ]
        return Sums(best, released, reports)

    def sums_of(self, batch: Batch) -> Sums:
        """Return the sums of a batch.

        Raises `ParameterError` if a value is withheld, or was selected by a threshold.
        """
        return self.sums(batch.plain(), batch.report_count)

    def figures(self, part: Part, batch: Batch) -> list[Figure]:
        """Return the figures of one question or table, without estimates for the others.

        Raises `ParameterError` if a value is withheld, or was selected by a threshold.
        """
        released, reports = batch.plain(), batch.report_count
        own = Sums(released, released, reports).part(part.first, part.source.length)
        if reports:
            made = Consistent(self.circuit, released, reports)
            best = [value for number in part.sections for value in made.section(number)]
            own = dataclasses.replace(own, best=best)
        return part.source.figures(own)

    def question(self, name: str) -> Question:
        """Return the question with this name, or raise `ParameterError`."""
        for question, _ in self.asked:
            if question.name == name:
                return question
        raise ParameterError(f"question: the survey has no {name!r}")
