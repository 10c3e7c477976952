"""A task's tokens are replaced while the services run, and no request is lost."""

import json
from collections import Counter
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx
import pytest
from structlog.testing import capture_logs

from aggregator.collector import store
from aggregator.collector.api_tokens import TokenFile
from aggregator.collector.driver import RETRY_SECONDS, Driver
from aggregator.collector.requests import new_collection
from aggregator.collector.results.result import collection_request
from aggregator.collector.status import read_collector_health
from aggregator.dap import problems
from aggregator.dap.auth import bearer_header, hash_token
from aggregator.dap.messages import AggregationJobInitReq
from aggregator.dap.problems import (
    BatchOverlap,
    BudgetExceeded,
    CollectionFailed,
    UnrecognizedCollectionJob,
    UnrecognizedTask,
    abort_from_problem,
)
from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import provision
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.secrets.crypter import Crypter
from aggregator.service.storage.tasks.caller_tokens import (
    add_caller_token,
    end_caller_token,
    list_caller_tokens,
)
from aggregator.service.storage.tasks.tasks import replace_peer_token
from aggregator.service.transport.interpretation import PeerRefused
from tests.support.collector_service import CollectorService
from tests.support.commands import Done, run_here, service_text
from tests.support.empty_store import upgraded
from tests.support.entropy import SeededEntropy
from tests.support.pair import COLLECTOR_TOKEN, LEADER_TOKEN, NOW, Pair, pair_of
from tests.support.tasks import TIME_PRECISION, collector_keypair, make_task

pair = pair_of(job_size=5)


async def status_with(pair: Pair, token: str) -> int:
    url, message = pair.url_of("aggregation_jobs"), AggregationJobInitReq.message
    return (await pair.send("POST", url, message, b"", token)).status


async def test_a_retired_token_is_taken_until_its_end_and_the_new_one_at_once(pair: Pair) -> None:
    task_id, database = pair.task.task_id.value, pair.helper.database
    database.run_sync("new", lambda tx: add_caller_token(tx, task_id, hash_token("new")))
    assert [await status_with(pair, token) for token in (LEADER_TOKEN, "new")] == [400, 400]
    old = hash_token(LEADER_TOKEN)
    database.run_sync("retire", lambda tx: end_caller_token(tx, task_id, old, 60))
    assert [await status_with(pair, token) for token in (LEADER_TOKEN, "new")] == [400, 400]
    pair.clock.advance(60)
    assert [await status_with(pair, token) for token in (LEADER_TOKEN, "new")] == [401, 400]
    with pytest.raises(Conflict, match="no other token"):
        database.run_sync("retire", lambda tx: end_caller_token(tx, task_id, hash_token("new"), 0))
    tokens = database.read_sync("list", lambda tx: list_caller_tokens(tx, task_id))
    assert {token.expires_at for token in tokens} == {pair.clock.now(), None}


async def test_under_load_the_leaders_token_changes_without_a_refused_request(pair: Pair) -> None:
    answers: Counter[int] = Counter()

    async def count(response: httpx.Response) -> None:
        if "aggregation_jobs" in str(response.request.url):
            answers[response.status_code] += 1

    pair.http.event_hooks["response"].append(count)
    task_id, changes, batches = pair.task.task_id.value, 6, 12
    done = anyio.Event()

    async def upload() -> None:
        for _ in range(batches):
            await pair.upload(await pair.reports([0, 1, 1, 2, 3]))
        done.set()

    async def work() -> None:
        while not done.is_set():
            await pair.work()
            await anyio.lowlevel.checkpoint()

    async def change() -> None:
        old = hash_token(LEADER_TOKEN)
        for number in range(changes):
            token = f"token-{number}"
            new = hash_token(token)
            await pair.helper.database.run(
                "new", lambda tx, new=new: add_caller_token(tx, task_id, new)
            )
            await pair.leader.database.run(
                "use", lambda tx, token=token: replace_peer_token(tx, task_id, token)
            )
            await pair.helper.database.run(
                "retire", lambda tx, old=old: end_caller_token(tx, task_id, old, 300)
            )
            old = new

    async with anyio.create_task_group() as group:
        for job in (upload, work, change):
            group.start_soon(job)
    assert (await pair.collect()).values == tuple(n * batches for n in (1, 2, 1, 1))
    assert set(answers) == {201}
    pair.clock.advance(300)
    assert await status_with(pair, LEADER_TOKEN) == 401


async def test_a_token_retired_at_once_makes_jobs_wait_and_loses_none(pair: Pair) -> None:
    task_id = pair.task.task_id.value
    await pair.upload(await pair.reports([0, 1, 2]))

    def steal(tx: Transaction) -> None:
        add_caller_token(tx, task_id, hash_token("new"))
        end_caller_token(tx, task_id, hash_token(LEADER_TOKEN), 0)

    await pair.helper.database.run("stolen", steal)
    for _ in range(8):
        await pair.work()
        pair.clock.advance(61)
    await pair.leader.database.run("use", lambda tx: replace_peer_token(tx, task_id, "new"))
    assert (await pair.collect()).values == (1, 1, 1, 0)


async def test_a_collection_waits_for_a_token_that_the_leader_knows(
    pair: Pair, tmp_path: Path
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    url, task_id = f"sqlite:///{tmp_path / 'collector.sqlite'}", pair.task.task_id.value
    upgraded(url)
    database = Database.open(url, Crypter([bytes(32)]), pair.clock)
    record = store.CollectorTask(task_id, task_to_toml(pair.task), "wrong")
    start = NOW - NOW % TIME_PRECISION
    asked = collection_request(pair.task, {"start": start, "end": start + TIME_PRECISION})
    new = new_collection(pair.task, asked, SeededEntropy(b"collector"))
    database.run_sync("put task", lambda tx: store.put_collector_task(tx, record))
    database.run_sync("put collection", lambda tx: store.put_collection(tx, new))
    driver = Driver(database, collector_keypair(), pair.http)

    def stored() -> store.StoredCollection:
        found = database.read_sync("get", lambda tx: store.get_collection(tx, new.collection_id))
        assert found is not None
        return found

    assert await driver.ask(new.collection_id) == RETRY_SECONDS
    assert (stored().state, stored().ended_at) == (CollectionState.PENDING, None)
    why = "refused with status 401: The request carries no valid token"
    assert str(stored().reason).startswith(why)
    health = database.read_sync("health", read_collector_health)
    (waiting,) = health.document["waiting_collections"]  # type: ignore[misc]  # a list
    assert waiting["reason"] == stored().reason
    database.run_sync("use", lambda tx: store.replace_token(tx, task_id, COLLECTOR_TOKEN))
    assert await driver.ask(new.collection_id) is not None
    assert stored().reason is None
    await pair.work_until_idle()
    assert await driver.ask(new.collection_id) is None
    assert stored().state is CollectionState.FINISHED
    database.close()


@pytest.mark.parametrize(
    ("status", "kind", "is_final"),
    [
        (403, "about:blank", False),
        (404, "about:blank", False),
        (404, UnrecognizedTask.type_uri, False),
        (400, BatchOverlap.type_uri, True),
        (403, BudgetExceeded.type_uri, True),
        (400, CollectionFailed.type_uri, True),
        (404, UnrecognizedCollectionJob.type_uri, True),
    ],
)
def test_only_a_decision_is_final(status: int, kind: str, *, is_final: bool) -> None:
    error = PeerRefused(abort_from_problem({"type": kind}), status)
    assert problems.is_final(error.problem) == is_final


async def test_the_collector_services_token_changes_while_it_runs(tmp_path: Path) -> None:
    path, old, new = tmp_path / "token", "old" * 8, "new" * 8

    def write(text: str) -> None:
        path.write_text(text)
        path.chmod(0o600)

    write(f"{old}\n")
    tokens = TokenFile(path)
    service = CollectorService(tmp_path, token_hashes=tokens.hashes)
    async with service.client() as api:

        async def statuses() -> list[int]:
            shown = [{"authorization": bearer_header(each)} for each in (old, new)]
            asked = [await api.get("/api/tasks", headers=headers) for headers in shown]
            return [answer.status_code for answer in asked]

        assert await statuses() == [200, 401]
        write(f"{old}\n{new}\n")
        assert await statuses() == [200, 200]
        write(f"{new}\n")
        assert await statuses() == [401, 200]
        with capture_logs() as logs:
            write("")
            assert await statuses() == [401, 200]
            write(f"{new}\na\n")  # which anybody would guess
            assert await statuses() == [401, 200]
            path.unlink()
            assert await statuses() == [401, 200]
        reasons = [line["reason"] for line in logs if line["log_level"] == "error"]
        nothing, guessed, gone = reasons
        assert nothing == gone == f"{path}: holds no token"
        assert guessed.startswith(f"{path}: holds a token of fewer than 22 characters")
    service.database.close()


def test_the_commands_replace_a_token_on_both_sides(tmp_path: Path) -> None:
    def prio(role: str, *words: str, stdin: str = "") -> Done:
        return run_here(*words, "--config", tmp_path / f"{role}.toml", stdin=stdin)

    for role in ("leader", "helper", "collector"):
        (tmp_path / f"{role}.toml").write_text(service_text(role))
    config = prio("collector", "collector", "config").stdout.strip()
    task = make_task(collector_hpke_config=config)
    files = provision(task, SeededEntropy(b"secrets"))
    for role in (Role.LEADER, Role.HELPER, Role.COLLECTOR):
        added = prio(role.name.lower(), "task", "add", "-", stdin=files[role])
        assert added.returncode == 0, added.stderr
    task_id = str(task.task_id)
    for called, caller in (("helper", "leader"), ("leader", "collector")):
        made = prio(called, "task", "token", "new", task_id)
        assert len(made.stdout.strip()) == 43
        assert prio(caller, "task", "token", "use", task_id, stdin=made.stdout).returncode == 0
        first, second = prio(called, "task", "token", "list", task_id).stdout.splitlines()
        assert first.split()[3:] == second.split()[3:] == ["accepted"]
        names = {first.split()[0], second.split()[0]}
        new = hash_token(made.stdout.strip())[:4].hex()
        (old,) = names - {new}
        assert prio(called, "task", "token", "retire", task_id, old, "--after", "0").returncode == 0
        listed = prio(called, "task", "token", "list", task_id).stdout
        assert f"{old}  made" in listed
        assert listed.count("refused since") == 1
        document = json.loads(prio(called, "task", "token", "list", task_id, "--json").stdout)
        assert document["version"] == 1
        states = {each["name"]: (each["valid"], each["expires_at"]) for each in document["tokens"]}
        assert states[new] == (True, None)
        assert states[old][0] is False
        assert states[old][1] >= document["tokens"][0]["created_at"]
        last = prio(called, "task", "token", "retire", task_id, new)
        assert last.returncode == 2
        assert "no other token" in last.stderr
    again = prio("helper", "task", "add", "-", stdin=files[Role.HELPER])
    assert again.returncode == 0  # the retired token is known, and stays retired
    assert prio("helper", "task", "token", "list", task_id).stdout.count("refused since") == 1
    shown = prio("leader", "task", "add", "-", stdin=files[Role.LEADER])
    assert shown.returncode == 2
    assert "another token to show" in shown.stderr
    refused = prio("helper", "task", "token", "use", task_id, stdin="x")
    assert (refused.returncode, "calls nobody" in refused.stderr) == (2, True)
    assert prio("leader", "task", "token", "use", task_id, stdin="two words").returncode == 2
    unknown = prio("helper", "task", "token", "new", "A" * 43)
    assert "no task " + "A" * 43 in unknown.stderr
