"""A survey: questions with labels, asked of people in windows; a survey is one task.

    survey = survey_from_toml(Path("survey.toml").read_text())
    for planned in plan(survey).parts:
        print(planned.part.name, planned.share, planned.error)

Each kind of question (`questions`) has designs (`designs`), the ways to ask it. A `Sheet` is all
questions, and tables of two (`by_group`), in one report (`report_parts`); where each is in it, the
client's `AnswerSheet` says. `plan` chooses the designs and splits the budget. What the numbers mean
is bound into the task (`write_meaning`).
"""

from typing import TYPE_CHECKING

from aggregator.lazy_exports import exports
from aggregator.steward.survey.bundle import TaskTables, task_tables
from aggregator.steward.survey.designs import NO_ANSWER, Design, Figure, Sums
from aggregator.steward.survey.model import Budget, Survey, survey_from_toml
from aggregator.steward.survey.plan import Plan, PlannedPart, Way, plan
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.report_parts import Part, Sheet
from aggregator.steward.survey.spreads import Spread
from aggregator.steward.survey.windows import Windows
from aggregator.steward.survey.write_meaning import Meaning

if TYPE_CHECKING:
    from aggregator.steward.survey.answers import Answers, read_answers
    from aggregator.steward.survey.columns import Columns
    from aggregator.steward.survey.results import SurveyResults
else:
    __getattr__ = exports(
        __name__,
        {
            "answers": ("Answers", "read_answers"),
            "columns": ("Columns",),
            "results": ("SurveyResults",),
        },
    )

__all__ = [
    "NO_ANSWER",
    "Answers",
    "Budget",
    "Columns",
    "Design",
    "Figure",
    "Meaning",
    "Part",
    "Plan",
    "PlannedPart",
    "Question",
    "Sheet",
    "Spread",
    "Sums",
    "Survey",
    "SurveyResults",
    "TaskTables",
    "Way",
    "Windows",
    "plan",
    "read_answers",
    "survey_from_toml",
    "task_tables",
]
