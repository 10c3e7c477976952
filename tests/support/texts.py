"""The text questions of a survey's text, with their tasks."""

import hashlib
from collections.abc import Sequence

from aggregator.client.text.question import TextQuestion
from aggregator.dap.ids import TaskId
from aggregator.protocol.task import Task
from aggregator.steward.survey import survey_from_toml
from aggregator.steward.survey.bundle import text_tables
from aggregator.steward.survey.texts import plan_texts
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
    parsed = survey_from_toml(survey)
    return {
        each.asked.name: (
            each.question,
            [
                make_task(
                    made.vdaf,
                    made.privacy,
                    id=_task_id(each.asked.name, place),
                    **{**made.settings, **settings},
                )
                for place, made in enumerate(text_tables(parsed, each))
            ],
        )
        for each in plan_texts(parsed)
    }


def _task_id(name: str, place: int) -> str:
    return str(TaskId(hashlib.sha256(f"{name} {place}".encode()).digest()))
