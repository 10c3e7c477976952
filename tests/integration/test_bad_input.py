"""Every bad input gets its documented error, and what was accepted before is still there."""

import dataclasses
from collections.abc import AsyncIterator, Callable
from fractions import Fraction
from pathlib import Path

import pytest
from sqlalchemy import update

from aggregator.codec import decode, encode
from aggregator.dap.auth import hash_token
from aggregator.dap.extensions import Extension
from aggregator.dap.hpke import HpkeCiphertext
from aggregator.dap.ids import TaskId
from aggregator.dap.messages import (
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobInitReq,
    AggregationJobResp,
    CollectionJobReq,
    LeaderSelectedQuery,
    Report,
    TimeIntervalQuery,
    TimeIntervalSelector,
    UploadErrors,
    UploadRequest,
    sized,
)
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import ReportError
from aggregator.dap.resources import media_type
from aggregator.dap.times import Interval, Time
from aggregator.protocol.requirements import Requirements
from aggregator.service.leader import upload_checks
from aggregator.service.storage.engine import tables
from aggregator.service.storage.engine.tables import collection_jobs
from aggregator.service.storage.tasks.tasks import end_task
from tests.support.helper_jobs import errors_of, send_job
from tests.support.pair import COLLECTOR_TOKEN, LEADER_SETTINGS, LEADER_TOKEN, NOW, Answer, Pair
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

BODY_LIMIT = 64 * 1024
OTHER_TASK = TaskId(bytes(32))
UNITS = NOW // TIME_PRECISION


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    task = make_task(interval={"start": UNITS - 10, "duration": 20})
    async with Pair(
        tmp_path,
        task,
        leader_settings=LEADER_SETTINGS.model_copy(update={"max_body_size": BODY_LIMIT}),
    ) as made:
        yield made


async def upload_body(pair: Pair, body: bytes) -> Answer:
    return await pair.send("POST", pair.url_of("reports"), UploadRequest.message, body)


async def aggregation_request(pair: Pair, count: int = 3) -> AggregationJobInitReq:
    body = await pair.job(await pair.reports([0] * count))
    return decode(AggregationJobInitReq, body)


async def aggregate(pair: Pair, request: AggregationJobInitReq) -> Answer:
    return await send_job(pair, encode(request))


async def ask_share(pair: Pair, request: AggregateShareReq) -> Answer:
    return await pair.send(
        "POST",
        pair.url_of("aggregate_shares"),
        AggregateShareReq.message,
        encode(request),
        LEADER_TOKEN,
    )


def share_request(pair: Pair, **changes: object) -> AggregateShareReq:
    interval = pair.interval()
    request = AggregateShareReq(
        CollectionJobReq(TimeIntervalQuery(interval)), TimeIntervalSelector(interval), 3, bytes(32)
    )
    return dataclasses.replace(request, **changes)  # type: ignore[arg-type]  # a test's choice


# --- uploads


async def test_an_upload_for_an_unknown_task_is_refused(pair: Pair) -> None:
    url = pair.url_of("reports").replace(str(pair.task.task_id), str(OTHER_TASK))
    answer = await pair.send("POST", url, UploadRequest.message, b"")
    assert (answer.status, answer.problem_type) == (404, "unrecognizedTask")
    assert answer.problem["taskid"] == str(OTHER_TASK)


async def test_a_truncated_upload_is_refused_whole_and_what_was_stored_before_stays(
    pair: Pair,
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    body = encode(UploadRequest(tuple(await pair.reports([3, 3]))))
    answer = await upload_body(pair, body[:-1])
    assert (answer.status, answer.problem_type) == (400, "invalidMessage")
    assert (await pair.collect()).values == (1, 1, 1, 0)


@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "streamed"])
async def test_an_oversized_upload_is_refused(pair: Pair, is_declared: bool) -> None:  # noqa: FBT001 - a parameter
    async def stream() -> AsyncIterator[bytes]:
        for _ in range(BODY_LIMIT // 1024 + 1):
            yield bytes(1024)

    response = await pair.http.post(
        pair.url_of("reports"),
        content=bytes(BODY_LIMIT + 1) if is_declared else stream(),
        headers={"content-type": media_type(UploadRequest.message)},
    )
    assert response.status_code == 413
    assert response.json()["type"].endswith("message-too-large")


async def test_an_upload_of_too_many_reports_is_refused_whole(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the smallest reports there are over a million in a body that is not too long."""
    monkeypatch.setattr(upload_checks, "MAX_REPORTS", 3)
    reports = await pair.reports([0, 1, 2, 3])
    url, message = pair.url_of("reports"), UploadRequest.message
    answer = await pair.send("POST", url, message, encode(UploadRequest(tuple(reports))))
    assert (answer.status, answer.problem_type) == (413, "message-too-large")
    await pair.upload(reports[:3])
    assert (await pair.collect()).report_count == 3


async def test_a_body_of_another_media_type_is_refused(pair: Pair) -> None:
    answer = await pair.send("POST", pair.url_of("reports"), CollectionJobReq.message, b"")
    assert (answer.status, answer.problem_type) == (415, "unsupported-media-type")


def _outdated(report: Report) -> Report:
    sealed = report.leader_encrypted_input_share
    share = dataclasses.replace(sealed, config_id=sealed.config_id ^ 1)  # there is one key
    return dataclasses.replace(report, leader_encrypted_input_share=share)


def _at(units: int) -> Callable[[Report], Report]:
    def change(report: Report) -> Report:
        metadata = dataclasses.replace(report.report_metadata, time=Time(units))
        return dataclasses.replace(report, report_metadata=metadata)

    return change


def _extended(report: Report) -> Report:
    metadata = dataclasses.replace(
        report.report_metadata, public_extensions=(Extension(0x1234, b""),)
    )
    return dataclasses.replace(report, report_metadata=metadata)


def _sealed_at_length(role: str) -> Callable[[Report], Report]:
    def change(report: Report) -> Report:
        share = getattr(report, f"{role}_encrypted_input_share")
        longer = dataclasses.replace(share, payload=share.payload + bytes(1000))
        return dataclasses.replace(report, **{f"{role}_encrypted_input_share": longer})  # type: ignore[arg-type]  # one of two fields of one type

    return change


def _other_enc(report: Report) -> Report:
    share = dataclasses.replace(report.helper_encrypted_input_share, enc=bytes(31))
    return dataclasses.replace(report, helper_encrypted_input_share=share)


def _other_public_share(report: Report) -> Report:
    return dataclasses.replace(report, public_share=report.public_share + b"?")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (_sealed_at_length("leader"), ReportError.INVALID_MESSAGE),
        (_sealed_at_length("helper"), ReportError.INVALID_MESSAGE),
        (_other_enc, ReportError.INVALID_MESSAGE),
        (_other_public_share, ReportError.INVALID_MESSAGE),
        (_outdated, ReportError.OUTDATED_CONFIG),
        (_at(UNITS + 8), ReportError.REPORT_TOO_EARLY),
        (_at(UNITS - 11), ReportError.REPORT_DROPPED),
        (_at(UNITS + 10), ReportError.REPORT_DROPPED),
        (_extended, ReportError.INVALID_MESSAGE),
    ],
    ids=[
        "leader's share longer",
        "helper's share longer",
        "encapsulated key shorter",
        "public share longer",
        "outdated config",
        "too early",
        "before the task",
        "after the task",
        "extension",
    ],
)
async def test_an_unacceptable_report_is_refused_alone_and_by_name(
    pair: Pair, change: Callable[[Report], Report], error: ReportError
) -> None:
    reports = await pair.reports([0, 3, 1, 2])
    reports[1] = change(reports[1])
    (status,) = (await pair.upload(reports)).status
    assert status.id == reports[1].report_metadata.report_id
    assert DAP_18.report_error(status.error) is error
    assert (await pair.collect()).values == (1, 1, 1, 0)


async def test_refused_reports_are_listed_in_the_requests_order(pair: Pair) -> None:
    reports = [_outdated(report) for report in await pair.reports([0, 1, 2, 3])]
    errors = (await pair.upload(reports)).status
    assert [e.id for e in errors] == [r.report_metadata.report_id for r in reports]


async def test_an_ended_task_takes_no_report_and_can_still_be_collected(pair: Pair) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.leader.database.run("end", lambda tx: end_task(tx, pair.task.task_id.value))
    (status,) = (await pair.upload(await pair.reports([3]))).status
    assert DAP_18.report_error(status.error) is ReportError.REPORT_DROPPED
    assert (await pair.collect()).report_count == 3


# --- tokens


@pytest.mark.parametrize("token", [None, "", "wrong", LEADER_TOKEN + "x"])
@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ("aggregation_jobs", AggregationJobInitReq.message),
        ("aggregate_shares", AggregateShareReq.message),
        ("collection_jobs", CollectionJobReq.message),
    ],
)
async def test_a_wrong_token_is_refused(
    pair: Pair, resource: str, message: str, token: str | None
) -> None:
    answer = await pair.send("POST", pair.url_of(resource), message, b"", token)
    assert (answer.status, answer.problem_type) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_the_collectors_token_opens_nothing_at_the_helper(pair: Pair) -> None:
    url = pair.url_of("aggregate_shares")
    answer = await pair.send("POST", url, AggregateShareReq.message, b"", COLLECTOR_TOKEN)
    assert answer.status == 401


@pytest.mark.parametrize("token", [None, "wrong", LEADER_TOKEN])
async def test_without_its_token_a_task_does_not_show_whether_it_is_there(
    pair: Pair, token: str | None
) -> None:
    shown = "wrong" if token == LEADER_TOKEN else token
    there = pair.url_of("aggregation_jobs")
    elsewhere = there.replace(str(pair.task.task_id), str(OTHER_TASK))
    message = AggregationJobInitReq.message
    known = await pair.send("POST", there, message, b"", shown)
    unknown = await pair.send("POST", elsewhere, message, b"", token)
    assert (unknown.status, unknown.problem_type) == (401, "unauthorized")
    assert known.body.replace(str(pair.task.task_id).encode(), str(OTHER_TASK).encode()) == (
        unknown.body
    )


async def test_a_leader_with_a_wrong_token_loses_nothing(tmp_path: Path) -> None:
    pair = Pair(tmp_path, make_task())
    await pair.provision()
    await pair.upload(await pair.reports([0, 1, 2]))

    async def expect(token: str) -> None:
        await pair.helper.database.run(
            "change token",
            lambda tx: tx.connection.execute(
                update(tables.caller_tokens).values(token_hash=hash_token(token))
            ),
        )

    await expect("another")
    for _ in range(10):
        await pair.work()
        pair.clock.advance(61)
    await expect(LEADER_TOKEN)
    assert (await pair.collect()).values == (1, 1, 1, 0)
    await pair.close()


# --- aggregation jobs


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"agg_param": b"\0"}, "invalidAggregationParameter"),
        ({"extensions": (Extension(1, bytes(32)),)}, "unsupportedExtension"),
        ({"extensions": (Extension(77, b""),)}, "unsupportedExtension"),
        ({"extensions": (Extension(2, b""), Extension(2, b""))}, "invalidMessage"),
        ({"verification_key_id": 1}, "invalidMessage"),
        ({"verify_inits": ()}, "invalidMessage"),
    ],
)
async def test_an_aggregation_request_that_is_not_in_order_is_refused_whole(
    pair: Pair, changes: dict[str, object], problem: str
) -> None:
    request = dataclasses.replace(await aggregation_request(pair), **changes)  # type: ignore[arg-type]  # a test's choice
    answer = await aggregate(pair, request)
    assert (answer.status, answer.problem_type) == (400, problem)


async def test_an_unsupported_extension_is_named(pair: Pair) -> None:
    request = dataclasses.replace(await aggregation_request(pair), extensions=(Extension(77, b""),))
    assert (await aggregate(pair, request)).problem["unsupported_extensions"] == [77]


async def test_a_report_that_is_named_twice_spoils_its_aggregation_request(pair: Pair) -> None:
    request = await aggregation_request(pair)
    doubled = dataclasses.replace(request, verify_inits=request.verify_inits * 2)
    answer = await aggregate(pair, doubled)
    assert (answer.status, answer.problem_type) == (400, "invalidMessage")


async def test_the_helper_names_the_error_of_each_report_in_the_requests_order(
    pair: Pair,
) -> None:
    request = await aggregation_request(pair, 5)
    inits = list(request.verify_inits)

    def spoil(index: int, **changes: object) -> None:
        share = dataclasses.replace(inits[index].report_share, **changes)  # type: ignore[arg-type]  # a test's choice
        inits[index] = dataclasses.replace(inits[index], report_share=share)

    ciphertext = inits[0].report_share.encrypted_input_share
    unknown = ciphertext.config_id ^ 1  # there is one key
    spoil(0, encrypted_input_share=HpkeCiphertext(unknown, ciphertext.enc, ciphertext.payload))
    spoil(1, public_share=b"short")
    late = dataclasses.replace(inits[2].report_share.report_metadata, time=Time(UNITS + 10))
    spoil(2, report_metadata=late)
    inits[3] = dataclasses.replace(inits[3], payload=b"\x02\0\0\0\0")
    answer = await aggregate(pair, dataclasses.replace(request, verify_inits=tuple(inits)))
    resps = decode(AggregationJobResp, answer.body).verify_resps
    assert [r.report_id for r in resps] == [
        i.report_share.report_metadata.report_id for i in request.verify_inits
    ]
    assert errors_of(answer.body) == [
        ReportError.HPKE_DECRYPT_ERROR,
        ReportError.INVALID_MESSAGE,  # no public share of the task has that size
        ReportError.TASK_EXPIRED,
        ReportError.VDAF_VERIFY_ERROR,
        None,
    ]


async def test_the_helper_refuses_reports_of_other_sizes_and_their_neighbours_pass(
    pair: Pair,
) -> None:
    """A leader that does not look hands a client's oversize report on."""
    request = await aggregation_request(pair, 4)
    inits = list(request.verify_inits)
    for index, name in ((0, "payload"), (1, "enc")):
        share = inits[index].report_share
        sealed = share.encrypted_input_share
        longer = dataclasses.replace(sealed, **{name: getattr(sealed, name) + bytes(60_000)})  # type: ignore[arg-type]  # one of two fields of one type
        share = dataclasses.replace(share, encrypted_input_share=longer)
        inits[index] = dataclasses.replace(inits[index], report_share=share)
    share = inits[2].report_share
    many = tuple(Extension(0x1234, b"") for _ in range(16_000))
    metadata = dataclasses.replace(share.report_metadata, public_extensions=many)
    share = dataclasses.replace(share, report_metadata=metadata)
    inits[2] = dataclasses.replace(inits[2], report_share=share)
    answer = await aggregate(pair, dataclasses.replace(request, verify_inits=tuple(inits)))
    assert errors_of(answer.body) == [*[ReportError.INVALID_MESSAGE] * 3, None]


async def test_an_aggregation_job_of_too_many_reports_is_refused_whole(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sized, "LARGEST_JOB", 3)
    answer = await aggregate(pair, await aggregation_request(pair, 4))
    assert (answer.status, answer.problem_type) == (413, "message-too-large")
    assert (await aggregate(pair, await aggregation_request(pair, 3))).status == 201


async def test_unknown_and_finished_aggregation_jobs_answer_as_the_draft_says(pair: Pair) -> None:
    answer = await aggregate(pair, await aggregation_request(pair))
    known = f"https://helper.example{answer.headers['location']}"
    unknown = known[:-22] + "A" * 22
    body = encode(AggregationJobContinueReq(1, ()))
    message = AggregationJobContinueReq.message
    for method in ("GET", "DELETE", "POST"):
        refused = await pair.send(method, unknown, message, body, LEADER_TOKEN)
        assert refused.problem_type == "unrecognizedAggregationJob"
    continued = await pair.send("POST", known, message, body, LEADER_TOKEN)
    assert continued.problem_type == "stepMismatch"
    assert (await pair.send("DELETE", known, token=LEADER_TOKEN)).status == 200
    gone = await pair.send("GET", known, token=LEADER_TOKEN)
    assert gone.problem_type == "unrecognizedAggregationJob"


# --- collection jobs


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (CollectionJobReq(LeaderSelectedQuery()), "invalidMessage"),
        (CollectionJobReq(TimeIntervalQuery(Interval.of(UNITS, 0))), "batchInvalid"),
        (
            CollectionJobReq(TimeIntervalQuery(Interval.of(UNITS, 1)), agg_param=b"\1"),
            "invalidAggregationParameter",
        ),
        (
            CollectionJobReq(
                TimeIntervalQuery(Interval.of(UNITS, 1)), extensions=(Extension(5, b""),)
            ),
            "unsupportedExtension",
        ),
        (
            CollectionJobReq(
                TimeIntervalQuery(Interval.of(UNITS, 1)),
                extensions=(Extension(5, b""), Extension(4, b"")),
            ),
            "invalidExtension",
        ),
    ],
    ids=["batch mode", "empty interval", "parameter", "extension", "extension order"],
)
async def test_a_collection_request_that_is_not_in_order_is_refused(
    pair: Pair, request_: CollectionJobReq, problem: str
) -> None:
    url, message = pair.url_of("collection_jobs"), CollectionJobReq.message
    answer = await pair.send("POST", url, message, encode(request_), COLLECTOR_TOKEN)
    assert (answer.status, answer.problem_type) == (400, problem)


async def test_a_truncated_collection_request_is_refused(pair: Pair) -> None:
    body = encode(CollectionJobReq(TimeIntervalQuery(pair.interval())))[:-1]
    url, message = pair.url_of("collection_jobs"), CollectionJobReq.message
    answer = await pair.send("POST", url, message, body, COLLECTOR_TOKEN)
    assert (answer.status, answer.problem_type) == (400, "invalidMessage")


async def test_another_query_for_a_collected_batch_overlaps(pair: Pair) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.collect()
    answer = await pair.ask(pair.interval(NOW - TIME_PRECISION, 2))
    assert (answer.status, answer.problem_type) == (400, "batchOverlap")


async def test_the_second_of_two_overlapping_queries_that_wait_fails(pair: Pair) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    locations = [
        (await pair.ask(interval)).headers["location"]
        for interval in (pair.interval(), pair.interval(NOW - TIME_PRECISION, 2))
    ]
    await pair.work_until_idle()
    answers = [await pair.poll(location) for location in locations]
    assert sorted(answer.problem_type for answer in answers) == ["", "batchOverlap"]


@pytest.mark.parametrize("name", ["A" * 22, "not-an-id"])
async def test_an_unknown_collection_job_is_unknown(pair: Pair, name: str) -> None:
    for method in ("GET", "DELETE"):
        url = f"{pair.url_of('collection_jobs')}/{name}"
        answer = await pair.send(method, url, token=COLLECTOR_TOKEN)
        assert (answer.status, answer.problem_type) == (404, "unrecognized-collection-job")


# --- aggregate shares


async def test_the_helper_checks_size_agreement_and_extent_before_it_releases(
    pair: Pair,
) -> None:
    await aggregate(pair, await aggregation_request(pair, 2))
    answer = await ask_share(pair, share_request(pair, report_count=2))
    assert answer.problem_type == "invalidBatchSize"
    await aggregate(pair, await aggregation_request(pair, 2))
    answer = await ask_share(pair, share_request(pair, report_count=5))
    assert answer.problem_type == "batchMismatch"
    answer = await ask_share(pair, share_request(pair, report_count=4))
    assert answer.problem_type == "batchMismatch"
    wider = TimeIntervalSelector(pair.interval(NOW - TIME_PRECISION, 2))
    answer = await ask_share(pair, share_request(pair, batch_selector=wider))
    assert answer.problem_type == "batchInvalid"


async def test_an_unknown_aggregate_share_is_unknown(pair: Pair) -> None:
    for name in ("A" * 22, "x"):
        for method in ("GET", "DELETE"):
            url = f"{pair.url_of('aggregate_shares')}/{name}"
            answer = await pair.send(method, url, token=LEADER_TOKEN)
            assert (answer.status, answer.problem_type) == (404, "unrecognized-aggregate-share")


async def test_a_released_share_is_repeated_until_it_is_deleted_and_then_never_made_again(
    pair: Pair,
) -> None:
    await pair.upload(await pair.reports([0, 1, 2]))
    await pair.collect()
    (job,) = await pair.leader.database.read(
        "jobs", lambda tx: tx.connection.execute(collection_jobs.select()).all()
    )
    assert job.aggregate_share_request is not None
    request = decode(AggregateShareReq, job.aggregate_share_request)
    first = await ask_share(pair, request)
    url = f"https://helper.example{first.headers['location']}"
    assert (await pair.send("GET", url, token=LEADER_TOKEN)).body == first.body
    assert (await pair.send("DELETE", url, token=LEADER_TOKEN)).status == 200
    assert (await ask_share(pair, request)).problem_type == "batchOverlap"


# --- requirements


async def test_an_aggregator_refuses_a_task_that_protects_too_little(tmp_path: Path) -> None:
    pair = Pair(
        tmp_path,
        make_task(privacy=LAPLACE),
        leader_requirements=Requirements(min_batch_size=3, max_epsilon=Fraction(1, 2)),
        helper_requirements=Requirements(max_epsilon=Fraction(1, 3)),
    )
    await pair.provision()
    assert (await pair.upload(await pair.reports([0]))).status == ()
    answer = await aggregate(pair, await aggregation_request(pair))
    assert (answer.status, answer.problem_type) == (400, "task-refused")
    assert "epsilon 1/3" in str(answer.problem["detail"])
    await pair.close()


def test_an_empty_list_of_errors_is_an_empty_body() -> None:
    assert encode(UploadErrors(())) == b""
