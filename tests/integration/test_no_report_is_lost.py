"""No accepted report is lost by what the helper answers: it is counted later, or waits."""

from collections.abc import Callable

import httpx
import pytest
from sqlalchemy import select, update
from structlog.testing import capture_logs

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import OWN_NAMESPACE
from aggregator.dap.profile import ERROR_NAMESPACE, Role
from aggregator.protocol.reports import report_sizes
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task_file import task_to_toml
from aggregator.service.runtime.status import read_aggregator_health
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.operator.interventions import (
    abandon_aggregation_job,
    retry_aggregation_job,
)
from aggregator.service.storage.reports.giving_up import give_up_unreadable
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.reports import put_reports
from aggregator.service.storage.tasks.tasks import TaskRecord, put_task
from tests.support.balance import check_books
from tests.support.between import Between, refusal
from tests.support.clock import ManualClock
from tests.support.pair import LEADER_TOKEN, NOW, VERIFY_KEY, Pair
from tests.support.tasks import make_task

PATIENCE = 7
ID_SIZE = 16


async def work_for_long(pair: Pair, rounds: int = PATIENCE, seconds: int = 61) -> None:
    """Let the workers work while nothing may get better, with some seconds between rounds."""
    for _ in range(rounds):
        await pair.work()
        pair.clock.advance(seconds)


async def jobs(pair: Pair) -> list[tuple[str, bytes, str | None, bytes | None]]:
    """Return state, id, reason and request of the leader's aggregation jobs."""
    job = tables.aggregation_jobs.c

    def read(tx: Transaction) -> list[tuple[str, bytes, str | None, bytes | None]]:
        rows = tx.connection.execute(tables.aggregation_jobs.select().order_by(job.id)).all()
        return [(row.state, row.job_id, row.reason, row.request) for row in rows]

    return await pair.leader.database.read("jobs", read)


@pytest.mark.slow
async def test_a_wrong_setting_at_the_helper_loses_no_report(pair: Pair) -> None:
    """As when `min_batch_size` is too high there for a while."""
    await pair.upload(await pair.reports([0, 1, 2, 3] * 250))
    pair.helper.requirements = Requirements(min_batch_size=100)
    pair.helper.restart()
    await work_for_long(pair)
    assert pair.leader.counts(pair.task) == {}
    assert all("does not take part in the task" in str(job[2]) for job in await jobs(pair))
    pair.helper.requirements = Requirements()
    pair.helper.restart()
    assert (await pair.collect()).report_count == 1000


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ERROR_NAMESPACE + "invalidMessage"),
        (401, OWN_NAMESPACE + "unauthorized"),
        (404, ERROR_NAMESPACE + "unrecognizedTask"),
        (403, "about:blank"),
        (307, "about:blank"),
    ],
)
async def test_a_refusal_is_waited_out(
    pair: Pair, between: Between, status: int, kind: str
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    between.gate = lambda _: refusal(status, kind)
    await work_for_long(pair)
    assert pair.leader.counts(pair.task) == {}
    assert str(status) in str((await jobs(pair))[0][2])
    between.gate = None
    assert (await pair.collect()).report_count == 3


async def test_what_the_helper_has_surely_not_processed_is_asked_anew(
    pair: Pair, between: Between
) -> None:
    """So a request that was made under a wrong setting of ours does not stay wrong."""
    await pair.upload(await pair.reports([0, 1, 2]))
    between.gate = lambda _: refusal(400, ERROR_NAMESPACE + "invalidMessage")
    await work_for_long(pair, rounds=5)
    ((state, _, _, request),) = await jobs(pair)
    assert (state, request) == ("created", None)
    between.gate = None
    assert (await pair.collect()).report_count == 3


async def test_a_job_too_large_for_the_helper_is_split_until_it_fits(
    pair: Pair, between: Between
) -> None:
    await pair.upload(await pair.reports([0, 1, 2, 3, 0, 1, 2]))

    def at_most_a_third(request: httpx.Request) -> httpx.Response | None:
        return refusal(413) if len(request.content) > len(between.posts[0]) // 3 else None

    between.gate = at_most_a_third
    assert (await pair.collect()).report_count == 7
    assert pair.leader.counts(pair.task) == {"aggregated": 7}


async def test_a_job_that_is_too_large_is_split_after_an_outage_too(
    pair: Pair, between: Between
) -> None:
    """What never reached the helper has surely not been processed."""
    await pair.upload(await pair.reports([0, 1, 2, 3]))

    def nobody(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody there")

    between.gate = nobody
    await work_for_long(pair, rounds=3)
    whole = len(between.posts[0])
    between.gate = lambda request: refusal(413) if len(request.content) == whole else None
    assert (await pair.collect()).report_count == 4


async def test_a_job_is_split_that_is_too_large_each_time_though_a_connection_broke_before(
    pair: Pair, between: Between
) -> None:
    """A server that refuses without reading may break the connection, and its answer is lost."""
    await pair.upload(await pair.reports([0, 1, 2, 3]))

    def breaks(_request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("the connection broke")

    between.gate = breaks
    await pair.work()
    pair.clock.advance(61)
    whole = len(between.posts[0])
    between.gate = lambda request: refusal(413) if len(request.content) >= whole else None
    assert (await pair.collect()).report_count == 4
    assert pair.leader.counts(pair.task) == {"aggregated": 4}


async def test_jobs_are_no_larger_than_the_helper_has_shown_that_it_takes(
    pair: Pair, between: Between
) -> None:
    pair.job_size = 8
    await pair.upload(await pair.reports([0] * 8))
    most = report_sizes(pair.task).job_of(5, enc=32)
    between.gate = lambda request: refusal(413) if len(request.content) > most else None
    await pair.work_until_idle()
    refused = len(between.posts)
    await pair.upload(await pair.reports([1] * 8))
    await pair.work_until_idle()
    assert all(len(body) <= most for body in between.posts[refused:])
    assert (await pair.collect()).values == (8, 8, 0, 0)


async def test_a_single_report_too_large_for_the_helper_waits(pair: Pair, between: Between) -> None:
    await pair.upload(await pair.reports([0]))
    between.gate = lambda _: refusal(413)
    await work_for_long(pair)
    assert pair.leader.counts(pair.task) == {}
    assert len(await jobs(pair)) == 1
    between.gate = None
    assert (await pair.collect()).report_count == 1


async def test_after_a_lost_answer_only_the_same_bytes_follow(pair: Pair, between: Between) -> None:
    """The helper has counted the reports: in another request it would take them for replays."""
    await pair.upload(await pair.reports([0, 1, 2]))

    def lose(_request: httpx.Request, _answer: httpx.Response) -> httpx.Response:
        raise httpx.ReadError("the connection broke")

    between.change = lose
    await pair.work()
    pair.clock.advance(61)
    assert pair.helper.counts(pair.task) == {"aggregated": 3}
    between.gate = lambda _: refusal(400)
    await work_for_long(pair)
    between.gate = between.change = None
    assert (await pair.collect()).report_count == 3
    assert len(set(between.posts)) == 1


async def test_reports_that_are_early_for_the_helpers_clock_are_counted_later(
    pair: Pair, between: Between
) -> None:
    """All of a job, so that the next job is the same request, which needs a new answer."""
    pair.helper.clock = ManualClock(NOW - 400)
    pair.helper.restart()
    await pair.upload(await pair.reports([0, 1, 2], NOW + 60))
    for _ in range(3):
        await pair.work()
        pair.clock.advance(61)
    assert pair.leader.counts(pair.task) == {}
    assert pair.helper.counts(pair.task)["report_too_early"] >= 6
    assert len(set(between.posts)) == 1
    pair.helper.clock.advance(1000)
    assert (await pair.collect(pair.interval(NOW + 60))).report_count == 3
    assert pair.leader.counts(pair.task) == {"aggregated": 3}


async def test_a_report_that_is_early_does_not_hold_up_the_others(pair: Pair) -> None:
    pair.helper.clock = ManualClock(NOW - 400)
    pair.helper.restart()
    early = await pair.reports([0, 1], NOW + 60)
    await pair.upload([*early, *await pair.reports([2, 3], NOW - 200)])
    assert (await pair.collect(pair.interval(NOW - 200))).report_count == 2
    pair.helper.clock.advance(1000)
    assert (await pair.collect(pair.interval(NOW + 60))).report_count == 2


@pytest.mark.parametrize("status", [400, 404])
async def test_a_job_that_the_helper_lost_is_sent_again(
    pair: Pair, between: Between, status: int
) -> None:
    """It deferred its answer, restarted, and knows nothing of the job."""
    await pair.upload(await pair.reports([0, 1, 2]))
    location = "/tasks/somewhere"

    def defer_and_forget(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return httpx.Response(202, headers={"location": location})
        return refusal(status, ERROR_NAMESPACE + "unrecognizedAggregationJob")

    between.gate = defer_and_forget
    await work_for_long(pair)
    assert pair.leader.counts(pair.task) == {}
    between.gate = None
    assert (await pair.collect()).report_count == 3
    assert len(set(between.posts)) == 1


def _other_byte(index: int) -> Callable[[bytes], bytes]:
    return lambda data: bytes(
        byte ^ (place == index % len(data)) for place, byte in enumerate(data)
    )


@pytest.mark.parametrize(
    "garble",
    [
        _other_byte(0),
        _other_byte(ID_SIZE),
        _other_byte(ID_SIZE + 4),
        _other_byte(ID_SIZE + 5),
        _other_byte(-1),
        lambda data: data[:-1],
        lambda data: data + b"\0",
    ],
    ids=["id", "verdict", "size", "type of message", "message", "cut short", "longer"],
)
async def test_an_answer_garbled_once_is_asked_for_again(
    pair: Pair, between: Between, garble: Callable[[bytes], bytes]
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))

    def once(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        between.change = None
        content = garble(answer.content)
        headers = {name: answer.headers[name] for name in ("location", "content-type")}
        assert request.method == "POST"
        return httpx.Response(answer.status_code, content=content, headers=headers)

    between.change = once
    assert (await pair.collect()).report_count == 3
    assert pair.leader.counts(pair.task) == {"aggregated": 3}
    assert len(set(between.posts)) == 1
    assert len(between.posts) == 2


def _cut(data: bytes) -> bytes:
    return data[:-1]


def _reversed(data: bytes) -> bytes:
    size = len(data) // 3  # as each of three reports has
    return b"".join(data[start : start + size] for start in (2 * size, size, 0))


def _always(
    spoil: Callable[[bytes], bytes],
) -> Callable[[httpx.Request, httpx.Response], httpx.Response]:
    def change(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        assert request.method == "POST", "nothing that was not understood is deleted"
        headers = {name: answer.headers[name] for name in ("location", "content-type")}
        return httpx.Response(answer.status_code, content=spoil(answer.content), headers=headers)

    return change


@pytest.mark.parametrize(
    "spoil",
    [_other_byte(0), _reversed, _cut],
    ids=["another report", "another order", "cut"],
)
async def test_a_job_whose_answers_cannot_be_used_is_held_for_an_operator(
    pair: Pair, between: Between, spoil: Callable[[bytes], bytes]
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    between.change = _always(spoil)
    await work_for_long(pair)
    assert len(between.posts) == 5  # `max_attempts`
    ((state, job_id, reason, _),) = await jobs(pair)
    assert (state, pair.leader.counts(pair.task)) == ("held", {})
    assert "the helper's answer" in str(reason)

    between.change = None
    await pair.leader.database.run("retry", lambda tx: retry_aggregation_job(tx, job_id))
    assert (await pair.collect()).report_count == 3
    assert len(set(between.posts)) == 1


async def test_only_the_operator_drops_the_reports_of_a_held_job(
    pair: Pair, between: Between
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    between.change = _always(_cut)
    await work_for_long(pair)
    ((_, job_id, _, _),) = await jobs(pair)

    def abandon(tx: Transaction) -> int:
        return abandon_aggregation_job(tx, job_id, returned=False)

    assert await pair.leader.database.run("abandon", abandon) == 3
    assert pair.leader.counts(pair.task) == {"dropped_by_operator": 3}


async def test_a_report_error_of_a_later_draft_rejects_one_report(
    pair: Pair, between: Between
) -> None:
    """As `unknown_verification_key_id` is one, 12 in DAP-19."""
    reports = await pair.reports([0, 1, 2])
    last = reports[-1].report_metadata.report_id.value
    await pair.upload(reports)

    def reject_the_last(_request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        content = answer.content[: answer.content.index(last)] + last + bytes([2, 12])
        headers = {name: answer.headers[name] for name in ("location", "content-type")}
        return httpx.Response(answer.status_code, content=content, headers=headers)

    between.change = reject_the_last
    await pair.work_until_idle()
    assert pair.leader.counts(pair.task) == {"aggregated": 2, "report_error_12": 1}


async def test_a_stored_report_that_cannot_be_read_stops_no_other(pair: Pair) -> None:
    reports = await pair.reports([0, 1, 2])
    await pair.upload(reports)
    spoiled = reports[1].report_metadata.report_id.value
    table = tables.report_bodies[0]

    def spoil(tx: Transaction) -> None:
        body: bytes = tx.connection.execute(select(table.c.body)).scalar_one()
        after = body.index(spoiled) + ID_SIZE
        changed = body[:after] + b"\xff" * 20 + body[after + 20 :]
        tx.connection.execute(update(table).values(body=changed))

    await pair.leader.database.run("spoil", spoil)
    assert (await pair.collect()).report_count == 2
    assert pair.leader.counts(pair.task) == {"aggregated": 2, "invalid_message": 1}


@pytest.mark.parametrize("left", ["none", "short", "long"])
async def test_a_stored_body_that_is_lost_or_of_another_length_waits_and_stops_no_other(
    pair: Pair, left: str
) -> None:
    await pair.upload(await pair.reports([0, 1]))
    table, task_id = tables.report_bodies[0], pair.task.task_id.value

    def spoil(tx: Transaction) -> None:
        if left == "none":
            tx.connection.execute(table.delete())
            return
        body: bytes = tx.connection.execute(select(table.c.body)).scalar_one()
        tx.connection.execute(update(table).values(body=body[:-1] if left == "short" else body * 2))

    await pair.leader.database.run("spoil", spoil)
    await pair.upload(await pair.reports([2, 1, 0]))
    with capture_logs() as logs:
        await pair.work()
    (said,) = (line for line in logs if line["event"].startswith("stored reports cannot be read"))
    assert said["reports"] == 2
    assert pair.leader.counts(pair.task) == {"aggregated": 3}
    # Only an operator gives them up.
    (loss,) = give_up_unreadable(pair.leader.database).losses.values()
    assert loss.unnamed == 2
    assert (await pair.collect()).report_count == 3
    assert pair.leader.counts(pair.task) == {"aggregated": 3, "dropped_by_operator": 2}
    await pair.leader.database.run("books", lambda tx: check_books(tx, task_id))


async def test_a_job_of_nothing_but_unreadable_bodies_ends_and_they_wait(pair: Pair) -> None:
    await pair.upload(await pair.reports([0, 1]))
    body, task_id = tables.report_bodies[0], pair.task.task_id.value
    await pair.leader.database.run("spoil", lambda tx: tx.connection.execute(body.delete()))
    await pair.work()
    assert pair.leader.counts(pair.task) == {}
    assert [state for state, *_ in await jobs(pair)] == ["finished"]
    (loss,) = give_up_unreadable(pair.leader.database).losses.values()
    assert loss.reports == 2
    await pair.leader.database.run("books", lambda tx: check_books(tx, task_id))


async def test_a_stored_task_that_cannot_be_read_stops_no_other(pair: Pair) -> None:
    broken = TaskRecord(bytes(32), "leader", "no task", VERIFY_KEY, peer_token=LEADER_TOKEN)
    await pair.leader.database.run("spoil", lambda tx: put_task(tx, broken))
    await pair.upload(await pair.reports([0, 1, 2]))
    assert (await pair.collect()).report_count == 3
    found = await pair.leader.database.read(
        "health", lambda tx: read_aggregator_health(tx, Role.LEADER, 10**9)
    )
    first, second = found.document["tasks"]  # type: ignore[misc]  # a list
    assert (first["trouble"], first["fingerprint"]) == (None, pair.task.fingerprint)
    assert second["trouble"].startswith("task file: not TOML")
    assert found.is_ready


async def test_a_task_whose_secret_does_not_decrypt_stands_still_alone_and_is_named(
    pair: Pair,
) -> None:
    other = make_task(id=str(TaskId(bytes(32))))
    other_id = other.task_id.value
    record = TaskRecord(other_id, "leader", task_to_toml(other), VERIFY_KEY, 0, LEADER_TOKEN)
    row = tables.tasks.c

    def spoil(tx: Transaction) -> None:
        put_task(tx, record)
        put_reports(
            tx, other_id, [StoredReport(bytes(ID_SIZE), bytes(8), 0, bytes(ID_SIZE) + b"?")], 1
        )
        short = update(tables.tasks).where(row.task_id == other_id).values(verify_key=b"?")
        tx.connection.execute(short)

    await pair.leader.database.run("spoil", spoil)
    await pair.upload(await pair.reports([0, 1, 2]))
    with capture_logs() as logs:
        await pair.leader.runtime.warm_up()
        assert (await pair.collect()).report_count == 3
    why = "tasks.verify_key is too short for a ciphertext"
    (named,) = (line for line in logs if line["event"] == "task cannot be served")
    assert (named["task"], named["reason"]) == (str(other.task_id), why)
    found = await pair.leader.database.read(
        "health",
        lambda tx: read_aggregator_health(tx, Role.LEADER, 10**9),
    )
    first, second = found.document["tasks"]  # type: ignore[misc]  # a list
    assert (first["trouble"], second["trouble"]) == (None, why)
    (job,) = found.document["waiting_jobs"]  # type: ignore[misc]  # a list
    assert (job["task_id"], job["state"], job["reason"]) == (str(other.task_id), "unsent", why)


async def test_a_fault_of_our_own_backs_off_and_is_shown(pair: Pair, between: Between) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    pair.leader.on_moment = lambda name, moment: _fail(name, moment, "store aggregation request")
    with capture_logs():  # printing tracebacks takes long
        for _ in range(4):
            await pair.work()
            pair.clock.advance(8)  # less than the lease: the job was given back
    job = tables.aggregation_jobs.c
    pair.leader.on_moment = lambda _name, _moment: None

    def attempts(tx: Transaction) -> tuple[int, str]:
        row = tx.connection.execute(tables.aggregation_jobs.select().order_by(job.id)).one()
        return row.lease_attempts, row.reason

    assert await pair.leader.database.read("job", attempts) == (4, "OSError")
    assert between.posts == []
    assert (await pair.collect()).report_count == 3


def _fail(name: str, moment: str, at: str) -> None:
    if (name, moment) == (at, "begin"):
        raise OSError(at)


@pytest.mark.parametrize(("status", "kind"), [(401, "about:blank"), (413, "about:blank")])
async def test_a_collection_that_the_helper_keeps_refusing_fails_with_its_error(
    pair: Pair, between: Between, status: int, kind: str
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.work_until_idle()
    asked = await pair.ask()
    between.gate = lambda _: refusal(status, kind)
    await work_for_long(pair)
    assert (await pair.poll(asked.headers["location"])).body == b""  # it is not an hour yet
    await work_for_long(pair, seconds=700)
    failed = await pair.poll(asked.headers["location"])
    assert str(status) in str(failed.problem["detail"])
    between.gate = None
    assert (await pair.collect()).report_count == 3


async def test_a_share_released_to_a_collection_that_failed_is_found_again(
    pair: Pair, between: Between
) -> None:
    """The helper released its share, the answer was lost, and then it refused for an hour."""
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.work_until_idle()
    await pair.ask()

    def lose(_request: httpx.Request, _answer: httpx.Response) -> httpx.Response:
        raise httpx.ReadError("the connection broke")

    between.change = lose
    await pair.work()
    between.change, between.gate = None, lambda _: refusal(401)
    await work_for_long(pair, seconds=700)
    between.gate = None
    await pair.upload(await pair.reports([3]))  # the helper counts it no more
    assert (await pair.collect()).report_count == 3
