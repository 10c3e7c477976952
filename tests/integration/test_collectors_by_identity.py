"""Collectors that tasks of attribution name: registered at each aggregator by itself."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from aggregator.codec import encode
from aggregator.collector.results.result import collection_request
from aggregator.dap.auth import hash_token
from aggregator.dap.hpke import HpkeConfig, generate_keypair
from aggregator.dap.ids import CollectionJobId, encode_base64url
from aggregator.dap.messages import CollectionJobReq
from aggregator.dap.resources import path
from aggregator.protocol.in_band import headers_of
from aggregator.protocol.task import Task
from aggregator.service.storage.tasks.caller_tokens import list_caller_tokens, put_caller_token
from aggregator.service.storage.tasks.tasks import count_tasks
from tests.support.entropy import SeededEntropy
from tests.support.in_band import (
    COLLECTOR_TOKEN,
    LEADER_TOKEN,
    agreed_collector,
    agreements,
    task_in_band,
)
from tests.support.pair import NOW, Answer, Pair, Service
from tests.support.tasks import LEADER_URL, NO_NOISE

SHOP, OTHER = "shop.example", "other.example"
TOKENS = {SHOP: "agreed-for-the-shop-alone", OTHER: "agreed-for-the-other-alone"}
NEW_TOKEN = "agreed-for-the-shop-later"  # noqa: S105  a test's
EXACT = {"mechanism": "None"}
NEW_KEY = generate_keypair(9, SeededEntropy(b"the shop's next key")).config


def task_of(identity: str, info: str = "") -> Task:
    return task_in_band(
        privacy={**NO_NOISE, "bound": False},
        attribution={"collector_identity": identity, "budget_source": "source.example"},
        task_info=info,
    )


TASK = task_of(SHOP)


def agree(
    service: Service,
    identities: Sequence[str] = (SHOP, OTHER),
    tokens: dict[str, str] = TOKENS,
    **more: str | int,
) -> None:
    """Let an aggregator read a file of agreements with these collectors."""
    tables = [agreed_collector(service.role, each, tokens[each], **more) for each in identities]
    service.agreements = agreements(service.role, privacy=EXACT, collectors=tables)
    service.restart()


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """A pair that has agreed on two collectors, and has no task."""
    made = Pair(tmp_path, TASK)
    for service in (made.leader, made.helper):
        agree(service)
        await service.runtime.ensure_keypair()
    yield made
    await made.close()


def tasks_at(service: Service) -> int:
    return service.database.read_sync("count", count_tasks)


async def asked(pair: Pair, task: Task, token: str, *, names_it: bool = True) -> Answer:
    """Ask the leader for a collection that there is not."""
    nowhere = CollectionJobId(bytes(CollectionJobId.size))
    named = path("collection_job", task_id=task.task_id, collection_job_id=nowhere)
    headers = headers_of(task) if names_it else {}
    return await pair.send("GET", LEADER_URL.rstrip("/") + named, token=token, headers=headers)


async def told(pair: Pair, task: Task, token: str = LEADER_TOKEN) -> Answer:
    """Send the helper a job that cannot be read."""
    url = pair.url_of("aggregation_jobs", task)
    return await pair.send("POST", url, "aggregation-job-init-req", b"", token, headers_of(task))


async def test_a_collectors_token_opens_its_own_tasks_and_no_others(pair: Pair) -> None:
    assert (await asked(pair, TASK, TOKENS[SHOP])).problem_type == "unrecognized-collection-job"
    for token in (TOKENS[OTHER], COLLECTOR_TOKEN, LEADER_TOKEN):
        assert (await asked(pair, TASK, token)).status == 401, "the task is stored"
        assert (await asked(pair, task_of(SHOP, "another"), token)).status == 401
    unnamed = task_in_band(privacy={**NO_NOISE, "bound": False})
    assert (await asked(pair, unnamed, TOKENS[SHOP])).status == 401
    assert tasks_at(pair.leader) == 1
    later = await asked(pair, TASK, TOKENS[SHOP], names_it=False)
    assert later.problem_type == "unrecognized-collection-job"


async def test_a_task_of_somebody_unregistered_is_invalid_at_each_by_itself(pair: Pair) -> None:
    stranger = task_of("stranger.example")
    answer = await asked(pair, stranger, TOKENS[SHOP])
    assert (answer.status, answer.problem_type) == (400, "invalidTask")
    assert "'stranger.example' is not in the agreement" in str(answer.problem["detail"])
    assert (await asked(pair, stranger, "of-nobody-whom-we-know-at-all")).status == 401
    refused = await told(pair, stranger)
    assert (refused.status, refused.problem_type) == (400, "invalidTask")
    agree(pair.helper, [OTHER])
    assert (await asked(pair, TASK, TOKENS[SHOP])).problem_type == "unrecognized-collection-job"
    assert (await told(pair, TASK)).problem_type == "invalidTask"
    assert (tasks_at(pair.leader), tasks_at(pair.helper)) == (1, 0)
    agree(pair.helper)
    assert (await told(pair, TASK)).problem_type == "invalidMessage"
    assert tasks_at(pair.helper) == 1


async def test_a_replaced_token_opens_tasks_that_are_stored_and_the_old_one_none(
    pair: Pair,
) -> None:
    await asked(pair, TASK, TOKENS[SHOP])
    agree(pair.leader, tokens={**TOKENS, SHOP: NEW_TOKEN})
    for names_it in (True, False):
        assert (await asked(pair, TASK, TOKENS[SHOP], names_it=names_it)).status == 401
        answer = await asked(pair, TASK, NEW_TOKEN, names_it=names_it)
        assert answer.problem_type == "unrecognized-collection-job"
    agree(pair.leader, tokens={**TOKENS, SHOP: f"{NEW_TOKEN} {TOKENS[SHOP]}"})
    for token in (NEW_TOKEN, TOKENS[SHOP]):
        assert (await asked(pair, TASK, token)).problem_type == "unrecognized-collection-job"
    assert not pair.leader.database.read_sync(
        "tokens", lambda tx: list_caller_tokens(tx, TASK.task_id.value)
    )


async def test_a_collector_that_is_taken_out_is_served_nothing_until_it_is_back(
    pair: Pair,
) -> None:
    await asked(pair, TASK, TOKENS[SHOP])
    await told(pair, TASK)
    for service in (pair.leader, pair.helper):
        agree(service, [OTHER])
    assert (await asked(pair, TASK, TOKENS[SHOP])).status == 401
    assert (await told(pair, TASK)).problem_type == "task-refused"
    body = await pair.send("POST", pair.url_of("reports", TASK), "upload-req", b"")
    assert body.problem_type == "task-refused"
    agree(pair.leader)
    assert (await asked(pair, TASK, TOKENS[SHOP])).problem_type == "unrecognized-collection-job"


async def test_results_are_sealed_to_the_key_that_the_agreement_has_now(pair: Pair) -> None:
    await asked(pair, TASK, TOKENS[SHOP])
    await told(pair, TASK)

    async def keys() -> list[HpkeConfig]:
        return [
            (await each.runtime.task(TASK.task_id)).task.collector_hpke_config
            for each in (pair.leader, pair.helper)
        ]

    assert await keys() == [TASK.collector_hpke_config] * 2
    for service in (pair.leader, pair.helper):
        agree(service, hpke_config=encode_base64url(encode(NEW_KEY)))
    assert await keys() == [NEW_KEY] * 2


async def test_a_collector_has_as_many_tasks_and_open_collections_as_was_agreed(
    pair: Pair,
) -> None:
    tasks = [task_of(SHOP, f"task {number}") for number in range(3)]
    answers = [await asked(pair, each, TOKENS[SHOP]) for each in tasks]
    assert [each.status for each in answers] == [404, 404, 429]
    assert (await asked(pair, task_of(OTHER), TOKENS[OTHER])).status == 404, "room for another"
    assert tasks_at(pair.leader) == 3
    opened = [await collection(pair, task, 1) for task in tasks[:2]]
    assert [each.status for each in opened] == [201, 201]
    full = await collection(pair, tasks[0], 2)
    assert (full.status, full.problem_type) == (429, "too-many-collections")
    assert (await collection(pair, tasks[0], 1)).status == 201, "the same job"
    assert (await collection(pair, task_of(OTHER), 1, TOKENS[OTHER])).status == 201
    await pair.work_until_idle()
    assert (await collection(pair, tasks[0], 2)).status == 201, "the others came to nothing"


async def test_strangers_fill_no_place_of_a_collector_that_is_registered(pair: Pair) -> None:
    agreed = [agreed_collector(pair.leader.role, SHOP, TOKENS[SHOP])]
    pair.leader.agreements = agreements(
        pair.leader.role, privacy=EXACT, collectors=agreed, max_tasks_by_uploads=8
    )
    pair.leader.restart()
    for number in range(3):
        made_up = task_of(SHOP, f"made up {number}")
        answer = await pair.send(
            *("POST", pair.url_of("reports", made_up), "upload-req", b""),
            headers=headers_of(made_up),
        )
        assert (answer.status, answer.problem_type) == (404, "unrecognizedTask")
    assert tasks_at(pair.leader) == 0
    assert (await asked(pair, TASK, TOKENS[SHOP])).problem_type == "unrecognized-collection-job"


async def collection(pair: Pair, task: Task, units_ago: int, token: str = TOKENS[SHOP]) -> Answer:
    """Ask for the collection of a unit of time in which there were no reports."""
    end = NOW - NOW % task.time_precision - (units_ago - 1) * task.time_precision
    asked_for = {"start": end - task.time_precision, "end": end, "min_dp_budget": 500_000}
    body = encode(collection_request(task, asked_for))
    url = pair.url_of("collection_jobs", task)
    return await pair.send("POST", url, CollectionJobReq.message, body, token)


async def test_a_token_that_an_operator_adds_to_a_task_by_hand_opens_it_too(pair: Pair) -> None:
    await asked(pair, TASK, TOKENS[SHOP])
    await pair.leader.database.run(
        "token", lambda tx: put_caller_token(tx, TASK.task_id.value, hash_token(NEW_TOKEN))
    )
    for token in (NEW_TOKEN, TOKENS[SHOP]):
        assert (await asked(pair, TASK, token)).problem_type == "unrecognized-collection-job"
