"""Object storage that answers wrongly, once or for an hour: what was accepted is counted."""

import dataclasses
from collections.abc import Sequence
from contextlib import suppress

import httpx
import pytest
from sqlalchemy import select

from aggregator.codec import decode, encode
from aggregator.dap.messages import AggregationJobResp, Report, UploadRequest, VerifyRespReject
from aggregator.dap.profile import Role
from aggregator.dap.report_errors import ReportError
from aggregator.errors import ConfigurationError
from aggregator.service.runtime.status import read_aggregator_health
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.objects import Objects, objects_at
from aggregator.service.storage.engine.presence import Duty
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.operator.interventions import abandon_aggregation_job
from aggregator.service.storage.reports import bodies
from aggregator.service.storage.reports.giving_up import Looked, give_up_unreadable
from tests.support.balance import check_books
from tests.support.between import Between
from tests.support.lying_place import LIES, Lie, LyingPlace
from tests.support.object_server import bucket_server
from tests.support.pair import Died, Pair

HOUR = 3600


@pytest.fixture
async def place(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> LyingPlace:
    """Have the leader keep large bodies in a place that can lie; two reports are large."""
    (one,) = await pair.reports([0])
    monkeypatch.setattr(bodies, "LEAST_BYTES", len(encode(one)) + 1)
    place = LyingPlace()
    pair.leader.make_objects = lambda: Objects(place)
    pair.leader.restart()
    return place


async def faults(pair: Pair) -> list[str]:
    health = await pair.leader.database.read(
        "health", lambda tx: read_aggregator_health(tx, Role.LEADER, 10**9)
    )
    return [*health.faults]


async def books(pair: Pair, again: int = 0) -> None:
    task_id = pair.task.task_id.value
    await pair.leader.database.run("books", lambda tx: check_books(tx, task_id, again))


async def work_for(pair: Pair, seconds: int) -> None:
    until = pair.clock.now() + seconds
    while pair.clock.now() < until:
        await pair.work()
        pair.clock.advance(61)


async def ask(pair: Pair, between: Between) -> None:
    """Let the helper count what waits, lose its answer, and let the leader's process die."""

    def lost(_request: httpx.Request, _answer: httpx.Response) -> httpx.Response:
        raise httpx.ReadError("the connection broke")

    between.change = lost
    await pair.work()
    between.change = None
    pair.leader.restart()


async def give_up(pair: Pair, *, even_all: bool = False) -> Looked:
    # A killed process holds its lease for a while.
    pair.clock.advance(HOUR)
    return give_up_unreadable(pair.leader.database, even_all=even_all)


async def told(pair: Pair, reports: Sequence[Report]) -> list[str]:
    named = pair.task.profile.report_error
    return [named(each.error).draft_name for each in (await pair.upload(reports)).status]


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
@pytest.mark.parametrize("times", [1, 7, 10**9], ids=["once", "seven times", "for an hour"])
@pytest.mark.parametrize("was_asked", [False, True])
async def test_reports_whose_object_is_answered_wrongly_wait_and_are_counted(
    pair: Pair, place: LyingPlace, between: Between, lie: Lie, times: int, *, was_asked: bool
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    (name,) = place.stored
    if was_asked:
        await ask(pair, between)
    place.lie, place.lies_left = lie, times
    await pair.upload(await pair.reports([3]))  # small: it is in the database, and does not wait
    await work_for(pair, HOUR)
    if times > HOUR:
        assert pair.leader.counts(pair.task) == {"aggregated": 1}
        (fault,) = await faults(pair)
        assert "3 reports in 1 bodies cannot be read, the first since 2023-" in fault
        assert f"object {name} of s3://reports/leader is not there, or not what" in fault
        assert "prio store give-up-bodies --dry-run" in fault
        place.lie = None
        await work_for(pair, HOUR)
    assert await faults(pair) == []
    assert pair.leader.counts(pair.task) == {"aggregated": 4}
    assert (await pair.collect()).report_count == 4
    await books(pair)


async def test_a_body_that_is_unreadable_when_its_job_ends_is_named_and_waited_for(
    pair: Pair, place: LyingPlace, between: Between
) -> None:
    """One report of three must wait, so the body is read once more."""
    too_early = pair.task.profile.code(ReportError.REPORT_TOO_EARLY)

    def reject_one(_request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        place.lie = LIES["not there"]
        first, *rest = decode(AggregationJobResp, answer.content).verify_resps
        resps = (VerifyRespReject(first.report_id, too_early), *rest)
        headers = {name: answer.headers[name] for name in ("location", "content-type")}
        content = encode(AggregationJobResp(resps))
        return httpx.Response(answer.status_code, content=content, headers=headers)

    between.change = reject_one
    await pair.upload(await pair.reports([0, 1, 2]))
    (name,) = place.stored
    await pair.work()
    (fault,) = await faults(pair)
    assert f"object {name} of s3://reports/leader is not there, or not what" in fault
    between.change = place.lie = None
    await work_for(pair, HOUR)
    assert pair.leader.counts(pair.task) == {"aggregated": 3}
    assert await faults(pair) == []
    await books(pair)


@pytest.mark.parametrize("moment", ["before commit", "committed"])
@pytest.mark.parametrize(
    "name",
    ["upload", "set reports aside", "reports readable again", "give up bodies"],
)
async def test_a_leader_that_dies_beside_unreadable_bodies_loses_nothing(
    pair: Pair, place: LyingPlace, name: str, moment: str
) -> None:
    deaths: list[str] = []

    def die_once(transaction: str, at: str) -> None:
        if (transaction, at) == (name, moment) and not deaths:
            deaths.append(name)
            raise Died

    async def work() -> None:
        try:
            await work_for(pair, HOUR)
        except* Died:
            pair.leader.restart()
            await books(pair)
            await work_for(pair, HOUR)

    pair.leader.on_moment = die_once
    reports = await pair.reports([0, 1, 2])
    for _ in range(2):  # as a client does that got no answer
        with suppress(httpx.TransportError):
            await pair.upload(reports)
    place.lie = LIES["not there"]
    await work()
    assert (await faults(pair)) != []
    place.lie = None
    if name == "give up bodies":
        kept = dict(place.stored)
        place.stored.clear()
        try:
            await give_up(pair, even_all=True)
        except Died:
            pair.leader.restart()
            await books(pair)
        place.stored.update(kept)
        assert await told(pair, reports) == []
    await work()
    assert deaths == [name]
    given_up = {"dropped_by_operator": 3} if len(place.stored) == 2 else {}
    assert bool(given_up) == ((name, moment) == ("give up bodies", "committed"))
    assert pair.leader.counts(pair.task) == {"aggregated": 3, **given_up}
    assert (await pair.collect()).report_count == 3
    await books(pair, again=sum(given_up.values()))


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_a_bucket_that_lies_over_http_costs_no_report_and_takes_none(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, lie: Lie
) -> None:
    monkeypatch.setattr(bodies, "LEAST_BYTES", 1)
    with bucket_server() as bucket:
        for name, value in bucket.environment().items():
            monkeypatch.setenv(name, value)
        pair.leader.make_objects = lambda: objects_at("s3://reports/leader")
        pair.leader.restart()
        reports = await pair.reports([0, 1, 2, 3])
        await pair.upload(reports[:3])
        bucket.lie = lie
        await work_for(pair, HOUR)
        body = encode(UploadRequest((reports[3],)))
        url, message = pair.url_of("reports"), UploadRequest.message
        assert (await pair.send("POST", url, message, body)).status == 503
        assert pair.leader.counts(pair.task) == {}
        assert any("cannot be read" in fault for fault in await faults(pair))
        bucket.lie = None
        await work_for(pair, HOUR)
        await pair.upload(reports)  # once more: three are known
        await work_for(pair, HOUR)
        assert pair.leader.counts(pair.task) == {"aggregated": 4}
        assert await faults(pair) == []
        await books(pair)
        pair.leader.make_objects = None
        pair.leader.restart()  # while the bucket is there


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_what_a_storage_does_not_store_is_not_answered_as_stored(
    pair: Pair, place: LyingPlace, lie: Lie
) -> None:
    reports = await pair.reports([0, 1, 2])
    place.puts_lie = lie
    body = encode(UploadRequest(tuple(reports)))
    answer = await pair.send("POST", pair.url_of("reports"), UploadRequest.message, body)
    assert answer.status == 503
    place.puts_lie = None
    await pair.upload(reports)
    await pair.work_until_idle()
    assert pair.leader.counts(pair.task) == {"aggregated": 3}
    assert len(place.stored) == 1  # what was put wrongly is gone again


async def test_reports_that_an_operator_gave_up_before_anybody_was_asked_count_if_they_come_again(
    pair: Pair, place: LyingPlace
) -> None:
    reports = await pair.reports([0, 1, 2])
    others = await pair.reports([3, 3])
    await pair.upload(reports)
    await pair.upload(others)
    lost, _ = place.stored
    kept = place.stored.pop(lost)
    await work_for(pair, HOUR)
    looked = await give_up(pair, even_all=True)
    (loss,) = looked.losses.values()
    assert (loss.free, loss.spent, loss.asked, looked.readable) == (3, 0, 0, 0)
    assert pair.leader.counts(pair.task) == {"aggregated": 2, "dropped_by_operator": 3}
    assert await faults(pair) == []
    place.stored[lost] = kept  # too late
    # Other bytes under one of their ids would use a nonce a second time.
    (other,) = await pair.reports([0])
    forged = dataclasses.replace(other, report_metadata=reports[0].report_metadata)
    assert await told(pair, [forged]) == [ReportError.REPORT_DROPPED.draft_name]
    assert await told(pair, [*reports, *others, reports[0]]) == []
    await pair.work_until_idle()
    assert await told(pair, reports) == []
    assert (await pair.collect()).report_count == 5
    await books(pair, again=3)


async def test_reports_that_the_helper_has_counted_are_left_to_their_job_when_they_are_given_up(
    pair: Pair, place: LyingPlace, between: Between
) -> None:
    reports = await pair.reports([0, 1, 2])
    await pair.upload(reports)
    await ask(pair, between)
    place.stored.clear()
    await work_for(pair, HOUR)
    (loss,) = (await give_up(pair, even_all=True)).losses.values()
    assert (loss.free, loss.spent, loss.asked) == (0, 0, 3)
    await work_for(pair, HOUR)
    job = tables.aggregation_jobs.c
    states = await pair.leader.database.read(
        "states", lambda tx: tx.connection.execute(select(job.state)).scalars().all()
    )
    assert states == ["held"]  # the sums would differ, so a person decides
    await books(pair)


@pytest.mark.parametrize("returned", [False, True])
async def test_what_was_given_up_in_a_request_is_never_told_as_counted(
    pair: Pair, place: LyingPlace, between: Between, *, returned: bool
) -> None:
    reports = await pair.reports([0, 1, 2])
    await pair.upload(reports)
    await ask(pair, between)
    place.stored.clear()
    await work_for(pair, HOUR)
    assert await told(pair, reports) == []  # they wait
    await give_up(pair, even_all=True)
    dropped = [ReportError.REPORT_DROPPED.draft_name] * 3
    assert await told(pair, reports) == dropped
    await books(pair)
    await work_for(pair, HOUR)
    table = tables.aggregation_jobs

    def abandon(tx: Transaction) -> None:
        job_id = tx.connection.execute(select(table.c.job_id)).scalar_one()
        abandon_aggregation_job(tx, job_id, returned=returned)

    await pair.leader.database.run("abandon", abandon)
    assert pair.leader.counts(pair.task) == {"dropped_by_operator": 3}
    assert await told(pair, reports) == dropped
    await books(pair)


async def test_reports_that_came_back_from_a_request_stay_spent_when_they_are_given_up(
    pair: Pair, place: LyingPlace, between: Between
) -> None:
    reports = await pair.reports([0, 1, 2])
    too_early = pair.task.profile.code(ReportError.REPORT_TOO_EARLY)

    def reject(_request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        resps = decode(AggregationJobResp, answer.content).verify_resps
        rejects = tuple(VerifyRespReject(each.report_id, too_early) for each in resps)
        headers = {name: answer.headers[name] for name in ("location", "content-type")}
        content = encode(AggregationJobResp(rejects))
        return httpx.Response(answer.status_code, content=content, headers=headers)

    between.change = reject
    await pair.upload(reports)
    await pair.work()
    between.change = None
    place.stored.clear()
    await work_for(pair, HOUR)
    (loss,) = (await give_up(pair, even_all=True)).losses.values()
    assert (loss.free, loss.spent, loss.asked) == (0, 3, 0)
    assert await told(pair, reports) == [ReportError.REPORT_DROPPED.draft_name] * 3
    await books(pair)


async def test_nothing_is_given_up_in_a_place_that_has_none_of_it_without_a_word_more(
    pair: Pair, place: LyingPlace
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    stored = dict(place.stored)
    place.stored.clear()
    with pytest.raises(ConfigurationError, match=r"none of 1 objects .* is it the right place"):
        await give_up(pair)
    place.stored.update(stored)
    await pair.work_until_idle()
    assert pair.leader.counts(pair.task) == {"aggregated": 3}


async def test_a_job_that_is_at_work_loses_nothing_to_an_operator(
    pair: Pair, place: LyingPlace, between: Between
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await ask(pair, between)
    place.stored.clear()

    def lease(tx: Transaction) -> None:
        table = tables.aggregation_jobs
        held = {"lease_token": bytes(16), "lease_expires_at": tx.now + 60}
        tx.connection.execute(table.update().values(**held))

    await pair.leader.database.run("lease", lease)
    with pytest.raises(ConfigurationError, match="at work: stop the leader's processes"):
        give_up_unreadable(pair.leader.database, even_all=True)


async def test_an_operator_may_look_while_a_job_is_at_work_and_a_service_runs(
    pair: Pair, place: LyingPlace, between: Between
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await ask(pair, between)
    place.stored.clear()
    database = pair.leader.database
    service = database.presence([Duty.WORK])
    service.keep()
    try:
        (loss,) = give_up_unreadable(database, only_look=True).losses.values()
        assert loss.asked == 3
        with pytest.raises(ConfigurationError, match="processes of the leader run: stop the"):
            await give_up(pair, even_all=True)
    finally:
        service.close()
    (loss,) = (await give_up(pair, even_all=True)).losses.values()
    assert loss.asked == 3


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_what_is_wrong_once_is_not_given_up(pair: Pair, place: LyingPlace, lie: Lie) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    place.lie, place.lies_left = lie, 1
    assert (await give_up(pair, even_all=True)) == Looked(3, {})
    assert place.lies_left == 0
    await pair.work_until_idle()
    assert pair.leader.counts(pair.task) == {"aggregated": 3}


@pytest.mark.parametrize("lie", ["a page of HTML", "not there"])
async def test_nothing_is_given_up_in_a_place_that_answers_everything_wrongly(
    pair: Pair, place: LyingPlace, lie: str
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    place.lie = LIES[lie]
    with pytest.raises(ConfigurationError, match="not return what was put"):
        await give_up(pair, even_all=True)
    place.lie = None
    await pair.work_until_idle()
    assert pair.leader.counts(pair.task) == {"aggregated": 3}


@pytest.mark.usefixtures("place")
async def test_a_report_that_was_refused_when_it_was_verified_is_told_so_when_it_comes_again(
    pair: Pair,
) -> None:
    good, bad = await pair.reports([0, 1])
    sealed = bad.helper_encrypted_input_share
    wrong = dataclasses.replace(sealed, payload=bytes(len(sealed.payload)))
    bad = dataclasses.replace(bad, helper_encrypted_input_share=wrong)
    await pair.upload([good, bad])
    await pair.work_until_idle()
    assert pair.leader.counts(pair.task) == {"aggregated": 1, "hpke_decrypt_error": 1}
    assert await told(pair, [good, bad, bad]) == [ReportError.REPORT_DROPPED.draft_name] * 2
    await books(pair)
