"""What a process has seen of those whom it asks."""

import httpx
import pytest

from aggregator.service.transport.answer_times import MAX_HOSTS, REMEMBERED, AnswerTimes
from aggregator.service.transport.client import Client


def test_times_are_of_the_last_answers_and_failures_are_counted_apart() -> None:
    answers = AnswerTimes()
    for _ in range(REMEMBERED):
        answers.note("helper:1", 9.0, is_answer=True)
    for place in range(REMEMBERED):
        answers.note("helper:1", place / 1000, is_answer=True)
    answers.note("helper:1", 60.0, is_answer=False)
    (row,) = answers.document()
    assert row == {
        "host": "helper:1",
        "answers": 2 * REMEMBERED,
        "failures": 1,
        "last_answer_seconds": 0,
        "median_milliseconds": REMEMBERED // 2,
        "slowest_milliseconds": REMEMBERED - 1,
    }


def test_a_host_that_never_answered_has_no_times_and_old_hosts_make_room() -> None:
    answers = AnswerTimes()
    for place in range(MAX_HOSTS + 5):
        answers.note(f"host{place:03}", 1.0, is_answer=False)
    rows = answers.document()
    assert len(rows) == MAX_HOSTS
    assert rows[0]["host"] == "host005"
    assert rows[0]["median_milliseconds"] is rows[0]["last_answer_seconds"] is None


async def test_a_client_notes_answers_faults_of_the_server_and_silence() -> None:
    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/silent":
            raise httpx.ConnectError("refused")
        return httpx.Response(int(request.url.path[1:]))

    async with Client(transport=httpx.MockTransport(answer)) as http:
        for path in ("200", "404", "503"):
            await http.get(f"http://helper:2/{path}")
        with pytest.raises(httpx.ConnectError):
            await http.get("http://helper:2/silent")
        (row,) = http.answers.document()
    assert (row["host"], row["answers"], row["failures"]) == ("helper:2", 2, 2)
