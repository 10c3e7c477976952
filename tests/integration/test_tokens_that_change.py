"""A task's tokens are replaced while the services run, and no request is lost."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import httpx
import pytest

from aggregator.dap.auth import hash_token
from aggregator.dap.messages import AggregationJobInitReq
from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import provision
from aggregator.storage.caller_tokens import (
    add_caller_token,
    end_caller_token,
    list_caller_tokens,
)
from aggregator.storage.database import Transaction
from aggregator.storage.engine import Conflict
from aggregator.storage.tasks import replace_peer_token
from tests.support.commands import Done, run_here
from tests.support.entropy import SeededEntropy
from tests.support.pair import LEADER_TOKEN, Pair
from tests.support.tasks import make_task

pytestmark = pytest.mark.anyio


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path, make_task(), job_size=5)
    await pair.provision()
    yield pair
    await pair.close()


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


def test_the_commands_replace_a_token_on_both_sides(tmp_path: Path) -> None:
    def prio(role: str, *words: str, stdin: str = "") -> Done:
        return run_here(*words, "--config", tmp_path / f"{role}.toml", stdin=stdin)

    for role in ("leader", "helper", "collector"):
        (tmp_path / f"{role}.toml").write_text(
            f'role = "{role}"\ndatabase = "{role}.sqlite"\nstore_key_file = "{role}.key"\n'
        )
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
        assert first.split()[3:] == second.split()[3:] == ["taken"]
        names = {first.split()[0], second.split()[0]}
        new = hash_token(made.stdout.strip())[:4].hex()
        (old,) = names - {new}
        assert prio(called, "task", "token", "retire", task_id, old, "--after", "0").returncode == 0
        listed = prio(called, "task", "token", "list", task_id).stdout
        assert f"{old}  made" in listed
        assert listed.count("refused since") == 1
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
