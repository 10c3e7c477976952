"""A collector hands in bundles of reports: each is one batch, and each report counts once, ever."""

import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from aggregator.codec import encode
from aggregator.dap.ids import CollectionJobId
from aggregator.dap.messages import Report, UploadRequest
from aggregator.dap.report_errors import ReportError
from aggregator.service.config import HelperSettings
from aggregator.service.storage.jobs.collection_room import MOST_PENDING
from aggregator.service.storage.operator.interventions import abandon_collection_job
from aggregator.service.storage.operator.job_lists import list_waiting
from aggregator.service.telemetry.otlp import SpanRecorder, provider_of
from aggregator.service.telemetry.tracing import record_with
from tests.support.between import Between, refusal
from tests.support.bundles import LINGER_SECONDS, SIZE, Site, bound, bundle_task, dropped, sums
from tests.support.entropy import SeededEntropy
from tests.support.helper_jobs import errors_of, send_job
from tests.support.pair import NOW
from tests.support.tasks import ATTRIBUTION, NO_NOISE, make_task

pytestmark = pytest.mark.usefixtures("engine")

INVALID_SIZE = "urn:ietf:params:ppm:dap:error:invalidBatchSize"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = await Site.of(tmp_path)
    yield made
    await made.pair.close()


async def test_a_bundle_is_a_batch(site: Site) -> None:
    job = await site.begin()
    assert await site.hand_in(job, await site.pair.reports([1, 1, 0])) == []
    assert await site.hand_in(job, await site.pair.reports([1, 1])) == []
    result = await site.result(job)
    assert (result.report_count, result.values) == (5, (4,))


async def test_several_bundles_of_one_task_are_several_batches(tmp_path: Path) -> None:
    site = await Site.of(tmp_path, job_size=3)
    jobs: dict[str, int] = {}
    for ones in range(3):
        job = await site.begin()
        assert await site.hand_in(job, await site.pair.reports([1] * ones + [0] * 5)) == []
        jobs[job] = ones
    assert len(jobs) == 3
    for job, ones in jobs.items():
        result = await site.result(job)
        assert (result.report_count, result.values) == (ones + 5, (ones,))
    await site.pair.close()


async def test_a_bundle_that_fails_and_is_sent_again_counts(site: Site) -> None:
    reports = await site.pair.reports([1] * (SIZE - 1))
    first = await site.begin()
    assert await site.hand_in(first, reports) == []
    assert await site.failure(first) == "invalidBatchSize"
    assert (await dropped(site.pair.leader), await sums(site.pair.leader)) == ([True], 0)
    second = await site.begin()
    assert second != first
    reports += await site.pair.reports([0])
    assert await site.hand_in(second, reports) == []
    result = await site.result(second)
    assert (result.report_count, result.values) == (SIZE, (SIZE - 1,))
    third = await site.begin()
    assert await site.hand_in(third, reports) == ["report_replayed"] * SIZE
    assert await dropped(site.pair.leader) == await dropped(site.pair.helper) == [True, False]


@pytest.mark.parametrize(
    ("profile", "defers"), [("dap-18", True), ("dap-19", False), ("janus", False)]
)
async def test_a_bundle_comes_again_in_every_draft_and_to_a_helper_that_defers(
    tmp_path: Path, profile: str, *, defers: bool
) -> None:
    helper = HelperSettings(database="none", defer_jobs=defers)
    site = await Site.of(tmp_path, bundle_task(profile=profile), helper_settings=helper)
    reports = await site.pair.reports([1] * SIZE)
    for name, some, result in (("A" * 22, reports[1:], None), ("A" * 21 + "Q", reports, (SIZE,))):
        job = await site.begin(name)
        assert await site.hand_in(job, some) == []
        answer = await site.collect(job)
        if result is None:
            assert answer.problem_type == "invalidBatchSize"
        else:
            assert site.pair.open(answer.body).values == result
    assert await dropped(site.pair.helper) == [True, False]
    await site.pair.close()


async def test_jobs_are_told_apart_by_their_first_upload_or_their_name(site: Site) -> None:
    first = await site.begin()
    assert await site.begin() == first  # the answer was lost, perhaps
    assert await site.hand_in(first, await site.pair.reports([1])) == []
    second = await site.begin()
    assert second != first
    assert await site.begin() == second
    named = await site.begin("A" * 22)
    assert (await site.try_to_begin("A" * 22)).status == 201
    jobs = (first, second, named)
    for job in jobs:
        assert await site.hand_in(job, await site.pair.reports([1] * SIZE)) == []
    assert [(await site.result(job)).report_count for job in jobs] == [SIZE + 1, SIZE, SIZE]
    assert await site.begin() not in jobs


async def test_a_batch_is_closed_by_the_first_question_after_its_last_upload_has_lingered(
    site: Site,
) -> None:
    clock, job = site.pair.clock, await site.begin()
    clock.advance(10 * LINGER_SECONDS)
    for _ in range(3):
        assert (await site.look(job)).status == 202  # nothing has come yet
    for _ in range(3):
        assert await site.hand_in(job, await site.pair.reports([1] * SIZE)) == []
        for _ in range(LINGER_SECONDS - 1):
            clock.advance(1)
            assert (await site.look(job)).status == 202
        await site.pair.work()
    clock.advance(100 * LINGER_SECONDS)  # nobody asks, so nothing is over
    assert await site.hand_in(job, await site.pair.reports([0])) == []
    clock.advance(LINGER_SECONDS)
    assert (await site.look(job)).status == 202
    late = await site.pair.reports([1] * SIZE)
    assert await site.hand_in(job, late) == ["batch_collected"] * SIZE
    assert await site.hand_in(job, []) == ["batch_collected"]
    assert (await site.result(job)).report_count == 3 * SIZE + 1
    assert await site.hand_in(job, late) == ["batch_collected"] * SIZE
    other = await site.begin()  # they were not counted, so they may be handed in again
    assert await site.hand_in(other, late) == []
    assert (await site.result(other)).report_count == SIZE


async def test_a_clock_that_is_put_back_keeps_no_batch_open(site: Site) -> None:
    job = await site.begin()
    assert await site.hand_in(job, await site.pair.reports([1] * SIZE)) == []
    site.pair.clock.advance(-10 * LINGER_SECONDS)
    assert (await site.look(job)).status == 202
    await site.work()
    assert (await site.look(job)).status == 200


async def test_reports_come_below_a_job_and_nowhere_else(site: Site) -> None:
    reports = await site.pair.reports([1] * SIZE)
    body, url = encode(UploadRequest(tuple(reports))), site.pair.url_of("reports")
    answer = await site.pair.send("POST", url, UploadRequest.message, body)
    assert (answer.status, answer.problem_type) == (400, "invalidMessage")
    too_soon = await site.try_to_hand_in("A" * 22, reports)
    assert (too_soon.status, too_soon.headers["retry-after"]) == (404, "1")
    job = await site.begin("A" * 22)
    assert await site.hand_in(job, []) == []  # asks what a report would be told, and is no upload
    site.pair.clock.advance(LINGER_SECONDS)
    assert (await site.look(job)).status == 202
    assert await site.hand_in(job, reports) == []
    assert await site.delete(job) == 200
    gone = await site.try_to_hand_in(job, reports)
    assert (gone.status, "retry-after" in gone.headers) == (404, False)
    assert (await site.try_to_hand_in("no id", reports)).status == 404


async def test_reports_of_other_tasks_come_below_no_job(tmp_path: Path) -> None:
    site = await Site.of(tmp_path, bundle_task(batch_mode="leader_selected"))
    answer = await site.try_to_hand_in("A" * 22, await site.pair.reports([1]))
    assert (answer.status, answer.problem_type) == (400, "invalidMessage")
    assert (await site.try_to_begin("A" * 22)).status == 405
    await site.pair.close()


async def test_a_bundle_and_the_number_of_open_jobs_are_limited(tmp_path: Path) -> None:
    site = await Site.of(tmp_path, bundle_task(max_reports=SIZE))
    job = await site.begin()
    assert await site.hand_in(job, await site.pair.reports([1] * (SIZE + 2))) == [
        "report_dropped",
        "report_dropped",
    ]
    for number in range(1, MOST_PENDING):
        await site.begin(f"{number:021d}A")
    answer = await site.try_to_begin()
    assert (answer.status, answer.problem_type) == (429, "too-many-collections")
    assert (await site.result(job)).report_count == SIZE
    assert (await site.try_to_begin()).status == 201
    await site.pair.close()


async def test_a_report_is_in_one_bundle_of_two(site: Site) -> None:
    first, second = await site.begin("A" * 22), await site.begin("B" * 21 + "A")
    shared, alone = await site.pair.reports([1]), await site.pair.reports([0] * SIZE)
    assert await site.hand_in(first, shared + alone[:3] + shared) == []
    assert await site.hand_in(second, shared + alone[3:]) == ["report_replayed"]
    assert await site.hand_in(first, shared) == []  # only sent again
    rest = await site.pair.reports([0] * (SIZE - 1))
    assert await site.hand_in(second, rest) == []
    assert (await site.result(first)).values == (1,)
    assert (await site.result(second)).values == (0,)
    assert await site.hand_in(first, shared) == []
    assert await site.hand_in(second, shared) == ["batch_collected"]
    assert await site.hand_in(await site.begin(), shared) == ["report_replayed"]


async def test_other_bytes_under_a_used_id_never_count(site: Site) -> None:
    (report,), more = await site.pair.reports([1]), await site.pair.reports([1] * 2)
    first = await site.begin()
    assert await site.hand_in(first, [report, *more]) == []
    assert await site.failure(first) == "invalidBatchSize"
    (another,) = await site.pair.reports([1])
    forged = dataclasses.replace(another, report_metadata=report.report_metadata)
    second = await site.begin()
    assert await site.hand_in(second, [forged, *more]) == ["report_replayed"]
    assert await site.hand_in(second, [report, *await site.pair.reports([1])]) == []
    assert (await site.result(second)).report_count == SIZE


@pytest.mark.parametrize("closes", [False, True])
async def test_a_job_that_is_deleted_before_its_release_frees_its_reports(
    site: Site, *, closes: bool
) -> None:
    reports = await site.pair.reports([1] * SIZE)
    first = await site.begin()
    assert await site.hand_in(first, reports) == []
    await site.work()  # both aggregators have added them up
    if closes:
        await site.close(first)
    assert await site.delete(first) == 200
    assert await sums(site.pair.leader) == 0
    second = await site.begin()
    assert await site.hand_in(second, reports) == []
    assert (await site.result(second)).values == (SIZE,)
    assert await dropped(site.pair.leader) == await dropped(site.pair.helper) == [True, False]
    assert await sums(site.pair.helper) == 0


async def test_a_job_that_is_deleted_after_its_release_frees_nothing(site: Site) -> None:
    reports = await site.pair.reports([1] * SIZE)
    first = await site.begin()
    assert await site.hand_in(first, reports) == []
    assert (await site.result(first)).report_count == SIZE
    assert await site.delete(first) == 200
    second = await site.begin()
    assert await site.hand_in(second, reports) == ["report_replayed"] * SIZE
    assert await dropped(site.pair.leader) == await dropped(site.pair.helper) == [False]


async def test_a_job_that_fails_at_the_helper_frees_its_reports_at_both(site: Site) -> None:
    between = Between(site.pair)
    between.gate = lambda request: (
        refusal(400, INVALID_SIZE) if request.url.path.endswith("/aggregate_shares") else None
    )
    reports = await site.pair.reports([1] * SIZE)
    first = await site.begin()
    assert await site.hand_in(first, reports) == []
    assert await site.failure(first) == "invalidBatchSize"
    between.gate = None
    second = await site.begin()
    assert await site.hand_in(second, reports) == []
    assert (await site.result(second)).values == (SIZE,)
    assert await dropped(site.pair.leader) == await dropped(site.pair.helper) == [True, False]
    await between.close()


async def test_a_leader_that_reports_a_failure_after_the_helpers_share_frees_nothing(
    site: Site,
) -> None:
    between = Between(site.pair)
    between.change = lambda request, answer: (
        refusal(400, INVALID_SIZE) if request.url.path.endswith("/aggregate_shares") else answer
    )
    reports = await site.pair.reports([1] * SIZE)
    first = await site.begin()
    assert await site.hand_in(first, reports) == []
    assert await site.failure(first) == "invalidBatchSize"
    assert await dropped(site.pair.helper) == [False]  # it has drawn its noise
    between.change = None
    second = await site.begin()
    assert await site.hand_in(second, reports) == []  # the leader has drawn none
    assert await site.failure(second) == "invalidBatchSize"
    assert await dropped(site.pair.helper) == [False]
    assert await sums(site.pair.helper) == 0
    await between.close()


async def test_a_frozen_job_that_is_deleted_frees_nothing(site: Site) -> None:
    between = Between(site.pair)
    between.gate = lambda request: (
        refusal(503) if request.url.path.endswith("/aggregate_shares") else None
    )
    reports = await site.pair.reports([1] * SIZE)
    first = await site.begin()
    assert await site.hand_in(first, reports) == []
    await site.close(first)
    await site.pair.work()
    assert await site.delete(first) == 200
    second = await site.begin()
    assert await site.hand_in(second, reports) == ["report_replayed"] * SIZE
    await between.close()


@pytest.mark.parametrize(
    ("state", "returned", "error"),
    [
        ("open", False, None),
        ("waiting", False, None),
        ("frozen", True, None),
        ("frozen", False, "report_replayed"),
    ],
)
async def test_a_job_that_an_operator_abandons_frees_what_was_not_released(
    site: Site, state: str, *, returned: bool, error: str | None
) -> None:
    between, leader = Between(site.pair), site.pair.leader
    between.gate = lambda request: (
        refusal(503) if request.url.path.endswith("/aggregate_shares") else None
    )
    reports = await site.pair.reports([1] * SIZE)
    first = await site.begin()
    assert await site.hand_in(first, reports) == []
    await site.pair.work()
    if state != "open":
        await site.close(first)
    if state == "frozen":
        await site.pair.work()
    (job,) = await leader.database.read("list", list_waiting)
    assert job.state == state
    await leader.database.run(
        "abandon", lambda tx: abandon_collection_job(tx, job.job_id, "{}", returned=returned)
    )
    between.gate = None
    second = await site.begin()
    refused = [] if error is None else [error] * SIZE
    assert await site.hand_in(second, reports) == refused
    if error is None:
        assert (await site.result(second)).values == (SIZE,)
    await between.close()


async def test_reports_that_are_with_the_helper_are_free_when_it_has_answered(site: Site) -> None:
    between = Between(site.pair)
    between.gate = lambda _: refusal(503)
    reports = await site.pair.reports([1] * SIZE)
    first = await site.begin()
    assert await site.hand_in(first, reports) == []
    await site.pair.work()
    assert await site.delete(first) == 200
    second = await site.begin()
    assert await site.hand_in(second, reports) == ["report_too_early"] * SIZE
    between.gate = None
    await site.work()
    assert await site.hand_in(second, reports) == []
    assert (await site.result(second)).values == (SIZE,)
    await between.close()


async def lying_job(site: Site, reports: list[Report], batch: bytes) -> list[object]:
    """Send reports to the helper in a batch, as a leader may; return what it says of each."""
    extensions = site.pair.task.batching.job_extensions(batch)
    body = await site.pair.job(reports, NOW, extensions)
    return [*errors_of((await send_job(site.pair, body)).body)]


async def test_a_leader_that_offers_a_report_in_two_batches_has_it_counted_in_the_later(
    site: Site,
) -> None:
    shared, more = await site.pair.reports([1] * SIZE), await site.pair.reports([1] * 2)
    first, second = b"\1" * 32, b"\2" * 32
    assert await lying_job(site, shared, first) == [None] * SIZE
    assert await lying_job(site, [shared[0], *more], second) == [None] * 3
    assert await dropped(site.pair.helper) == [True]
    assert await lying_job(site, [shared[0]], first) == [ReportError.BATCH_COLLECTED]
    assert await bound(site.pair.helper) == SIZE + 2
    assert await lying_job(site, shared, second) == [ReportError.REPORT_REPLAYED] + [None] * 3
    assert await lying_job(site, shared, b"\3" * 32) == [None] * SIZE  # and so on, for no release
    assert await dropped(site.pair.helper) == [True, True]


async def test_other_bytes_under_a_used_id_free_nothing_at_the_helper(site: Site) -> None:
    site.pair.client_entropy = SeededEntropy(b"one client")
    reports = await site.pair.reports([1] * SIZE)
    site.pair.client_entropy = SeededEntropy(b"one client")
    others = await site.pair.reports([0] * SIZE)
    same = [each.report_metadata for each in reports] == [each.report_metadata for each in others]
    assert same
    assert await lying_job(site, reports, b"\1" * 32) == [None] * SIZE
    replayed: list[object] = [ReportError.REPORT_REPLAYED] * SIZE
    assert await lying_job(site, others, b"\2" * 32) == replayed
    assert await dropped(site.pair.helper) == []


async def test_of_a_bundle_of_twenty_five_those_count_that_pay_and_are_right_and_new(
    tmp_path: Path,
) -> None:
    kind = {"type": "Prio3L1BoundSum", "length": 3, "max_value": 8, "chunk_length": 4}
    mode = {"batch_mode": "collector_selected", "min_batch_size": 20, "task_info": ""}
    site = await Site.of(tmp_path, make_task(kind, NO_NOISE, attribution=ATTRIBUTION, **mode))
    pair, pays = site.pair, 500_000
    pair.min_dp_budget = pays
    released = await pair.reports([[0, 0, 8]] * 20, budget=2 * pays)
    first = await site.begin()
    assert await site.hand_in(first, released) == []
    assert (await site.result(first)).values == (0, 0, 160)

    valid = await pair.reports([[1, 0, 7]] * 20, budget=pays)
    (with_none, below, spoiled) = await pair.reports([[8, 0, 0]] * 3, budget=pays - 1)
    metadata = dataclasses.replace(with_none.report_metadata, public_extensions=())
    with_none = dataclasses.replace(with_none, report_metadata=metadata)
    # It pays, but its shares were sealed with another budget: no aggregator opens them.
    metadata = dataclasses.replace(
        spoiled.report_metadata, public_extensions=valid[0].report_metadata.public_extensions
    )
    spoiled = dataclasses.replace(spoiled, report_metadata=metadata)
    second = await site.begin()
    bundle = [with_none, *valid[:10], below, spoiled, *valid[10:], valid[3], released[0]]
    assert len(bundle) == 25
    refused = ["report_dropped", "report_dropped", "report_replayed"]
    assert await site.hand_in(second, bundle) == refused
    result = await site.result(second)
    assert (result.report_count, result.values) == (20, (20, 0, 140))
    await pair.close()


async def test_the_id_of_an_upload_is_in_no_log_and_no_trace(site: Site) -> None:
    name = "secretsecretsecretsecw"
    names = [name, CollectionJobId.parse(name).value.hex()]
    exporter = InMemorySpanExporter()
    provider = provider_of("leader")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    record_with(SpanRecorder(provider))
    try:
        with capture_logs() as logs:
            await site.try_to_hand_in(name, [])
            await site.begin(name)
            await site.hand_in(name, await site.pair.reports([1] * SIZE))
            await site.try_to_begin(name)
            await site.look(f"{site.pair.url_of('collection_jobs')}/{name}")
            unnamed = (await site.begin()).rsplit("/", 1)[-1]
            names += [unnamed, CollectionJobId.parse(unnamed).value.hex()]
            await site.delete(f"{site.pair.url_of('collection_jobs')}/{unnamed}")
    finally:
        record_with(None)
        provider.shutdown()
    assert any("/reports/..." in str(line) for line in logs)
    spans = [each.to_json() for each in exporter.get_finished_spans()]
    assert any("DELETE /tasks/{task_id}/collection_jobs" in each for each in spans)
    for each in names:
        assert each not in str(logs)
        assert each not in str(spans)
