"""`prio job`: a way on from every state in which something waits."""

import json
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from aggregator.cli.service import job_helper
from aggregator.dap.ids import CollectionJobId, encode_base64url
from aggregator.service.leader.job_creator import JobCreator
from aggregator.service.storage.jobs.aggregation_jobs import AGGREGATION_JOBS
from aggregator.service.storage.operator.job_lists import find_job, list_waiting
from aggregator.service.transport import client
from tests.support.between import Between, Change, cut_short, refusal
from tests.support.commands import Done, run_here
from tests.support.pair import NOW, Pair
from tests.support.tasks import TIME_PRECISION, make_task

BOTH = ("content-type", "location")
START = NOW - NOW % TIME_PRECISION
FOR_EVER = 10**10
BATCH = f"{START}/{START + TIME_PRECISION}"


@pytest.fixture(autouse=True)
def _nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find no helper; those who test what it is told give it to them."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody is there", request=request)

    def open_client(*_: object, **__: object) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(refuse))

    monkeypatch.setattr(client, "open_client", open_client)


def job(pair: Pair, tmp_path: Path, role: str, *arguments: str | Path) -> Done:
    """Run `prio job` at an aggregator of the pair."""
    return command(pair, tmp_path, role, "job", *arguments)


def command(pair: Pair, tmp_path: Path, role: str, group: str, *arguments: str | Path) -> Done:
    """Run a command of a group at an aggregator of the pair."""
    config = tmp_path / f"{role}.toml"
    key = encode_base64url(bytes(32))
    config.write_text(
        f'service.role = "{role}"\nservice.database = "{tmp_path}/{role}.sqlite"\n'
        f'keys.store_key = "{key}"\n'
    )
    config.chmod(0o600)
    assert pair.leader.url.endswith(f"{tmp_path}/leader.sqlite")
    with ThreadPoolExecutor(1) as pool:  # a command has an event loop of its own
        return pool.submit(
            run_here, group, arguments[0], "--config", config, *arguments[1:]
        ).result()


def batch_at(pair: Pair, tmp_path: Path, role: str) -> str:
    task = f"--task={pair.task.task_id}"
    return job(pair, tmp_path, role, "list", task, "--batch", BATCH, "--json").stdout


def waiting(pair: Pair, tmp_path: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(
        job(pair, tmp_path, "leader", "list", "--json").stdout
    )["jobs"]
    return rows


async def hold(
    pair: Pair, between: Between, measurements: list[int], change: Change = cut_short
) -> None:
    """Let the leader hold a job whose reports the helper has counted."""
    await pair.upload(await pair.reports(measurements))
    between.change = change
    for _ in range(6):
        await pair.work()
        pair.clock.advance(61)
    between.change = None


async def test_every_job_that_waits_is_listed_with_its_reason(
    pair: Pair, between: Between, tmp_path: Path
) -> None:
    assert job(pair, tmp_path, "leader", "list").stderr == "nothing waits\n"
    await hold(pair, between, [0, 1, 2])
    await pair.upload(await pair.reports([3]))
    await pair.ask()
    between.gate = lambda _: refusal(401)
    for _ in range(2):
        await pair.work()
        pair.clock.advance(61)
    held, refused, collection = waiting(pair, tmp_path)
    assert (held["state"], held["next_at"], held["reports"]) == ("held", None, 3)
    assert "the helper's answer" in str(held["reason"])
    assert (refused["state"], refused["failures"], refused["reports"]) == ("sent", 2, 1)
    assert "refused with status 401" in str(refused["reason"])
    assert (held["may_be_counted"], refused["may_be_counted"]) == (True, False)
    assert collection["reason"] == "4 reports of the batch are not aggregated yet"
    shown = job(pair, tmp_path, "leader", "show", str(held["job"]))
    assert json.loads(shown.stdout) == held
    lines = job(pair, tmp_path, "leader", "list").stdout.splitlines()
    assert lines[0] == f"aggregation {held['job']}, task {pair.task.task_id}"
    assert lines[1].startswith("  held, 3 reports, made ")
    assert lines[1].endswith(" ago, tried 5 times")
    assert lines[3] == "  goes on by `prio job retry` or `prio job abandon`"
    assert lines[6] == f"  why: {refused['reason']}"


async def test_a_job_that_a_worker_is_at_does_not_wait_for_one(pair: Pair, tmp_path: Path) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await JobCreator(pair.leader.runtime, job_size=10, linger_seconds=0).run_once()
    whys = []
    for seconds in (0, FOR_EVER):
        pair.leader.database.run_sync(
            "lease", lambda tx, held=seconds: AGGREGATION_JOBS.lease(tx, 1, held)
        )
        shown = job(pair, tmp_path, "leader", "list").stdout.splitlines()
        whys.append(shown[2])
    assert whys == ["  why: no worker has come to it yet", "  why: a worker is at it"]


async def test_reports_that_are_too_early_are_listed(pair: Pair) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    pair.clock.advance(-1000)
    await pair.work()
    (only,) = pair.leader.database.read_sync("list jobs", lambda tx: list_waiting(tx, None))
    assert (only.kind, only.state, only.reports) == ("reports", "too_early", 3)
    assert only.next_at == pair.clock.now() + 60


async def test_a_held_job_goes_on_at_once_when_it_is_retried(
    pair: Pair, between: Between, tmp_path: Path
) -> None:
    await hold(pair, between, [0, 1, 2])
    (held,) = waiting(pair, tmp_path)
    assert job(pair, tmp_path, "leader", "retry", str(held["job"])).returncode == 0
    assert (await pair.collect()).report_count == 3


async def test_a_job_that_waits_for_its_next_try_is_retried_at_once(
    pair: Pair, between: Between, tmp_path: Path
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    between.gate = lambda _: refusal(401)
    await pair.work()
    between.gate = None
    assert await pair.work() == 0
    (only,) = waiting(pair, tmp_path)
    assert job(pair, tmp_path, "leader", "retry", str(only["job"])).returncode == 0
    assert await pair.work() == 1
    assert pair.leader.counts(pair.task) == {"aggregated": 3}


@pytest.mark.parametrize("choice", ["--return-reports", "--drop-reports"])
async def test_reports_of_an_abandoned_job_are_returned_or_dropped(
    pair: Pair, between: Between, tmp_path: Path, choice: str
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    between.gate = lambda _: refusal(401)
    await pair.work()
    between.gate = None
    (only,) = waiting(pair, tmp_path)
    assert job(pair, tmp_path, "leader", "abandon", str(only["job"])).returncode == 2
    done = job(pair, tmp_path, "leader", "abandon", str(only["job"]), choice)
    again = job(pair, tmp_path, "leader", "abandon", str(only["job"]), choice)
    assert (again.returncode, "has ended: it is abandoned" in again.stderr) == (2, True)
    await pair.work_until_idle()
    if choice == "--return-reports":
        assert done.stdout == "3 reports will be counted in another job\n"
        assert pair.leader.counts(pair.task) == {"aggregated": 3}
    else:
        assert pair.leader.counts(pair.task) == {"dropped_by_operator": 3}


@pytest.mark.parametrize(
    ("kept", "answered", "told"),
    [
        (BOTH, None, "the helper has deleted the job"),
        (BOTH, refusal(404), "the helper no longer had the job"),
        (BOTH, httpx.Response(500), "the helper was not told: the helper https://helper.example"),
        (BOTH[:1], None, "the helper was not told: it has not said where it keeps the job"),
    ],
)
async def test_the_helper_is_asked_to_delete_a_job_that_was_given_up(
    pair: Pair,
    between: Between,
    tmp_path: Path,
    kept: Sequence[str],
    answered: httpx.Response | None,
    told: str,
) -> None:
    def change(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        cut = cut_short(request, answer)
        headers = {name: cut.headers[name] for name in kept}
        return httpx.Response(201, content=cut.content, headers=headers)

    await hold(pair, between, [0, 1, 2], change)
    (held,) = waiting(pair, tmp_path)
    key = bytes.fromhex(str(held["job"]))
    found = pair.leader.database.read_sync("find job", lambda tx: find_job(tx, key))
    assert found is not None
    between.requests.clear()
    between.gate = lambda _: answered
    if found.location is None:
        done = job(pair, tmp_path, "leader", "abandon", str(held["job"]), "--drop-reports")
        assert done.stdout.splitlines()[1:] == [told]
        assert between.requests == []
        return
    said = await job_helper.delete_at_helper(
        pair.leader.database, pair.http, found.task_id, found.location
    )
    assert said.startswith(told)
    (request,) = between.requests
    assert (request.method, str(request.url)) == ("DELETE", found.location)
    at_helper = job(
        pair, tmp_path, "helper", "list", f"--task={pair.task.task_id}", "--batch", BATCH
    )
    assert "3 reports, counted" in at_helper.stdout


async def test_a_job_whose_place_at_the_helper_is_known_goes_on_from_there(
    pair: Pair, between: Between, tmp_path: Path
) -> None:
    await hold(pair, between, [0, 1, 2])
    (held,) = waiting(pair, tmp_path)
    between.requests.clear()
    job(pair, tmp_path, "leader", "retry", str(held["job"]))
    assert (await pair.collect()).report_count == 3
    assert between.requests[0].method == "GET"
    assert between.posts == []


async def test_a_batch_on_which_the_aggregators_disagree_is_collected_without_what_differs(
    pair: Pair, between: Between, tmp_path: Path
) -> None:
    """The helper has counted a job that the leader's operator dropped."""
    await hold(pair, between, [0, 0, 0])
    (held,) = waiting(pair, tmp_path)
    done = job(pair, tmp_path, "leader", "abandon", str(held["job"]), "--drop-reports")
    assert done.stdout.startswith(
        "3 reports dropped (dropped_by_operator)\nthe helper was not told"
    )
    await pair.upload(await pair.reports([1, 2, 2, 3]))
    asked = await pair.ask()
    await pair.work_until_idle()
    assert (await pair.poll(asked.headers["location"])).problem_type == "batchMismatch"

    theirs = tmp_path / "theirs.json"
    theirs.write_text(batch_at(pair, tmp_path, "helper"))
    compared = job(pair, tmp_path, "leader", "compare", theirs)
    assert compared.returncode == 1
    digest = held["request_sha256"]
    assert compared.stdout.startswith(f"{digest}: not counted here, 3 reports there\n")
    command = compared.stdout.splitlines()[-1].split()
    assert command[:3] == ["prio", "job", "leave-out"]
    at_leader = job(pair, tmp_path, "leader", *command[2:])
    at_helper = job(pair, tmp_path, "helper", *command[2:])
    assert at_leader.stdout == f"{digest}: not counted here\n"
    assert at_helper.stdout == f"{digest}: 3 reports left out\n"

    theirs.write_text(batch_at(pair, tmp_path, "helper"))
    assert job(pair, tmp_path, "leader", "compare", theirs).returncode == 0
    result = await pair.collect()
    assert (result.report_count, result.values) == (4, (0, 1, 2, 1))


@pytest.fixture
async def selecting(tmp_path: Path) -> AsyncIterator[Pair]:
    """A pair whose leader selects the batches, of three reports each."""
    async with Pair(tmp_path, make_task(batch_mode="leader_selected", min_batch_size=3)) as made:
        yield made


async def test_a_selected_batch_is_collected_after_what_differs_was_left_out(
    selecting: Pair, tmp_path: Path
) -> None:
    pair, between = selecting, Between(selecting)
    await hold(pair, between, [0, 0, 0])
    (held,) = waiting(pair, tmp_path)
    job(pair, tmp_path, "leader", "abandon", str(held["job"]), "--drop-reports")
    await pair.upload(await pair.reports([1, 2, 3]))
    asked = await pair.ask()
    await pair.work_until_idle()
    location = asked.headers["location"]
    assert (await pair.poll(location)).problem_type == "batchMismatch"
    failed = CollectionJobId.parse(location.rpartition("/")[2]).value.hex()
    batch = json.loads(job(pair, tmp_path, "leader", "show", failed).stdout)["batch"]
    task = f"--task={pair.task.task_id}"
    theirs = tmp_path / "theirs.json"
    listed = job(pair, tmp_path, "helper", "list", task, "--batch", batch, "--json")
    theirs.write_text(listed.stdout)
    command = job(pair, tmp_path, "leader", "compare", theirs).stdout.splitlines()[-1].split()
    for role in ("leader", "helper"):
        assert job(pair, tmp_path, role, *command[2:]).returncode == 0
    result = await pair.collect()
    assert (result.report_count, result.values) == (3, (0, 1, 1, 1))
    await between.close()


async def test_a_selected_batch_that_an_operator_opens_again_is_collected(
    selecting: Pair, tmp_path: Path
) -> None:
    pair, between = selecting, Between(selecting)
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.work_until_idle()
    await pair.ask()
    between.gate = lambda _: refusal(401)
    await pair.work()
    between.gate = None
    (only,) = waiting(pair, tmp_path)
    job(pair, tmp_path, "leader", "abandon", str(only["job"]), "--return-reports")
    assert (await pair.collect()).report_count == 3
    await between.close()


async def test_the_command_that_leaves_jobs_out_holds_no_words_of_the_other_aggregator(
    pair: Pair, tmp_path: Path
) -> None:
    """It is printed to be run in a shell."""
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.work_until_idle()
    document = json.loads(batch_at(pair, tmp_path, "helper"))
    document["jobs"][0]["report_count"] = 2
    document |= {"start": "0;id", "end": "$(id)"}
    theirs = tmp_path / "theirs.json"
    theirs.write_text(json.dumps(document))
    compared = job(pair, tmp_path, "leader", "compare", theirs)
    assert compared.returncode == 1
    assert f"--batch {BATCH} {document['jobs'][0]['job']}\n" in compared.stdout
    for name in ("$(id)", "\x1b[31m", "00" * 33, "0" * 63 + "\n", None):
        document["jobs"][0]["job"] = name
        theirs.write_text(json.dumps(document))
        refused = job(pair, tmp_path, "leader", "compare", theirs)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "not named by a SHA-256" in refused.stderr


async def test_a_job_of_several_buckets_is_left_out_of_one_batch_only(
    pair: Pair, tmp_path: Path
) -> None:
    await pair.upload([*await pair.reports([0, 1]), *await pair.reports([2], NOW - 200)])
    await pair.upload(await pair.reports([3]))
    await pair.work_until_idle()
    (counted,) = json.loads(batch_at(pair, tmp_path, "leader"))["jobs"]
    assert counted["report_count"] == 3
    task = f"--task={pair.task.task_id}"
    for role in ("leader", "helper"):
        done = job(pair, tmp_path, role, "leave-out", task, "--batch", BATCH, counted["job"])
        assert done.stdout == f"{counted['job']}: 3 reports left out\n"
    earlier = await pair.collect(pair.interval(NOW - 200))
    assert (earlier.report_count, earlier.values) == (1, (0, 0, 1, 0))
    assert pair.leader.counts(pair.task) == {"aggregated": 1, "left_out_by_operator": 3}


async def test_what_the_helper_left_out_is_not_counted_from_its_old_answer(
    pair: Pair, between: Between, tmp_path: Path
) -> None:
    await hold(pair, between, [0, 0, 0])
    (held,) = waiting(pair, tmp_path)
    task, digest = f"--task={pair.task.task_id}", str(held["request_sha256"])
    job(pair, tmp_path, "helper", "leave-out", task, "--batch", BATCH, digest)
    job(pair, tmp_path, "leader", "retry", str(held["job"]))
    await pair.upload(await pair.reports([1, 2]))
    assert (await pair.collect()).values == (0, 1, 1, 0)
    assert pair.leader.counts(pair.task) == {"aggregated": 2, "report_replayed": 3}


async def test_the_leader_leaves_out_a_job_that_it_holds(
    pair: Pair, between: Between, tmp_path: Path
) -> None:
    await hold(pair, between, [0, 0, 0])
    (held,) = waiting(pair, tmp_path)
    task, digest = f"--task={pair.task.task_id}", str(held["request_sha256"])
    other_batch = f"{START - TIME_PRECISION}/{START}"
    for role in ("leader", "helper"):
        nothing = job(pair, tmp_path, role, "leave-out", task, "--batch", other_batch, digest)
        assert nothing.stdout == f"{digest}: not counted here\n"
        done = job(pair, tmp_path, role, "leave-out", task, "--batch", BATCH, digest)
        assert done.stdout == f"{digest}: 3 reports left out\n"
    await pair.upload(await pair.reports([1, 2]))
    assert (await pair.collect()).values == (0, 1, 1, 0)


async def test_nothing_is_left_out_of_a_collected_batch(pair: Pair, tmp_path: Path) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.work_until_idle()
    (counted,) = json.loads(batch_at(pair, tmp_path, "helper"))["jobs"]
    await pair.collect()
    assert json.loads(batch_at(pair, tmp_path, "helper"))["jobs"] == []
    task = f"--task={pair.task.task_id}"
    done = job(pair, tmp_path, "helper", "leave-out", task, "--batch", BATCH, counted["job"])
    assert (done.returncode, done.stderr) == (1, "prio: the batch is collected\n")


@pytest.mark.parametrize("choice", ["--return-reports", "--drop-reports"])
async def test_a_collection_is_given_up_and_its_batch_opens_or_stays_closed(
    pair: Pair, between: Between, tmp_path: Path, choice: str
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.work_until_idle()
    asked = await pair.ask()
    between.gate = lambda _: refusal(401)
    await pair.work()
    between.gate = None
    (only,) = waiting(pair, tmp_path)
    assert (only["kind"], only["state"]) == ("collection", "frozen")
    job(pair, tmp_path, "leader", "abandon", str(only["job"]), choice)
    failed = await pair.poll(asked.headers["location"])
    assert failed.problem["detail"] == "the leader's operator gave the collection up"
    if choice == "--return-reports":
        assert (await pair.collect()).report_count == 3
    else:
        assert (await pair.ask()).problem_type == "batchOverlap"


async def test_a_leader_whose_helper_is_gone_for_ever_gets_on(
    pair: Pair, between: Between, tmp_path: Path
) -> None:
    """As docs/operations/lost-partner.md says it."""
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.work_until_idle()
    asked = await pair.ask()
    between.gate = lambda _: httpx.Response(503)
    later = NOW + TIME_PRECISION
    pair.clock.advance(TIME_PRECISION)
    await pair.upload(await pair.reports([3, 3], later))
    await pair.work()
    (frozen,) = (each for each in waiting(pair, tmp_path) if each["state"] == "frozen")
    assert len(waiting(pair, tmp_path)) == 2
    task = str(pair.task.task_id)
    assert command(pair, tmp_path, "leader", "task", "end", task).returncode == 0
    refused = command(pair, tmp_path, "leader", "task", "forget", task)
    assert (refused.returncode, str(frozen["job"]) in refused.stderr) == (2, True)
    job(pair, tmp_path, "leader", "abandon", str(frozen["job"]), "--drop-reports")
    failed = await pair.poll(asked.headers["location"])
    assert failed.problem["detail"] == "the leader's operator gave the collection up"
    assert command(pair, tmp_path, "leader", "task", "forget", task).returncode == 0
    assert waiting(pair, tmp_path) == []


async def test_a_collection_is_retried_at_once(
    pair: Pair, between: Between, tmp_path: Path
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.work_until_idle()
    asked = await pair.ask()
    between.gate = lambda _: refusal(401)
    await pair.work()
    between.gate = None
    (only,) = waiting(pair, tmp_path)
    assert job(pair, tmp_path, "leader", "retry", str(only["job"])).returncode == 0
    await pair.work()
    assert (await pair.poll(asked.headers["location"])).body


async def test_nothing_waits_at_a_helper_whose_answers_are_shown(
    pair: Pair, tmp_path: Path
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.work_until_idle()
    (counted,) = json.loads(batch_at(pair, tmp_path, "helper"))["jobs"]
    assert job(pair, tmp_path, "helper", "list").stderr == "nothing waits\n"
    task = f"--task={pair.task.task_id}"
    listed = job(pair, tmp_path, "helper", "list", task, "--batch", BATCH).stdout
    assert listed.startswith(f"{counted['job']}: 3 reports, counted 20")
    shown = json.loads(job(pair, tmp_path, "helper", "show", counted["job"]).stdout)
    assert (shown["state"], shown["request_sha256"]) == ("live", counted["job"])
    for verb in (["retry"], ["abandon", "--drop-reports"]):
        done = job(pair, tmp_path, "helper", *verb, shown["job"])
        assert (done.returncode, "nothing waits at a helper" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["show", "xyz"], "is no job's id"),
        (["show", "00" * 16], "this party has no job"),
        (["list", "--batch", BATCH], "task: missing"),
        (["compare", "theirs.json"], "not what `prio job list"),
    ],
)
async def test_bad_input_is_named(
    pair: Pair, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    (tmp_path / "theirs.json").write_text('{"version": 1, "jobs": 3}')
    paths = [tmp_path / each if each.endswith(".json") else each for each in arguments]
    done = job(pair, tmp_path, "leader", *paths)
    assert (done.returncode, reason in done.stderr) == (2, True), done.stderr


async def test_a_list_is_not_compared_with_itself(pair: Pair, tmp_path: Path) -> None:
    own = tmp_path / "own.json"
    own.write_text(batch_at(pair, tmp_path, "leader"))
    done = job(pair, tmp_path, "leader", "compare", own)
    assert (done.returncode, "the other aggregator's" in done.stderr) == (2, True)


async def test_a_collection_that_has_no_batch_yet_is_listed_and_abandoned(tmp_path: Path) -> None:
    pair = Pair(tmp_path, make_task(batch_mode="leader_selected"))
    await pair.provision()
    await pair.ask()
    await pair.work()
    (collection,) = waiting(pair, tmp_path)
    assert collection["reason"] == "no batch that was not collected before is full"
    done = job(pair, tmp_path, "leader", "abandon", str(collection["job"]), "--drop-reports")
    assert done.returncode == 0
    assert waiting(pair, tmp_path) == []
    await pair.close()
