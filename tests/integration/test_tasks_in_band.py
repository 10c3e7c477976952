"""Tasks that nobody added: they come with their first request, as far as was agreed on."""

import os
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NoReturn
from urllib.parse import urljoin

import pytest
from sqlalchemy import update

from aggregator.codec import encode
from aggregator.dap.ids import CollectionJobId, encode_base64url
from aggregator.dap.messages import CollectionJobReq, UploadErrors, UploadRequest
from aggregator.dap.profile import Role
from aggregator.dap.resources import path
from aggregator.protocol.agreements import verify_key_of
from aggregator.protocol.budget import horizon
from aggregator.protocol.in_band import headers_of
from aggregator.protocol.provisioning import provision_text, read_provisions
from aggregator.protocol.task import Task
from aggregator.service.runtime.new_tasks import put_new_tasks
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.journal import Journal
from aggregator.service.storage.tasks.caller_tokens import list_caller_tokens
from aggregator.service.storage.tasks.forgetting import forget
from aggregator.service.storage.tasks.tasks import count_tasks, end_task, get_task
from tests.support.empty_store import upgraded
from tests.support.in_band import COLLECTOR_TOKEN, INIT, LEADER_TOKEN, agreements, task_in_band
from tests.support.pair import Answer, Pair, Service
from tests.support.tasks import LAPLACE, LEADER_URL, NO_NOISE

EXACT = {"mechanism": "None"}


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """A pair that has agreed on tasks, and has none."""
    made = Pair(tmp_path, task_in_band(privacy={**NO_NOISE, "bound": False}))
    for service, role in ((made.leader, Role.LEADER), (made.helper, Role.HELPER)):
        service.agreements = agreements(role, privacy=EXACT)
        service.restart()
        await service.runtime.ensure_keypair()
    yield made
    await made.close()


def stored(service: Service, task: Task) -> object:
    return service.database.read_sync("task", lambda tx: get_task(tx, task.task_id.value))


def tasks_at(service: Service) -> int:
    return service.database.read_sync("count", count_tasks)


async def brought(
    pair: Pair,
    task: Task,
    token: str | None = COLLECTOR_TOKEN,
    headers: dict[str, str] | None = None,
    below: str = LEADER_URL,
) -> Answer:
    """Ask the leader for a collection that there is not, which brings the task."""
    nowhere = CollectionJobId(bytes(CollectionJobId.size))
    named = path("collection_job", task_id=task.task_id, collection_job_id=nowhere)
    url = below.rstrip("/") + named
    given = headers_of(task) if headers is None else headers
    return await pair.send("GET", url, token=token, headers=given)


async def asked(pair: Pair) -> Answer:
    """Ask for the collection of the unit of time in which reports are made."""
    url, body = pair.url_of("collection_jobs"), encode(pair.request())
    return await pair.send("POST", url, CollectionJobReq.message, body, COLLECTOR_TOKEN)


async def uploaded(pair: Pair, task: Task, measurements: Sequence[int]) -> Answer:
    """Upload reports of a task, with the header."""
    configs = await pair.configs()
    reports = await pair.reports(measurements, task=task)
    assert configs
    body = encode(UploadRequest(tuple(reports)))
    url = pair.url_of("reports", task)
    return await pair.send("POST", url, UploadRequest.message, body, headers=headers_of(task))


async def test_a_task_that_nobody_added_is_collected_from_both(pair: Pair) -> None:
    assert (await brought(pair, pair.task)).problem_type == "unrecognized-collection-job"
    assert (tasks_at(pair.leader), tasks_at(pair.helper)) == (1, 0)
    assert (await uploaded(pair, pair.task, [1, 2, 2, 3])).body == encode(UploadErrors(()))
    answer = await asked(pair)
    assert answer.status == 201
    await pair.work_until_idle()
    assert tasks_at(pair.helper) == 1, "the leader's first request brought it"
    where = urljoin(LEADER_URL, answer.headers["location"])
    result = await pair.send("GET", where, token=COLLECTOR_TOKEN)
    assert pair.open(result.body).values == (0, 1, 2, 1)


async def test_a_task_that_comes_back_after_its_store_was_lost_releases_nothing_twice(
    pair: Pair,
) -> None:
    await brought(pair, pair.task)
    await uploaded(pair, pair.task, [1, 2, 2, 3])
    where = (await asked(pair)).headers["location"]
    await pair.work_until_idle()
    assert (await pair.send("GET", urljoin(LEADER_URL, where), token=COLLECTOR_TOKEN)).body
    pair.leader.database.close()
    os.unlink(pair.leader.url.removeprefix("sqlite:///"))  # noqa: PTH108  a Path would block
    upgraded(pair.leader.url)
    pair.leader.start()
    await pair.leader.runtime.ensure_keypair()
    assert tasks_at(pair.leader) == 0
    await brought(pair, pair.task)
    assert (await asked(pair)).problem_type == "batchOverlap"


async def test_a_task_in_band_and_one_added_by_hand_are_the_same_rows(
    pair: Pair, tmp_path: Path
) -> None:
    await brought(pair, pair.task)
    (tmp_path / "by-hand").mkdir()
    other = Pair(tmp_path / "by-hand", pair.task)
    secrets = {
        "verify_key": encode_base64url(verify_key_of(INIT, pair.task.task_id)),
        "leader_token": LEADER_TOKEN,
        "collector_token": COLLECTOR_TOKEN,
    }
    given = read_provisions(provision_text(pair.task, Role.LEADER, secrets), Role.LEADER)

    def add(tx: Transaction) -> None:
        put_new_tasks(tx, Role.LEADER, given, [])

    other.leader.database.run_sync("add", add)
    pair.leader.database.run_sync("add again", add)
    records = [stored(each.leader, pair.task) for each in (pair, other)]
    assert records[0] == records[1]
    tokens = [
        each.leader.database.read_sync(
            "tokens", lambda tx: list_caller_tokens(tx, pair.task.task_id.value)
        )
        for each in (pair, other)
    ]
    assert tokens[0] == tokens[1]
    assert tasks_at(pair.leader) == 1
    await other.close()


@pytest.mark.parametrize("token", [None, "another token that is as long", LEADER_TOKEN])
async def test_a_stranger_brings_no_task(pair: Pair, token: str | None) -> None:
    assert (await brought(pair, pair.task, token)).status == 401
    assert (await uploaded(pair, pair.task, [1])).problem_type == "unrecognizedTask"
    assert tasks_at(pair.leader) == 0


async def test_the_word_of_a_known_caller_is_needed_for_what_the_draft_says(pair: Pair) -> None:
    absent = await brought(pair, pair.task, headers={})
    assert (absent.status, absent.problem_type) == (404, "unrecognizedTask")
    other = task_in_band(privacy={**NO_NOISE, "bound": False}, task_info="another")
    wrong = await brought(pair, pair.task, headers=headers_of(other))
    assert (wrong.status, wrong.problem_type) == (404, "unrecognizedTask")
    assert tasks_at(pair.leader) == 0
    await brought(pair, pair.task)
    wrong = await brought(pair, pair.task, headers=headers_of(other))
    assert (wrong.status, wrong.problem_type) == (404, "unrecognizedTask")
    ignored = await brought(pair, pair.task, headers={"dap-taskprov": '"a text"'})
    assert ignored.problem_type == "unrecognized-collection-job"


@pytest.mark.parametrize(
    "task",
    [
        {"privacy": {**LAPLACE, "epsilon": "3/4"}},
        {"privacy": NO_NOISE, "vdaf": {"type": "Prio3Sum", "max_measurement": 7}},
        {"privacy": {**LAPLACE, "population": "staff"}},
        {"privacy": LAPLACE, "task_info": "Made up: answers"},
    ],
)
async def test_what_was_not_agreed_on_is_an_invalid_task_at_both(
    pair: Pair, task: dict[str, object]
) -> None:
    refused = task_in_band(**task)
    answer = await brought(pair, refused)
    assert (answer.status, answer.problem_type) == (400, "invalidTask")
    body = await pair.send(
        "POST",
        pair.url_of("aggregation_jobs", refused),
        "aggregation-job-init-req",
        b"",
        LEADER_TOKEN,
        headers_of(refused),
    )
    assert (body.status, body.problem_type) == (400, "invalidTask")
    assert (tasks_at(pair.leader), tasks_at(pair.helper)) == (0, 0)


async def test_an_aggregator_without_agreements_knows_no_header(pair: Pair) -> None:
    pair.leader.agreements = None
    pair.leader.restart()
    assert (await brought(pair, pair.task)).status == 401
    assert (await uploaded(pair, pair.task, [1])).problem_type == "unrecognizedTask"


async def test_made_up_tasks_leave_a_bounded_number_of_rows(pair: Pair) -> None:
    answers = [
        await brought(
            pair,
            task_in_band(privacy={**NO_NOISE, "bound": False}, task_info=f"made-up {number}"),
        )
        for number in range(20)
    ]
    assert [each.status for each in answers] == [404] * 8 + [429] * 12
    assert int(answers[-1].headers["retry-after"]) > 0
    assert tasks_at(pair.leader) == 8


async def test_uploads_bring_as_many_tasks_as_the_operator_said_and_leave_room_for_others(
    pair: Pair,
) -> None:
    pair.leader.agreements = agreements(
        Role.LEADER, privacy=EXACT, max_tasks=4, max_tasks_by_uploads=2
    )
    pair.leader.restart()
    tasks = [
        task_in_band(privacy={**NO_NOISE, "bound": False}, task_info=f"of uploads {number}")
        for number in range(5)
    ]
    answers = [await uploaded(pair, task, [1]) for task in tasks]
    assert [each.status for each in answers] == [200, 200, 429, 429, 429]
    assert (await brought(pair, tasks[3])).status == 404
    assert (await uploaded(pair, tasks[3], [1])).status == 200, "known by now"
    assert tasks_at(pair.leader) == 3


async def test_the_agreed_token_opens_no_stored_task_whose_token_has_ended(pair: Pair) -> None:
    await brought(pair, pair.task)
    await pair.leader.database.run(
        "end tokens",
        lambda tx: tx.connection.execute(update(tables.caller_tokens).values(expires_at=tx.now)),
    )
    assert (await brought(pair, pair.task)).status == 401
    assert (await brought(pair, pair.task, headers={})).problem_type == "unrecognizedTask"


async def test_a_forgotten_task_does_not_come_back_and_costs_no_look_at_the_journal(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    await brought(pair, pair.task)
    pair.leader.database.run_sync("end", lambda tx: end_task(tx, pair.task.task_id.value))
    forget(pair.leader.database, pair.task.task_id.value)

    def read(_: Journal) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(Journal, "releases", read)
    answer = await brought(pair, pair.task)
    assert (answer.status, answer.problem_type) == (400, "invalidTask")
    assert "was forgotten" in str(answer.problem["detail"])


async def test_a_task_in_band_may_be_the_first_below_its_endpoints_path(pair: Pair) -> None:
    below = f"{LEADER_URL}dap/"
    pair.leader.agreements = agreements(Role.LEADER, {"leader": below}, EXACT)
    pair.leader.restart()
    task = task_in_band(privacy={**NO_NOISE, "bound": False}, leader=below)
    answer = await brought(pair, task, below=below)
    assert answer.problem_type == "unrecognized-collection-job"
    assert tasks_at(pair.leader) == 1


async def test_what_a_budget_of_strangers_pays_for_is_found_while_others_are_answered(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes 2 s for a tiny rho and delta, and an upload may bring such a task."""
    threads = []

    def find(task: Task) -> int | None:
        threads.append(threading.current_thread())
        return horizon(task)

    monkeypatch.setattr("aggregator.service.runtime.runtime.horizon", find)
    await brought(pair, pair.task)
    assert (await uploaded(pair, pair.task, [1])).status == 200
    assert threads
    assert threading.current_thread() not in threads
