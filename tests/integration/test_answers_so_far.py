"""A collector hears how many people have answered, and never when one of them did."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.codec import decode
from aggregator.dap.ids import TaskId
from aggregator.protocol.answers_so_far import AnswersSoFar
from aggregator.protocol.task import Task
from tests.support.pair import COLLECTOR_TOKEN, LEADER_TOKEN, NOW, Answer, Pair
from tests.support.surveys import IN_2023, department
from tests.support.tasks import HELPER_URL, LEADER_URL, NO_NOISE, make_task
from tests.support.texts import WORD, asked_in

HOUR = 3600
HOURLY = IN_2023.replace('"week"', '"day"').replace("= 52\n", "= 100\n")
SURVEY = HOURLY.replace('epsilon = "1"', 'epsilon = "4"') + department() + WORD
START = NOW // 86400 * 86400
WINDOW = {"window": 36, "window_start": 0}
"""An hour, in units of a hundred seconds."""


def hourly(number: int = 0, **settings: int) -> Task:
    task_id = str(TaskId(bytes([number]) * 32))
    return make_task(privacy=NO_NOISE | WINDOW, id=task_id, min_batch_size=3, **settings)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    made = Pair(tmp_path, hourly())
    made.clock.advance(NOW // HOUR * HOUR - NOW)
    await made.provision()
    yield made
    await made.close()


async def answer(pair: Pair, task: Task, token: str | None = COLLECTOR_TOKEN) -> Answer:
    return await pair.send("GET", f"{LEADER_URL}tasks/{task.task_id}/answers_so_far", token=token)


async def said(pair: Pair, task: Task | None = None) -> AnswersSoFar:
    found = await answer(pair, pair.task if task is None else task)
    assert found.status == 200, found.problem
    return decode(AnswersSoFar, found.body)


async def upload(pair: Pair, count: int, task: Task | None = None) -> None:
    pair.task = pair.task if task is None else task
    reports = await pair.reports([0] * count, pair.clock.now())
    assert not (await pair.upload(reports)).status


async def test_who_asks_all_the_time_hears_one_count_an_hour(pair: Pair) -> None:
    first = pair.clock.now() // HOUR
    by_hour: dict[int, set[AnswersSoFar]] = {}
    for second in range(0, 3 * HOUR, 30):
        pair.clock.advance(first * HOUR + second - pair.clock.now())
        if second % 120 == 0:
            await upload(pair, 1)
        by_hour.setdefault(second // HOUR, set()).add(await said(pair))
    assert [len(found) for found in by_hour.values()] == [1, 1, 1]
    # The first one was counted before anybody had answered but one, the others say whole hours.
    [early], [one], [two] = by_hour.values()
    start = first * HOUR
    assert [early.of_window(start), one.of_window(start), two.of_window(start)] == [None, 30, 30]
    assert two.of_window(start + HOUR) == 30
    assert [each.counted_at for each in (early, one, two)] == [
        start,
        start + HOUR,
        start + 2 * HOUR,
    ]


@pytest.mark.parametrize(("answers", "told"), [(0, None), (2, None), (3, 3), (20, 20)])
async def test_a_number_is_told_from_the_smallest_batch_on(
    pair: Pair, answers: int, told: int | None
) -> None:
    start = pair.clock.now()
    await upload(pair, answers)
    pair.clock.advance(HOUR)
    assert (await said(pair)).of_window(start) == told
    assert len((await said(pair)).windows) == int(told is not None)


async def test_aggregated_reports_count_once_and_collected_windows_no_more(pair: Pair) -> None:
    start = pair.clock.now()
    await upload(pair, 5)
    await pair.work_until_idle()
    pair.clock.advance(start + HOUR - pair.clock.now())
    await upload(pair, 4)
    found = await said(pair)
    assert (found.of_window(start), found.of_window(start + HOUR)) == (5, 4)
    await pair.collect(pair.interval(start, 36))
    pair.clock.advance(HOUR)
    found = await said(pair)
    assert (found.of_window(start), found.of_window(start + HOUR)) == (None, 4)


async def test_all_tasks_are_counted_at_one_moment_so_that_asking_in_turns_tells_no_more(
    pair: Pair,
) -> None:
    first, second = pair.task, hourly(1)
    pair.task = second
    await pair.provision()
    start = pair.clock.now()
    await said(pair, first)
    pair.clock.advance(HOUR // 2)
    await upload(pair, 3, first)
    await upload(pair, 3, second)
    assert (await said(pair, second)).counted_at == 0  # it waits for the next count of all
    pair.clock.advance(HOUR // 2 + 1)
    found = [await said(pair, first)]
    pair.clock.advance(HOUR // 2)
    await upload(pair, 3, second)
    found.append(await said(pair, second))
    assert {each.counted_at for each in found} == {start + HOUR + 1}
    assert [each.of_window(start) for each in found] == [3, 3]
    assert found[1].of_window(start + HOUR) is None  # came after the count


async def test_who_asks_before_and_after_a_full_hour_hears_one_count(pair: Pair) -> None:
    """Or it would hear whether somebody answered in the two seconds between."""
    start = pair.clock.now()
    await upload(pair, 3)
    pair.clock.advance(HOUR - 1)
    before = await said(pair)
    await upload(pair, 1)
    pair.clock.advance(2)
    assert await said(pair) == before
    assert before.of_window(start) == 3
    pair.clock.advance(HOUR - 2)
    assert (await said(pair)).of_window(start) == 4


async def test_a_text_questions_tasks_have_one_number(tmp_path: Path) -> None:
    asked = asked_in(SURVEY)
    (_, places) = asked.texts["word"]
    pair = Pair(tmp_path, asked.tasks[0])
    await pair.provision(*asked.tasks)
    for number, place in enumerate(places):
        await upload(pair, number % 3, place)
    pair.task = asked.tasks[0]
    assert not (await pair.upload(await pair.reports([asked.sheet.entries({})] * 9))).status
    pair.clock.advance(HOUR)
    whole = await said(pair, asked.tasks[0])
    least = max(asked.tasks[0].min_batch_size, sum(place.min_batch_size for place in places))
    assert whole.least == least
    assert whole.of_window(START) == (9 if least <= 9 else None)
    found = {await said(pair, place) for place in places}
    pair.clock.advance(HOUR)
    found = {await said(pair, place) for place in places}
    assert len(found) == 1  # of all of them, whichever is asked for
    (one,) = found
    assert one.least == least  # or the number of one would tell that of the other
    sent = sum(number % 3 for number in range(len(places)))
    assert one.of_window(START) == (sent if sent >= one.least else None)
    assert sent < one.least or one.windows
    await pair.close()


async def test_only_the_tasks_collector_may_ask_and_the_helper_does_not_answer(pair: Pair) -> None:
    for token in (None, LEADER_TOKEN, "another"):
        assert (await answer(pair, pair.task, token)).status in (401, 403)
    url = f"{HELPER_URL}tasks/{pair.task.task_id}/answers_so_far"
    assert (await pair.send("GET", url, token=LEADER_TOKEN)).status == 404
    assert (await answer(pair, pair.task)).headers["cache-control"] == "no-store"


async def test_a_task_without_windows_has_no_such_count(tmp_path: Path) -> None:
    pair = Pair(tmp_path, make_task())
    await pair.provision()
    assert (await answer(pair, pair.task)).problem_type == "batchInvalid"
    await pair.close()
