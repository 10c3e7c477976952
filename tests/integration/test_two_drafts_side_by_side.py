"""One leader and one helper serve tasks of two drafts at once, each in its own draft's words."""

import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from aggregator.codec import decode, encode
from aggregator.dap.extensions import Extension
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import (
    AggregationJobInitReq,
    AggregationJobResp,
    Report,
    VerifyRespReject,
)
from aggregator.dap.times import Time
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_table
from tests.support.helper_jobs import send_job
from tests.support.pair import NOW, Answer, Pair
from tests.support.tasks import TIME_PRECISION, make_task

UNITS = NOW // TIME_PRECISION
INTERVAL = {"start": UNITS - 5, "duration": 10}


def task_of(profile: str, number: int, batch_mode: str) -> Task:
    return make_task(
        interval=INTERVAL,
        id=str(TaskId(bytes([number]) * 32)),
        profile=profile,
        batch_mode=batch_mode,
        min_batch_size=3,
    )


@pytest.fixture(name="tasks", params=["time_interval", "leader_selected"])
def _tasks(request: pytest.FixtureRequest) -> list[Task]:
    return [task_of(name, place, request.param) for place, name in enumerate(("dap-18", "dap-19"))]


@pytest.fixture(name="pair")
async def _pair(tmp_path: Path, tasks: list[Task]) -> AsyncIterator[Pair]:
    made = Pair(tmp_path, tasks[0])
    for task in tasks:
        made.task = task
        await made.provision()
    yield made
    await made.close()


async def test_tasks_of_both_drafts_are_collected_by_one_pair(
    pair: Pair, tasks: list[Task]
) -> None:
    for task in tasks:
        pair.task = task
        await pair.upload(await pair.reports([0, 1, 1]))
    for task in tasks:
        pair.task = task
        assert (await pair.collect()).values == (1, 2, 0, 0)


async def test_parties_that_follow_different_drafts_open_nothing_of_each_other(
    pair: Pair, tasks: list[Task]
) -> None:
    """All else of the two tasks is equal, so nobody can pass a report from one to the other."""
    eighteen, nineteen = tasks
    pair.task = dataclasses.replace(nineteen, task_id=eighteen.task_id, profile=nineteen.profile)
    await pair.upload(await pair.reports([0, 1, 1]))
    pair.task = eighteen
    await pair.upload(await pair.reports([2, 2, 2]))
    assert (await pair.collect()).values == (0, 0, 3, 0)


def changed(report: Report, **metadata: object) -> Report:
    made = dataclasses.replace(report.report_metadata, **metadata)  # type: ignore[arg-type]  # a test's choice
    return dataclasses.replace(report, report_metadata=made)


def outdated(report: Report) -> Report:
    leader, helper = (
        dataclasses.replace(sealed, config_id=sealed.config_id ^ 1)  # each has one key
        for sealed in (report.leader_encrypted_input_share, report.helper_encrypted_input_share)
    )
    return dataclasses.replace(
        report, leader_encrypted_input_share=leader, helper_encrypted_input_share=helper
    )


CHANGES: dict[str, Callable[[Report], Report]] = {
    "sealed to a key that is not there": outdated,
    "before the task": lambda report: changed(report, time=Time(UNITS - 6)),
    "after the task": lambda report: changed(report, time=Time(UNITS + 5)),
    "with an extension": lambda report: changed(
        report, public_extensions=(Extension(0x1234, b""),)
    ),
    "too early": lambda report: changed(report, time=Time(UNITS + 4)),
}
AT_UPLOAD = {
    # By the registries of the two drafts, by hand.
    "dap-18": [11, 3, 3, 8, 9],
    "dap-19": [4, 3, 3, 10, 8],
}
AT_AGGREGATION = {"dap-18": [5, 10, 7, 8, 9], "dap-19": [4, 3, 3, 10, 8]}


async def test_an_upload_is_refused_by_the_number_of_its_tasks_draft(
    pair: Pair, tasks: list[Task]
) -> None:
    for task in tasks:
        pair.task = task
        reports = await pair.reports([0] * len(CHANGES))
        spoiled = [change(each) for change, each in zip(CHANGES.values(), reports, strict=True)]
        errors = (await pair.upload(spoiled)).status
        assert [each.error for each in errors] == AT_UPLOAD[task.profile.name]


async def job_of(pair: Pair, key_id: int, *changes: Callable[[Report], Report]) -> Answer:
    """Ask the helper about reports that were changed after a leader had begun with them."""
    reports = await pair.reports([0] * len(changes))
    whole = decode(AggregationJobInitReq, await pair.job(reports, key_id=key_id))
    inits = [
        dataclasses.replace(
            init,
            report_share=dataclasses.replace(
                init.report_share,
                report_metadata=change(report).report_metadata,
                encrypted_input_share=change(report).helper_encrypted_input_share,
            ),
        )
        for init, report, change in zip(whole.verify_inits, reports, changes, strict=True)
    ]
    request = dataclasses.replace(whole, verify_inits=tuple(inits))
    return await send_job(pair, encode(request))


def codes(answer: Answer) -> Sequence[int | None]:
    return [
        each.report_error if isinstance(each, VerifyRespReject) else None
        for each in decode(AggregationJobResp, answer.body).verify_resps
    ]


@pytest.mark.parametrize("tasks", ["time_interval"], indirect=True)
async def test_a_report_is_rejected_by_the_number_of_its_tasks_draft(
    pair: Pair, tasks: list[Task]
) -> None:
    for task in tasks:
        pair.task = task
        answer = await job_of(pair, 0, *CHANGES.values(), lambda report: report)
        assert codes(answer) == [*AT_AGGREGATION[task.profile.name], None]


@pytest.mark.parametrize("tasks", ["time_interval"], indirect=True)
async def test_no_report_is_verified_under_a_key_that_was_not_agreed_on(
    pair: Pair, tasks: list[Task]
) -> None:
    """Draft 18 has no word for it; of draft 19 each report is rejected, and under the key of the
    task it still counts once."""
    eighteen, nineteen = tasks
    pair.task = eighteen
    assert (await job_of(pair, 7, lambda report: report)).problem_type == "invalidMessage"
    pair.task = nineteen
    assert codes(await job_of(pair, 7, lambda report: report)) == [9]
    await pair.upload(await pair.reports([1, 2, 2]))
    assert (await pair.collect()).values == (0, 1, 2, 0)


def test_only_a_task_of_the_usual_draft_names_none(tasks: list[Task]) -> None:
    eighteen, nineteen = tasks
    assert "profile" not in task_to_table(eighteen)
    assert task_to_table(nineteen)["profile"] == "dap-19"
