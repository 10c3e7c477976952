"""Ledgers count one place of a group, so no client of ours sends for a person to several."""

from pathlib import Path

import httpx
import pytest

from aggregator.client import Client, Contributions
from aggregator.client.outbox import Outbox
from aggregator.client.reporter import Reporter
from aggregator.errors import ParameterError
from tests.support.tasks import LAPLACE, make_task

UNRELATED = [
    make_task(privacy={**LAPLACE, "group": "an income, an illness", "group_place": place})
    for place in range(2)
]
"""Of a designer who wants several reports of each person, and to have one of them counted."""

NOBODY_IS_KEPT = "group: the task has place 1 .* this client keeps nobody to one"


def nothing_is_sent(request: httpx.Request) -> httpx.Response:
    raise AssertionError(request.url)


async def test_a_client_takes_no_task_of_a_group_unless_a_person_is_kept_to_one_place(
    tmp_path: Path,
) -> None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(nothing_is_sent)) as http:
        with pytest.raises(ParameterError, match=NOBODY_IS_KEPT):
            Client(UNRELATED[1], http)
        Client(UNRELATED[1], http, contributions=Contributions(tmp_path / "reports.json"))
        Client(UNRELATED[1], http, keeps_places=True)


def test_an_applications_client_which_knows_people_by_task_takes_none(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.sqlite")
    try:
        with pytest.raises(ParameterError, match=NOBODY_IS_KEPT):
            Reporter(UNRELATED[1], outbox)
    finally:
        outbox.close()
