"""Everything that a survey asks, in the order in which it is in a report.

A steward's tools, an application's client and a survey's page all take this layout from here.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aggregator.client.survey.answers import Answer, AnswerError, Entries, Question
from aggregator.client.survey.read_meaning import NOT_A_MEANING, VERSION, question_of
from aggregator.client.survey.routing import Routing, are_met
from aggregator.client.survey.tables import Table
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.untrusted_text import meant

_SHOWN = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """Where a question or a table is in a report.

    Attributes:
        start: The number of its first section.
        texts: The texts of its sections.
        first: Its first entry.
        length: How many entries it has.
    """

    start: int
    texts: Sequence[str]
    first: int
    length: int

    @property
    def sections(self) -> range:
        """The numbers of its sections."""
        return range(self.start, self.start + len(self.texts))


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerSheet:
    """What one report of a survey holds: its questions, and then its tables.

    `texts` has the `meaning` of each text question, whose answers are in other reports.
    """

    questions: tuple[Question, ...]
    tables: tuple[Table, ...]
    routing: Routing
    texts: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        questions: Sequence[Question],
        tables: Iterable[tuple[str, str]],
        routing: Routing | None = None,
        texts: Mapping[str, str] | None = None,
    ) -> "AnswerSheet":
        """Return the sheet of some questions and tables.

        Each table is given by the names of the questions that have the answers and the groups.
        Everybody is asked everything unless a routing is given. Raises `ParameterError` if two
        questions have one name, or there is no such table.
        """
        if len({question.name for question in questions}) < len(questions):
            raise ParameterError("question: two have the same name")
        made = tuple(Table.of_pair(questions, of, by) for of, by in tables)
        of_everybody = Routing(((),) * len(questions), {})
        return cls(tuple(questions), made, routing or of_everybody, texts or {})

    @classmethod
    def of_task(cls, task: Task) -> "AnswerSheet":
        """Return the sheet of a survey's task.

        Raises `ParameterError` if the task is not of a survey, or of one in an unknown form, or its
        reports have other sections than the survey's questions.
        """
        about = f"task {task.task_id}"
        if not task.meaning:
            raise ParameterError(
                f"{about}: is of no survey: it has no meaning to say what its questions are"
            )
        sheet = cls.of_meaning(task.meaning, about, task.prio3.circuit.output_len)
        if task.prio3.circuit.parameters.get("sections") != " ".join(sheet.sections):
            raise ParameterError(
                f"{about}: its reports have other sections than its questions, which need "
                f"{' '.join(sheet.sections)}"
            )
        return sheet

    @classmethod
    def of_meaning(cls, text: str, about: str, most: int) -> "AnswerSheet":
        """Return the sheet of a meaning, whose questions have no more entries than `most`.

        Raises `ParameterError`, which says what it is about, if it is no survey's, or in an unknown
        form.
        """
        sheet = None
        try:
            meaning = json.loads(text)
            version = meaning["version"]
            if version == VERSION:
                sheet = cls._read(meaning, most)
        except NOT_A_MEANING:
            raise ParameterError(
                f"{about}: meaning: not that of a survey, or of a kind of question that is not "
                "known here"
            ) from None
        if sheet is None:
            raise ParameterError(f"{about}: meaning: version {version!r} is not known")
        return sheet

    @classmethod
    def _read(cls, meaning: Mapping[str, Any], most: int) -> "AnswerSheet":
        """Read a meaning, whose questions together may have no more entries than its task."""
        questions = list[Question]()
        for each in meaning["questions"]:
            questions.append(question_of(each["question"], each["design"], most))
            most -= questions[-1].length
        texts = {str(name): str(of) for name, of in meaning.get("texts", {}).items()}
        asked_if = meaning.get("texts_asked_if", {})
        if not asked_if.keys() <= texts.keys():
            raise ValueError("not a text question")
        routing = Routing.of(
            questions,
            [each["question"].get("ask_if", {}).items() for each in meaning["questions"]],
            {name: asked_if.get(name, {}).items() for name in texts},
        )
        return cls.of(questions, [(of, by) for of, by in meaning["tables"]], routing, texts)

    @property
    def spans(self) -> list[Span]:
        """Where each question is in a report, and then each table."""
        found, start, first = list[Span](), 0, 0
        parts: list[Question | Table] = [*self.questions, *self.tables]
        for part in parts:
            if isinstance(part, Table):
                texts = part.sections(start, found[part.of].start, found[part.by].start)
            else:
                texts = part.sections(start)
            found.append(Span(start, texts, first, part.length))
            start, first = start + len(texts), first + part.length
        return found

    @property
    def sections(self) -> list[str]:
        """The texts of all sections."""
        return [text for span in self.spans for text in span.texts]

    def entries(self, answers: Mapping[str, object]) -> Entries:
        """Return what one person's answers add to each entry; the number of entries is fixed.

        Args:
            answers: By the names of questions. What is left out, None, NaN or blank is no
                answer, and so is an answer to a question that the other answers rule out. Answers
                to text questions are ignored.

        Raises:
            AnswerError: A question does not take its answer, or no question has the name.
        """
        return self.measurement(self.read(answers))

    def measurement(self, answers: Sequence[Answer | None]) -> Entries:
        """Return what answers that were read add to each entry; None is no answer."""
        of = [
            question.added(answer) for question, answer in zip(self.questions, answers, strict=True)
        ]
        by_group = (table.entries(of[table.of], of[table.by]) for table in self.tables)
        return list(itertools.chain(*of, *by_group))

    def skipped_texts(self, answers: Sequence[Answer | None]) -> list[str]:
        """Return the text questions that people whose answers were read are not asked."""
        if not any(self.routing.texts.values()):
            return []
        asked = self.routing.asked_texts(answers)
        return [name for name, is_asked in asked.items() if not is_asked]

    def chosen(self, answers: Sequence[Answer | None], name: str) -> int | None:
        """Return the place of the label that was chosen of a question; None for no answer."""
        for question, answer in zip(self.questions, answers, strict=True):
            if question.name == name and answer is not None:
                return answer[0]
        return None

    def check_labels(self, name: str, labels: Sequence[str]) -> None:
        """Refuse a question by which nothing can be counted, or that has other labels."""
        found = [each for each in self.questions if each.name == name and each.makes_groups]
        if [[*each.choices] for each in found] != [[*labels]]:
            raise ParameterError(f"by: the survey has no choice {name!r} of the same labels")

    def read(self, answers: Mapping[str, object]) -> list[Answer | None]:
        """Return the answer to each question; None for one that is not asked, whatever is given.

        Raises `AnswerError` as `entries` does.
        """
        self._check_names(answers)
        found = list[Answer | None]()
        for question, needs in zip(self.questions, self.routing.needs, strict=True):
            # A field that was hidden may still hold what was written: an error would tell of it.
            is_asked = not needs or are_met(needs, found)
            found.append(question.read(answers.get(question.name)) if is_asked else None)
        return found

    def _check_names(self, answers: object) -> None:
        names = [*(question.name for question in self.questions), *self.texts]
        if not isinstance(answers, Mapping):
            raise AnswerError("", f"must be a table by the names of questions: {', '.join(names)}")
        for name in answers:
            if name not in names:
                given = f"{str(name)[:_SHOWN]!r}"
                raise AnswerError("", f"there is no question {given}{meant(str(name), names)}")

    def data(self) -> dict[str, list[dict[str, object]]]:
        """Return what another interpreter needs, as JSON has it."""
        return {
            "questions": [
                question.data() | {"needs": needs}
                for question, needs in zip(self.questions, self.routing.needs, strict=True)
            ],
            "tables": [table.data() for table in self.tables],
            "texts": [{"name": name, "needs": self.routing.texts[name]} for name in self.texts],
        }
