"""The files of a survey with text questions, as `prio survey new` writes them."""

from pathlib import Path

from aggregator.cli.steward.survey_texts import text_tasks, write_survey
from aggregator.protocol.task import Task
from aggregator.steward.survey import plan, survey_from_toml, task_tables
from aggregator.steward.survey.texts import plan_texts
from tests.support.surveys import permits_in
from tests.support.tasks import HELPER_URL, LEADER_URL, collector_keypair, make_task


def write_survey_folder(
    folder: Path,
    survey: str,
    leader: str = LEADER_URL,
    helper: str = HELPER_URL,
    **settings: object,
) -> dict[str, list[Task]]:
    """Write a survey's folder; return its task, under "", if any, and those of each text question.

    Args:
        folder: A new one.
        survey: As survey.toml has it.
        leader: The leader's address.
        helper: The helper's.
        settings: Of its task, such as another id.
    """
    parsed = survey_from_toml(survey)
    task = None
    if parsed.questions:
        tables = task_tables(parsed, plan(parsed))
        of_task = {"leader": leader, "helper": helper, **tables.settings}
        of_task |= permits_in(parsed, "") | settings
        task = make_task(tables.vdaf, tables.privacy, **of_task)
    config = collector_keypair().config
    texts = text_tasks(parsed, plan_texts(parsed), config, leader, helper)
    write_survey(task, texts, folder)
    own = [] if task is None else [task]
    return {"": own, **{name: [*tasks] for name, (_, tasks) in texts.items()}}
