"""The page of a question's batches says how many answers there are, by the leader's word."""

from collections.abc import Callable
from pathlib import Path

import anyio
import httpx
import pytest

from aggregator.codec import encode
from aggregator.collector import so_far
from aggregator.collector.so_far import LeadersWord
from aggregator.dap.resources import ANSWERS_SO_FAR, media_type
from aggregator.errors import PeerError
from aggregator.protocol.answers_so_far import AnswersSoFar, WindowCount
from aggregator.protocol.task import Task
from aggregator.service.transport.interpretation import PeerUnreachable
from aggregator.written_times import IN_UTC
from tests.support.clock import ManualClock
from tests.support.collector_service import CollectorService, log_in
from tests.support.look import Page
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import make_task

MONDAY = 1_793_577_600
"""2 November 2026, when the survey begins."""

WEEK = 7 * 86400
TASK = task_of(VISITS + department())
SAID = AnswersSoFar(MONDAY + 3600, 3, (WindowCount(MONDAY, 1234),))


class Leader:
    """Counts how often it is asked."""

    def __init__(self, said: AnswersSoFar | Exception | bytes) -> None:
        self.said, self.asked = said, list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if isinstance(self.said, Exception):
            raise self.said
        body = self.said if isinstance(self.said, bytes) else encode(self.said)
        headers = {"content-type": media_type(ANSWERS_SO_FAR)}
        return httpx.Response(200, content=body, headers=headers)


async def batches_of(
    folder: Path, leader: Leader, looks: int = 1
) -> tuple[str, list[dict[str, object]]]:
    """The text of the page in the survey's second week, and its rows as a program has them."""
    http = httpx.AsyncClient(transport=httpx.MockTransport(leader))
    clock = ManualClock(MONDAY)
    made = CollectorService(folder, TASK, clock=clock, http=http)
    clock.advance(WEEK + 7200)
    async with made.client() as browser:
        await log_in(browser)
        for _ in range(looks):
            page = Page((await browser.get(f"/questions/{TASK.task_id}/batches")).text)
        rows = (await browser.get(f"/questions/{TASK.task_id}/batches.json")).json()["rows"]
    return page.all("main")[0].text, rows


async def test_a_window_shows_the_leaders_word_or_that_there_are_fewer_than_it_says(
    tmp_path: Path,
) -> None:
    leader = Leader(SAID)
    text, rows = await batches_of(tmp_path, leader, looks=3)
    at = IN_UTC.moment(SAID.counted_at)
    assert f"1,234 answers so far: the leader's word at {at}" in text
    assert f"fewer than 3 answers so far: the leader's word at {at}" in text
    assert {row["start"]: row["answers_so_far"] for row in rows} == {
        MONDAY: 1234,
        MONDAY + WEEK: None,
    }
    (request,) = leader.asked  # once, however often somebody looks
    assert request.headers["authorization"].startswith("Bearer ")


async def test_before_its_first_count_a_leader_says_when_that_is(tmp_path: Path) -> None:
    text, _ = await batches_of(tmp_path, Leader(AnswersSoFar(0, 3)))
    assert "the leader counts its answers for the first time within an hour" in text


@pytest.mark.parametrize("said", [b"x", encode(SAID) + b"x"])
async def test_an_answer_that_is_none_is_not_shown(tmp_path: Path, said: bytes) -> None:
    text, rows = await batches_of(tmp_path, Leader(said))
    assert "the leader does not say how many answers it has" in text
    assert all(row["answers_so_far"] is None for row in rows)


def word(
    ask: Callable[[], AnswersSoFar], clock: ManualClock
) -> tuple[LeadersWord, Callable[[], int]]:
    """What asks a leader, and how often it has."""
    asked = list[Task]()

    async def answers(task: Task) -> AnswersSoFar:
        asked.append(task)
        return ask()

    return LeadersWord(answers, clock, IN_UTC), lambda: len(asked)


async def test_it_asks_again_when_a_count_is_an_hour_old_and_a_silent_leader_after_a_minute() -> (
    None
):
    clock, said = ManualClock(MONDAY + 3600), list[AnswersSoFar | PeerError]([SAID])

    def ask() -> AnswersSoFar:
        if isinstance(said[0], PeerError):
            raise said[0]
        return said[0]

    leaders_word, times = word(ask, clock)
    for seconds, expected in ((0, 1), (3599, 1), (3600, 2), (3659, 2), (3660, 3)):
        clock.advance(MONDAY + 3600 + seconds - clock.now())
        await leaders_word.refresh(TASK)
        assert times() == expected, seconds
    said[0] = PeerUnreachable("nobody there")
    clock.advance(3600)
    for seconds, expected in ((0, 4), (59, 4), (1, 5)):
        clock.advance(seconds)
        await leaders_word.refresh(TASK)
        assert times() == expected, seconds
    assert "does not say" in leaders_word.of(TASK, MONDAY)[1]


async def test_a_task_without_windows_is_not_asked_about() -> None:
    leaders_word, times = word(lambda: SAID, ManualClock(MONDAY))
    await leaders_word.refresh(make_task())
    assert times() == 0
    assert leaders_word.of(make_task(), MONDAY) == (None, "")


async def test_a_page_does_not_wait_long_for_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(so_far, "PATIENCE_SECONDS", 0.01)

    async def never(_: Task) -> AnswersSoFar:
        await anyio.sleep_forever()
        raise AssertionError

    leaders_word = LeadersWord(never, ManualClock(MONDAY), IN_UTC)
    await leaders_word.refresh(TASK)
    assert "does not say" in leaders_word.of(TASK, MONDAY)[1]
