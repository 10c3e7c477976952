"""Everything that a survey asks, as an application's client and a survey's page fill it in."""

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from aggregator.client.survey.answers import Amount, AnswerError, Entries, One, Question, ones_at
from aggregator.client.survey.read_meaning import NOT_A_MEANING, VERSION, question_of
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.untrusted_text import meant

_SHOWN = 40

Needs = tuple[tuple[int, tuple[int, ...]], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table of the answers to one question by those to another, named by their places.

    The last group of `by` is of people who gave no answer. Of a number, that many `powers` are
    summed in each group; 0 counts pairs of answers.
    """

    of: int
    by: int
    powers: int

    def entries(self, answer: Entries, groups: Entries) -> Entries:
        """Return what a person adds to the table, from what they add to both questions."""
        return by_group(answer, groups, is_number=bool(self.powers))

    def data(self) -> dict[str, object]:
        """Return what another interpreter needs, as JSON has it."""
        return {"of": self.of, "by": self.by, "is_number": bool(self.powers)}


@dataclasses.dataclass(frozen=True, slots=True)
class AnswerSheet:
    """What one report of a survey holds: its questions, and then its tables.

    A question is asked if one of the labels was chosen at each place in its `needs`; a text
    question if its `text_needs` are met. `texts` has the `meaning` of each text question, whose
    answers are in other reports.
    """

    questions: tuple[Question, ...]
    tables: tuple[Table, ...]
    needs: tuple[Needs, ...]
    texts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    text_needs: Mapping[str, Needs] = dataclasses.field(default_factory=dict)

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
        try:
            meaning = json.loads(task.meaning)
            version = meaning["version"]
            if version != VERSION:
                raise ParameterError(f"{about}: meaning: version {version!r} is not known")
            sheet = cls._read(meaning, task.prio3.circuit.output_len)
        except NOT_A_MEANING as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError(
                f"{about}: meaning: not that of a survey, or of a kind of question that is not "
                "known here"
            ) from None
        if task.prio3.circuit.parameters.get("sections") != " ".join(sheet.sections):
            raise ParameterError(
                f"{about}: its reports have other sections than its questions, which need "
                f"{' '.join(sheet.sections)}"
            )
        return sheet

    @classmethod
    def _read(cls, meaning: Mapping[str, Any], most: int) -> "AnswerSheet":
        """Read a meaning, whose questions together may have no more entries than its task."""
        questions = list[Question]()
        for each in meaning["questions"]:
            questions.append(question_of(each["question"], each["design"], most))
            most -= len(questions[-1].nothing)
        places = {question.name: place for place, question in enumerate(questions)}
        if len(places) < len(questions):
            raise ValueError("not names")
        tables = []
        for of, by in meaning["tables"]:
            asked, groups = questions[places[of]], questions[places[by]]
            if not (isinstance(asked, Amount) or _is_one_section(asked)):
                raise ValueError("not a table")
            if not _is_one_section(groups):
                raise ValueError("not groups")
            powers = asked.powers if isinstance(asked, Amount) else 0
            tables.append(Table(places[of], places[by], powers))
        needs = tuple(
            _needs(each["question"].get("ask_if", {}), questions[:place])
            for place, each in enumerate(meaning["questions"])
        )
        texts = {str(name): str(of) for name, of in meaning.get("texts", {}).items()}
        asked_if = meaning.get("texts_asked_if", {})
        text_needs = {name: _needs(asked_if.get(name, {}), questions) for name in texts}
        if not asked_if.keys() <= texts.keys():
            raise ValueError("not a text question")
        return cls(tuple(questions), tuple(tables), needs, texts, text_needs)

    @property
    def sections(self) -> list[str]:
        """The sections of a report."""
        texts, firsts = list[str](), list[int]()
        for question in self.questions:
            firsts.append(len(texts))
            texts += question.sections(len(texts))
        for table in self.tables:
            of, size = self.questions[table.of], len(self.questions[table.by].nothing) - 1
            if isinstance(of, Amount) and table.powers:
                largest = [of.grid.steps ** (power + 1) for power in range(table.powers)]
                given = [f"given:{len(texts)},{size},{each}" for each in largest]
                texts += [f"onehot:{size + 1}", *given]
            else:
                texts.append(f"table:{firsts[table.of]},{firsts[table.by]}")
        return texts

    def entries(self, answers: Mapping[str, object]) -> Entries:
        """Return what one person's answers add to each entry; the number of entries is fixed.

        Args:
            answers: By the names of questions. What is left out, None or blank is no answer, and so
                is an answer to a question that the other answers rule out. Answers to text
                questions are ignored.

        Raises:
            AnswerError: A question does not take its answer, or no question has the name.
        """
        of = self._added(answers)
        by_group = [table.entries(of[table.of], of[table.by]) for table in self.tables]
        return list(itertools.chain.from_iterable([*of, *by_group]))

    def skipped_texts(self, answers: Mapping[str, object]) -> list[str]:
        """Return the text questions that people who give these answers are not asked.

        Raises `AnswerError` as `entries` does.
        """
        if not any(self.text_needs.values()):
            return []
        of = self._added(answers)
        return [name for name, needs in self.text_needs.items() if not _are_met(needs, of)]

    def _added(self, answers: Mapping[str, object]) -> list[Entries]:
        """Return what answers add to the entries of each question."""
        self._check_names(answers)
        of = list[Entries]()
        for question, needs in zip(self.questions, self.needs, strict=True):
            answer = answers.get(question.name) if _are_met(needs, of) else None
            of.append(question.entries(answer))
        return of

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
                for question, needs in zip(self.questions, self.needs, strict=True)
            ],
            "tables": [table.data() for table in self.tables],
            "texts": [
                {"name": name, "needs": self.text_needs.get(name, ())} for name in self.texts
            ],
        }


def by_group(answer: Entries, groups: Entries, *, is_number: bool) -> Entries:
    """Return what a person adds to a table, from what they add to both questions.

    For a number: first counts, of those in each group who gave one and last of people who gave none
    or are in no group; then each of its powers in each group. Otherwise: the pair of both answers.
    """
    if not is_number:
        return [one * other for one in answer for other in groups]
    is_answered, _, *powers = answer
    size = len(groups) - 1
    hot = ones_at([groups.index(1) if is_answered else size], size + 1)
    return hot + [power * one for power in powers for one in hot[:size]]


def _needs(asked_if: Mapping[str, Sequence[str]], earlier: Sequence[Question]) -> Needs:
    """Return the places of earlier questions and of their labels; raise if one does not exist."""
    places = {question.name: place for place, question in enumerate(earlier)}
    return tuple(
        (places[name], tuple(earlier[places[name]].choices.index(label) for label in labels))
        for name, labels in asked_if.items()
    )


def _are_met(needs: Needs, of: Sequence[Entries]) -> bool:
    """Return whether one label of each needed question was chosen."""
    return all(any(of[place][label] for label in labels) for place, labels in needs)


def _is_one_section(question: Question) -> bool:
    return isinstance(question, One) and len(question.lengths) == 1
