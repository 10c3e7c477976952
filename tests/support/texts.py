"""A survey's text as people are asked it: its text questions, with their tasks, and its own."""

import hashlib
from collections.abc import Sequence

from aggregator.client.survey.answer_sheet import AnswerSheet
from aggregator.client.survey.asked_survey import AskedSurvey
from aggregator.client.text.question import TextQuestion
from aggregator.dap.ids import TaskId
from aggregator.protocol.task import Task
from aggregator.steward.survey import survey_from_toml
from aggregator.steward.survey.bundle import text_tables
from aggregator.steward.survey.texts import plan_texts
from tests.support.surveys import FIRST, permits_in, task_of
from tests.support.tasks import make_task

Texts = dict[str, tuple[TextQuestion, Sequence[Task]]]

WORD = """
[[question]]
name = "word"
kind = "text"
text = "What hurts?"
epsilon = "1/4"
buckets = 16
tasks = 8
"""


def texts_in(survey: str, **settings: object) -> Texts:
    """Return the text questions of a survey's text, with tasks of these settings."""
    parsed = survey_from_toml(survey, FIRST)
    return {
        each.asked.name: (
            each.question,
            [
                make_task(
                    made.vdaf,
                    made.privacy,
                    id=_task_id(each.asked.name, place),
                    **{**made.settings, **permits_in(parsed, each.asked.name), **settings},
                )
                for place, made in enumerate(text_tables(parsed, each))
            ],
        )
        for each in plan_texts(parsed)
    }


def asked_in(survey: str, task: Task | None = None, **settings: object) -> AskedSurvey:
    """Return a survey's text as its files would have it, with tasks of these settings.

    Its own task, if it has one, is `task` if given.
    """
    texts = texts_in(survey, **settings)
    if task is None and survey_from_toml(survey, FIRST).questions:
        task = task_of(survey, **settings)
    if task is not None:
        return AskedSurvey(task, task.meaning, AnswerSheet.of_task(task), texts)
    meaning = next(question.survey for question, _ in texts.values())
    return AskedSurvey(None, meaning, AnswerSheet.of_meaning(meaning, "", 0), texts)


def _task_id(name: str, place: int) -> str:
    return str(TaskId(hashlib.sha256(f"{name} {place}".encode()).digest()))
