"""A survey as people are asked it, read from its public files.

`task.toml`, or `task.json`, is the task of the survey's one report, and its text questions lie
beside it in the folder `text`. A survey that has text questions only has no such task:
`survey.json` is then its meaning, and each of their tasks binds that very text.
"""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.client.contributions import survey_digest
from aggregator.client.survey.answer_sheet import AnswerSheet
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml

if TYPE_CHECKING:
    from aggregator.client.text.beside_survey import AskedTexts


@dataclasses.dataclass(frozen=True)
class AskedSurvey:
    """A survey whose files agree.

    Attributes:
        task: The task of the survey's one report; None if it has text questions only.
        meaning: What is asked, as the text that tasks are bound to.
        sheet: The questions of that report; none without a task.
        texts: Text questions with their tasks, by name.
    """

    task: Task | None
    meaning: str
    sheet: AnswerSheet
    texts: "AskedTexts"

    @property
    def first(self) -> Task:
        """A task that has the aggregators, the windows and the population of all others."""
        return self.tasks[0]

    @property
    def tasks(self) -> list[Task]:
        """All tasks: the survey's, if it has one, and then those of each text question."""
        of_texts = [task for _, tasks in self.texts.values() for task in tasks]
        return of_texts if self.task is None else [self.task, *of_texts]

    @property
    def digest(self) -> bytes:
        """32 bytes that stand for the survey through its changes."""
        return survey_digest(self.meaning)


def read_survey(file: Path | str) -> AskedSurvey:
    """Return the survey whose public file this is: `task.toml`, `task.json` or `survey.json`.

    Raises:
        ParameterError: The file is not of one survey, was changed since it was made, or does not
            belong together with those of the text questions beside it.
        OSError: A file cannot be read.
    """
    return survey_in(Path(file).read_text("utf-8-sig"), Path(file))


def survey_in(text: str, file: Path) -> AskedSurvey:
    """Return the survey of a public file, whose text is given; raises as `read_survey` does."""
    task, meaning = _parsed(text)
    sheet = (
        AnswerSheet.of_meaning(meaning, "survey.json", 0)
        if task is None
        else AnswerSheet.of_task(task)
    )
    if task is None and (sheet.questions or not sheet.texts):
        raise ParameterError("survey.json: must have text questions, and no others")
    if not sheet.texts:
        return AskedSurvey(task, meaning, sheet, {})
    # Imports NumPy, which an application without text questions needs only at its first report.
    from aggregator.client.text.beside_survey import texts_beside

    texts = texts_beside(file, task, sheet.texts, meaning if task is None else "")
    for name, (question, _) in texts.items():
        if question.by is not None:
            try:
                sheet.check_labels(question.by.question, question.by.labels)
            except ParameterError as error:
                raise ParameterError(f"text question {name}: {error}") from None
    return AskedSurvey(task, meaning, sheet, texts)


def _parsed(text: str) -> tuple[Task | None, str]:
    """Return the task in a survey's public file, if it has one, and the survey's meaning.

    Raises `ParameterError` if it is no task file, and no meaning either, or of a task in a group.
    """
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        table = None
    if isinstance(table, dict) and "survey" in table:
        return None, text.strip()
    task = task_from_toml(text)
    if (group := task.policy.group) is not None:
        raise ParameterError(
            f"group: the task has place {group.place} in {group.name!r}, of which a person is in "
            "one: name the task.toml or survey.json of the survey that it belongs to"
        )
    return task, task.meaning
