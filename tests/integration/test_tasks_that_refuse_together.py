"""A survey's tasks take a person's answers together, or refuse them together."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.dap.messages import Report
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import AnyReportError, ReportError
from aggregator.protocol.task import Task
from aggregator.service.storage.tasks.tasks import end_task
from tests.support.pair import NOW, Pair
from tests.support.surveys import IN_2023, department
from tests.support.texts import WORD, asked_in

HOURLY = IN_2023.replace('"week"', '"hour"').replace("= 52\n", "= 100\n")
SURVEY = HOURLY.replace('epsilon = "1"', 'epsilon = "4"') + department() + WORD
EARLY, COLLECTED, DROPPED = (
    ReportError.REPORT_TOO_EARLY,
    ReportError.BATCH_COLLECTED,
    ReportError.REPORT_DROPPED,
)


class Asked:
    """A pair that holds a survey, with reports of a person for each of its tasks."""

    def __init__(self, folder: Path, survey: str = SURVEY) -> None:
        self.survey = asked_in(survey)
        self.tasks = self.survey.tasks
        self.pair = Pair(folder, self.tasks[0])

    async def provision(self, tasks: list[Task]) -> None:
        await self.pair.provision(*tasks)

    async def reports(self, task: Task, count: int = 1) -> list[Report]:
        self.pair.task = task
        answer = self.survey.sheet.entries({}) if task == self.survey.task else 0
        return await self.pair.reports([answer] * count, self.pair.clock.now())

    async def told(self, task: Task, reports: list[Report]) -> AnyReportError | None:
        self.pair.task = task
        found = {
            DAP_18.report_error(each.error) for each in (await self.pair.upload(reports)).status
        }
        assert len(found) <= 1
        return next(iter(found), None)

    async def words(self) -> set[AnyReportError | None]:
        """What all tasks say of a report of now."""
        return {await self.told(task, await self.reports(task)) for task in self.tasks}


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    made = Asked(tmp_path)
    yield made
    await made.pair.close()


@pytest.mark.parametrize("first", [0, 3], ids=["its own report", "a text question"])
async def test_what_is_collected_of_one_task_is_closed_in_all(asked: Asked, first: int) -> None:
    await asked.provision(asked.tasks)
    pair, task = asked.pair, asked.tasks[first]
    known = await asked.reports(asked.tasks[1])
    assert await asked.told(asked.tasks[1], known) is None
    await asked.told(task, await asked.reports(task, 3))
    hour = NOW // 3600 * 3600
    pair.task = task
    interval = pair.interval(hour, 3600 // task.time_precision)
    location = (await pair.ask(interval)).headers["location"]
    assert await asked.words() == {EARLY}
    assert await asked.told(asked.tasks[1], known) is None  # it was taken before
    pair.task = task
    await pair.work_until_idle()
    assert not (await pair.poll(location)).problem
    pair.clock.advance(hour - pair.clock.now())  # the same hour, whatever the work took
    assert await asked.words() == {COLLECTED}
    assert await asked.told(asked.tasks[1], known) is None
    pair.clock.advance(3600)
    assert await asked.words() == {None}


async def test_a_collection_that_fails_opens_all_of_them_again(asked: Asked) -> None:
    await asked.provision(asked.tasks)
    pair = asked.pair
    pair.task = asked.tasks[0]
    hour = NOW // 3600 * 3600
    location = (await pair.ask(pair.interval(hour, 3600 // pair.task.time_precision))).headers
    assert await asked.words() == {EARLY}
    pair.task = asked.tasks[0]
    await pair.work_until_idle()
    assert (await pair.poll(location["location"])).problem_type == "invalidBatchSize"
    pair.clock.advance(hour - pair.clock.now())
    assert await asked.words() == {None}


async def test_when_an_operator_ends_one_of_them_all_end(asked: Asked) -> None:
    await asked.provision(asked.tasks)
    assert await asked.words() == {None}
    ended = asked.tasks[2].task_id.value
    await asked.pair.leader.database.run("end", lambda tx: end_task(tx, ended))
    assert await asked.words() == {DROPPED}


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[Asked]:
    """A survey whose windows hold four answers."""
    made = Asked(tmp_path, SURVEY.replace("max_reports = 1000", "max_reports = 4"))
    await made.provision(made.tasks)
    yield made
    await made.pair.close()


async def test_when_the_survey_is_full_its_text_questions_take_no_more_either(small: Asked) -> None:
    """Or who comes then would be counted in half."""
    own, text = small.tasks[0], small.tasks[3]
    known = await small.reports(text)
    assert await small.told(text, known) is None
    assert await small.told(own, await small.reports(own, 4)) is None
    assert await small.words() == {DROPPED}
    assert await small.told(text, []) is DROPPED  # what a page asks before the first question
    assert await small.told(text, known) is None
    small.pair.clock.advance(3600)
    assert await small.words() == {None}


async def test_a_full_place_refuses_nobody_who_is_in_another(small: Asked) -> None:
    own, full, text = small.tasks[0], small.tasks[3], small.tasks[4]
    assert await small.told(full, await small.reports(full, 4)) is None
    assert await small.told(full, await small.reports(full)) is DROPPED
    for each in (own, text):
        assert await small.told(each, await small.reports(each)) is None


async def test_tasks_of_another_file_take_answers_by_themselves(asked: Asked) -> None:
    """Such as those of another survey of the same people, added in the same second."""
    await asked.provision(asked.tasks[:1])
    await asked.provision(asked.tasks[1:])
    pair = asked.pair
    pair.task = asked.tasks[0]
    await pair.ask(pair.interval(NOW // 3600 * 3600, 3600 // pair.task.time_precision))
    assert await asked.told(asked.tasks[0], await asked.reports(asked.tasks[0])) is EARLY
    assert await asked.told(asked.tasks[1], await asked.reports(asked.tasks[1])) is None
