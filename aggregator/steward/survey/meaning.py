"""What a task's numbers mean: the public part of a survey that travels with each of its tasks.

It is one line of JSON in the task file, and the task's `task_info` ends with its digest. That is
bound into every report: with labels in another order it is another task, in which no report opens.
"""

import dataclasses
import json
from datetime import datetime
from typing import Self

from pydantic import TypeAdapter, ValidationError

from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.steward.survey.designs import Design
from aggregator.steward.survey.questions import AnyQuestion, Question
from aggregator.steward.survey.questions.base import MAY_HAVE_LINES
from aggregator.steward.survey.windows import Windows
from aggregator.words import acting_member

_VERSION = 1
_QUESTION: TypeAdapter[Question] = TypeAdapter(AnyQuestion)


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What the numbers of one task mean.

    Attributes:
        title: Of the survey.
        asked: Who is asked.
        windows: In which answers are collected.
        question: With its labels in order, its ranges and units.
        design: How its answers are measured.
    """

    title: str
    asked: str
    windows: Windows
    question: Question
    design: Design

    def to_json(self) -> str:
        """Return the one text of this meaning."""
        table = {
            "version": _VERSION,
            "survey": self.title,
            "asked": self.asked,
            "window": dataclasses.asdict(self.windows),
            "question": self.question.model_dump(mode="json", by_alias=True),
            "design": self.design.name,
        }
        return json.dumps(table, ensure_ascii=False, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the meaning in a text that `to_json` made.

        Raises:
            ParameterError: It is none.
        """
        try:
            table = json.loads(text)
            if table["version"] != _VERSION:
                raise ParameterError(f"meaning: version {table['version']} is not known")
            question = _QUESTION.validate_json(json.dumps(table["question"]))
            meaning = cls(
                title=str(table["survey"]),
                asked=str(table["asked"]),
                windows=Windows(**table["window"]),
                question=question,
                design=question.design(table["design"]),
            )
        except (ValueError, TypeError, KeyError, RecursionError, ValidationError):
            raise ParameterError("meaning: not that of a survey's question") from None
        if name := acting_member(table, MAY_HAVE_LINES):
            raise ParameterError(f"meaning: {name}: must be without control characters")
        if meaning.to_json() != text:
            raise ParameterError("meaning: not as a survey writes it")
        return meaning

    @classmethod
    def of_task(cls, task: Task) -> Self:
        """Return what a task's numbers mean.

        Raises:
            ParameterError: The task is of no survey, or of another type of measurement than its
                question's design.
        """
        if not task.meaning:
            raise ParameterError(
                f"task {task.task_id}: is of no survey, so its values have no labels"
            )
        meaning = cls.from_json(task.meaning)
        if meaning.design.prio3().circuit != task.prio3.circuit:
            raise ParameterError(
                f"task {task.task_id}: question {meaning.question.name} is asked as "
                f"{meaning.design.name}, which is another type of measurement"
            )
        return meaning

    def window(self, moment: datetime) -> tuple[datetime, datetime]:
        """Return the beginning and the end of the window that holds a moment."""
        start = self.windows.start(moment)
        return start, self.windows.end(start)
