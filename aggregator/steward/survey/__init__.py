"""A survey: questions with labels, asked of people in windows, each a task of its own.

    survey = survey_from_toml(Path("survey.toml").read_text())
    for planned in plan(survey):
        print(planned.question.name, planned.best.design.name, planned.best.error)

A question (`questions`) knows what an answer is and by which designs (`designs`) it can be asked;
`plan` chooses by their errors. What the numbers mean (`meaning`) is bound into each task.
"""

from typing import TYPE_CHECKING

from aggregator.lazily import exports
from aggregator.steward.survey.bundle import TaskTables, task_tables
from aggregator.steward.survey.cells import AnswerError
from aggregator.steward.survey.designs import Design, Figure, Spread
from aggregator.steward.survey.meaning import Meaning
from aggregator.steward.survey.model import Budget, Survey, survey_from_toml
from aggregator.steward.survey.plan import PlannedQuestion, Way, mechanism_tables, plan
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.windows import Windows

if TYPE_CHECKING:
    from aggregator.steward.survey.answers import (
        Answers,
        AnswerTable,
        Columns,
        csv_table,
        read_answers,
        table_in,
    )
    from aggregator.steward.survey.results import SurveyResults
else:
    __getattr__ = exports(
        __name__,
        {
            "answers": (
                "AnswerTable",
                "Answers",
                "Columns",
                "csv_table",
                "read_answers",
                "table_in",
            ),
            "results": ("SurveyResults",),
        },
    )

__all__ = [
    "AnswerError",
    "AnswerTable",
    "Answers",
    "Budget",
    "Columns",
    "Design",
    "Figure",
    "Meaning",
    "PlannedQuestion",
    "Question",
    "Spread",
    "Survey",
    "SurveyResults",
    "TaskTables",
    "Way",
    "Windows",
    "csv_table",
    "mechanism_tables",
    "plan",
    "read_answers",
    "survey_from_toml",
    "table_in",
    "task_tables",
]
