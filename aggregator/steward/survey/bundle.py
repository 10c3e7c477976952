"""The contents of the task file of a survey, and of those of its text questions."""

import dataclasses
from collections.abc import Mapping, Sequence

from aggregator.dp.rationals import format_rational
from aggregator.protocol.task import info_with_digest
from aggregator.steward.survey.model import Survey
from aggregator.steward.survey.plan import Plan
from aggregator.steward.survey.texts import PlannedText, meaning_of, plan_texts
from aggregator.steward.survey.windows import Windows


@dataclasses.dataclass(frozen=True)
class TaskTables:
    """The tables of a new task's file, without the parties: `[vdaf]`, `[privacy]` and settings."""

    vdaf: Mapping[str, str | int]
    privacy: Mapping[str, str | int]
    settings: Mapping[str, str | int | Mapping[str, int]]


def task_tables(
    survey: Survey, plan: Plan, texts: Sequence[PlannedText] | None = None
) -> TaskTables:
    """Return the tables of a survey's task.

    Text questions are planned here unless that was done before.
    """
    windows = survey.windows
    planned = plan_texts(survey) if texts is None else texts
    meaning = meaning_of(survey, plan.sheet, planned).to_json()
    return TaskTables(
        vdaf={"type": "Prio3Sections", "sections": " ".join(plan.sheet.texts)},
        privacy={**plan.privacy, **_window(windows)},
        settings={
            "task_info": info_with_digest(survey.title, meaning),
            "time_precision": windows.time_precision,
            "interval": _interval(survey),
            "min_batch_size": survey.min_batch_size,
            "max_reports": survey.max_reports,
            "meaning": meaning,
        },
    )


def text_tables(survey: Survey, planned: PlannedText) -> list[TaskTables]:
    """Return the tables of a text question's tasks, in the tasks' order."""
    from aggregator.client.text.beside_survey import smallest_batch

    question, windows = planned.question, survey.windows
    return [
        TaskTables(
            vdaf={"type": "Prio3Histogram", "length": question.entries},
            privacy={
                "mechanism": "PureDpDiscreteLaplace",
                "epsilon": format_rational(question.epsilon),
                "max_releases": survey.releases,
                "population": survey.asked,
                **question.group(place).settings(),
                **_window(windows),
            },
            settings={
                "task_info": question.info(place, f"{survey.title}, {planned.asked.name}"),
                "time_precision": windows.time_precision,
                "interval": _interval(survey),
                "min_batch_size": smallest_batch(survey.min_batch_size, question.tasks),
                "max_reports": survey.max_reports,
            },
        )
        for place in range(question.tasks)
    ]


def _window(windows: Windows) -> Mapping[str, str | int]:
    return {
        "window": windows.seconds // windows.time_precision,
        "window_start": windows.offset // windows.time_precision,
    }


def _interval(survey: Survey) -> Mapping[str, int]:
    """Return the times of a survey's reports: all windows that may be released, and no others."""
    windows = survey.windows
    unit = windows.time_precision
    return {
        "start": int(survey.first.timestamp()) // unit,
        "duration": survey.releases * windows.seconds // unit,
    }
