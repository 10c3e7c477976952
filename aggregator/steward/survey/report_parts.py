"""Everything that a survey asks: each question with its design, and what the sums show of it."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

from aggregator.client.survey.answer_sheet import AnswerSheet, Span
from aggregator.client.survey.answers import Answer, Entries
from aggregator.collector.results import Batch, Noised
from aggregator.collector.results.consistency import Consistent
from aggregator.dp.sensitivity import max_entry
from aggregator.errors import ParameterError
from aggregator.steward.survey.by_group import ByGroup, by_group
from aggregator.steward.survey.designs import Design, Figure, Sums
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.questions.trees import Hierarchy
from aggregator.vdaf.circuits import Sections
from aggregator.vdaf.prio3 import Prio3


@dataclasses.dataclass(frozen=True)
class Part:
    """A question, or a table of two, with its place in a report.

    The source is the design of the question, or the table.
    """

    question: Question
    source: Design | ByGroup
    span: Span

    @property
    def by(self) -> str:
        """The question whose answers are a table's groups; empty if it is not a table."""
        return self.source.group.name if isinstance(self.source, ByGroup) else ""

    @property
    def name(self) -> str:
        """Its name."""
        return self.source.name if isinstance(self.source, ByGroup) else self.question.name

    @property
    def is_of_one_label(self) -> bool:
        """Whether a person who answers counts under exactly one of its labels."""
        design = self.source.design if isinstance(self.source, ByGroup) else self.source
        is_table = isinstance(self.source, ByGroup)
        return bool(design.labels) and (is_table or not isinstance(self.question, Hierarchy))

    @property
    def is_ranked(self) -> bool:
        """Whether it makes sense to ask which of its answers is the most frequent."""
        return not isinstance(self.question, Hierarchy)  # where a region holds its districts

    def of(self, sums: Sums) -> Sums:
        """Return its part of the sums."""
        return sums.part(self.span.first, self.span.length)

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
    def answer_sheet(self) -> AnswerSheet:
        """What clients fill in, which says where everything is in a report.

        Raises `ParameterError` if a table is of unknown questions, or of questions that cannot have
        one.
        """
        return AnswerSheet.of([design.client_question for _, design in self.asked], self.tables)

    @cached_property
    def parts(self) -> list[Part]:
        """The questions, and the tables after them; raises as `answer_sheet`."""
        tables = (by_group(table, self.asked) for table in self.answer_sheet.tables)
        sources: list[tuple[Question, Design | ByGroup]] = [
            *self.asked,
            *((each.question, each) for each in tables),
        ]
        return [
            Part(question, source, span)
            for (question, source), span in zip(sources, self.answer_sheet.spans, strict=True)
        ]

    @property
    def texts(self) -> list[str]:
        """The texts of the sections."""
        return self.answer_sheet.sections

    @cached_property
    def prio3(self) -> Prio3:
        """The type of its reports."""
        from aggregator.vdaf.instances import SECTIONS

        return SECTIONS.prio3({"sections": " ".join(self.texts)})

    @property
    def circuit(self) -> Sections:
        """What is summed."""
        circuit = self.prio3.circuit
        assert isinstance(circuit, Sections)  # noqa: S101  as `prio3` makes it
        return circuit

    def measurement(self, answers: Sequence[Answer | None]) -> Entries:
        """Return what one person adds to each sum; None means no answer.

        Its length is the same whatever the answers are.
        """
        return self.answer_sheet.measurement(answers)

    def units(self, weights: Sequence[Fraction] = ()) -> list[Fraction]:
        """Return for each section the error that is as bad as an error of 1 in a count.

        Weights are one for each question, 1 unless given; tables have weight 1.
        """
        made = self.circuit.parts()
        all_weights = [*weights, *[Fraction(1)] * (len(self.parts) - len(weights))]
        return [
            max_entry(made[number]) / weight
            for part, weight in zip(self.parts, all_weights, strict=True)
            for number in part.span.sections
        ]

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

    def sums_of_part(self, part: Part, batch: Batch) -> Sums:
        """Return the sums of one question or table, without estimates for the others.

        Raises `ParameterError` if a value is withheld, or was selected by a threshold.
        """
        released, reports = batch.plain(), batch.report_count
        own = part.of(Sums(released, released, reports))
        if not reports:
            return own
        made = Consistent(self.circuit, released, reports)
        best = [value for number in part.span.sections for value in made.section(number)]
        return dataclasses.replace(own, best=best)

    def question(self, name: str) -> Question:
        """Return the question with this name, or raise `ParameterError`."""
        for question, _ in self.asked:
            if question.name == name:
                return question
        raise ParameterError(f"question: the survey has no {name!r}")
