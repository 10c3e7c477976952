"""What makes the task of a survey."""

import dataclasses
from collections.abc import Mapping

from aggregator.protocol.task import info_with_digest
from aggregator.steward.survey.meaning import Meaning
from aggregator.steward.survey.model import Survey
from aggregator.steward.survey.plan import Plan


@dataclasses.dataclass(frozen=True)
class TaskTables:
    """The tables of a new task's file, but for the parties.

    Attributes:
        vdaf: `[vdaf]`.
        privacy: `[privacy]`.
        settings: `task_info`, `time_precision`, `min_batch_size`, `max_reports` and `meaning`.
    """

    vdaf: Mapping[str, str | int]
    privacy: Mapping[str, str | int]
    settings: Mapping[str, str | int]


def task_tables(survey: Survey, plan: Plan) -> TaskTables:
    """Return what makes the task of a survey."""
    windows = survey.windows
    meaning = Meaning(survey.title, survey.asked, windows, plan.sheet).to_json()
    return TaskTables(
        vdaf={"type": "Prio3Sections", "sections": " ".join(plan.sheet.texts)},
        privacy={
            **plan.privacy,
            "window": windows.seconds // windows.time_precision,
            "window_start": windows.offset // windows.time_precision,
        },
        settings={
            "task_info": info_with_digest(survey.title, meaning),
            "time_precision": windows.time_precision,
            "min_batch_size": survey.min_batch_size,
            "max_reports": survey.max_reports,
            "meaning": meaning,
        },
    )
