"""From a survey file to its tasks, for commands that check it, make them or rehearse it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.cli.steward.survey_texts import text_tasks
from aggregator.clock import SystemClock
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.client.text.beside_survey import AskedTexts
    from aggregator.dap.hpke import HpkeConfig
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Plan, Survey
    from aggregator.steward.survey.texts import PlannedText


def survey_in(file: Path, text: str) -> "Survey":
    """Return the survey whose file has this text; if it names no first window, that of now."""
    from aggregator.cli.files import named
    from aggregator.steward.survey import survey_from_toml

    with named(file):
        return survey_from_toml(text, datetime.fromtimestamp(SystemClock().now(), UTC))


def planned_of(
    survey: "Survey", people: int | None = None
) -> "tuple[Plan | None, tuple[PlannedText, ...]]":
    """Return how a survey is asked: its report, unless it has text questions only, and these.

    Errors are for `min_batch_size` people unless a number is given.
    """
    from aggregator.steward.survey import plan
    from aggregator.steward.survey.texts import plan_texts

    texts = plan_texts(survey)
    if people is not None:
        texts = tuple(each.by_people(people) for each in texts)
    return plan(survey, people) if survey.questions else None, texts


def tasks_of(
    survey: "Survey",
    planned: "Plan | None",
    texts: "Sequence[PlannedText]",
    config: "HpkeConfig",
    leader: str,
    helper: str,
    profile: str = "dap-18",
) -> "tuple[Task | None, AskedTexts]":
    """Make the task of a survey, unless it has text questions only, and theirs."""
    from aggregator.cli.service.task_making import make_task
    from aggregator.steward.survey import task_tables

    of_texts = text_tasks(survey, texts, config, leader, helper, profile)
    if planned is None:
        return None, of_texts
    made = task_tables(survey, planned, texts)
    parties = {"leader": leader, "helper": helper, "profile": profile}
    task = make_task(config, made.vdaf, made.privacy, **parties, **made.settings)
    return task, of_texts


def check_people(survey: "Survey", people: int) -> None:
    """Refuse a number of people of whom nothing would be released, or more than a window takes."""
    if not survey.min_batch_size <= people <= survey.max_reports:
        raise ParameterError(
            f"people: must be {survey.min_batch_size:,} (min_batch_size) to "
            f"{survey.max_reports:,} (max_reports), not {people:,}"
        )
