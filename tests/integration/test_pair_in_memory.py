"""A leader and a helper in one process: what goes in comes out, once."""

import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.dap.messages import Report
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import ReportError
from aggregator.dp.filters import cost_of_dp
from aggregator.protocol.reports import prepare_reports, seal_report
from aggregator.protocol.task import Task
from aggregator.service.leader.job_creator import JobCreator
from aggregator.service.storage.jobs.aggregation_jobs import AGGREGATION_JOBS
from aggregator.service.storage.ledger.charges import list_ledger
from tests.support.entropy import SeededEntropy
from tests.support.helper_jobs import send_job
from tests.support.pair import COLLECTOR_TOKEN, LEADER_TOKEN, LEASE_SECONDS, NOW, Pair, Service
from tests.support.store import read_shares, units
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

HISTOGRAM = {"type": "Prio3Histogram", "length": 4, "chunk_length": 2}
SUM_VEC = {"type": "Prio3SumVec", "length": 3, "max_measurement": 100, "chunk_length": 4}
SECTIONS = {"type": "Prio3Sections", "sections": "onehot:3 given:0,2,100 atmost:2,2"}
"""Yes, no or no answer; hours of those who said yes or no; two labels."""
ANSWERS = [[1, 0, 0, 40, 0, 1, 1], [0, 1, 0, 0, 7, 0, 1], [0, 0, 1, 0, 0, 0, 0]]
SUMS = (1, 1, 1, 40, 7, 1, 2)


@asynccontextmanager
async def running(folder: Path, task: Task, job_size: int = 100) -> AsyncIterator[Pair]:
    pair = Pair(folder, task, job_size=job_size)
    await pair.provision()
    try:
        yield pair
    finally:
        await pair.close()


def own_draws(service: Service, task: Task) -> list[int]:
    """Return the noise that a service drew for its first release."""
    entropy = SeededEntropy(service.role.name.encode())
    entropy.bytes(32)  # its HPKE key pair came first
    return task.policy.mechanism.noise(task.prio3.circuit, entropy)


@pytest.mark.parametrize(
    ("vdaf", "measurements", "expected"),
    [
        (HISTOGRAM, [0, 1, 1, 3, 3, 3], (1, 2, 0, 3)),
        (SUM_VEC, [[1, 2, 3], [100, 0, 50], [7, 7, 7]], (108, 9, 60)),
        ({"type": "Prio3Count"}, [1, 0, 1, 1], (3,)),
        ({"type": "Prio3Sum", "max_measurement": 1000}, [1000, 1, 20], (1021,)),
        (SECTIONS, ANSWERS, SUMS),
    ],
    ids=["histogram", "sum_vec", "count", "sum", "sections"],
)
async def test_without_noise_the_result_is_the_true_sums(
    tmp_path: Path,
    vdaf: Mapping[str, str | int],
    measurements: Sequence[int | list[int]],
    expected: tuple[int, ...],
) -> None:
    async with running(tmp_path, make_task(vdaf)) as pair:
        errors = await pair.upload(await pair.reports(measurements))
        assert errors.status == ()
        result = await pair.collect()
        assert result.values == expected
        assert result.report_count == len(measurements)
        assert result.interval == pair.interval()
        assert result.half_width == 0


@pytest.mark.parametrize(
    ("vdaf", "measurements", "sums"),
    [
        (HISTOGRAM, [0, 1, 1, 3, 3, 3], (1, 2, 0, 3)),
        (SUM_VEC, [[1, 2, 3], [100, 0, 50], [7, 7, 7]], (108, 9, 60)),
        (SECTIONS, ANSWERS, SUMS),
    ],
    ids=["histogram", "sum_vec", "sections"],
)
async def test_with_noise_the_result_is_the_sums_and_each_aggregators_one_draw(
    tmp_path: Path,
    vdaf: Mapping[str, str | int],
    measurements: Sequence[int | list[int]],
    sums: tuple[int, ...],
) -> None:
    task = make_task(vdaf, LAPLACE)
    async with running(tmp_path, task) as pair:
        await pair.upload(await pair.reports(measurements))
        result = await pair.collect()
        draws = [own_draws(service, task) for service in (pair.leader, pair.helper)]
        assert draws[0] != draws[1]
        assert any(draws[0])
        assert result.values == tuple(map(sum, zip(sums, *draws, strict=True)))
        assert result.half_width > 0


async def test_a_release_by_section_is_one_release_and_one_charge_of_the_whole(
    tmp_path: Path,
) -> None:
    privacy = {**LAPLACE, "epsilon": "3/2", "shares": "1/4 1/2 1/4"}
    task = make_task(SECTIONS, privacy)
    async with running(tmp_path, task) as pair:
        await pair.upload(await pair.reports(ANSWERS))
        result = await pair.collect()
        draws = [own_draws(service, task) for service in (pair.leader, pair.helper)]
        assert result.values == tuple(map(sum, zip(SUMS, *draws, strict=True)))
        assert max(map(abs, draws[0][3:5])) > max(map(abs, draws[0][:3] + draws[0][5:]))
        assert result.guarantee.epsilon == Fraction(3, 2)
        for service in (pair.leader, pair.helper):
            (entry,) = await service.database.read("ledger", list_ledger)
            assert entry.charge.cost.epsilon == Fraction(3, 2)
            assert entry.charge.mechanism == "PureDpDiscreteLaplace"


async def test_the_reports_of_several_jobs_and_units_of_time_add_up(tmp_path: Path) -> None:
    async with running(tmp_path, make_task(), job_size=4) as pair:
        for units in range(3):
            seconds = NOW - units * TIME_PRECISION
            await pair.upload(await pair.reports([units] * 5, seconds))
        result = await pair.collect(pair.interval(NOW - 2 * TIME_PRECISION, 3))
        assert result.values == (5, 5, 5, 0)
        assert result.interval == pair.interval(NOW - 2 * TIME_PRECISION, 3)


async def test_the_results_interval_is_the_smallest_that_holds_all_reports(tmp_path: Path) -> None:
    async with running(tmp_path, make_task()) as pair:
        await pair.upload(await pair.reports([0, 1, 2]))
        result = await pair.collect(pair.interval(NOW - 50 * TIME_PRECISION, 51))
        assert result.interval == pair.interval()


async def test_a_replayed_report_is_counted_once_whether_alone_or_in_one_request(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, make_task()) as pair:
        reports = await pair.reports([0, 1, 2])
        await pair.upload([*reports, reports[0]])
        assert (await pair.upload(reports[1:])).status == ()
        await pair.work_until_idle()
        await pair.upload(reports)
        assert (await pair.collect()).values == (1, 1, 1, 0)
        assert pair.leader.counts(pair.task) == {"aggregated": 3}


async def test_what_a_forgetful_leader_replays_is_rejected_and_its_batch_not_released(
    tmp_path: Path,
) -> None:
    (tmp_path / "new").mkdir()
    async with running(tmp_path, make_task(privacy=LAPLACE)) as pair:
        reports = await pair.reports([0, 1, 2, 3])
        await pair.upload(reports[:1])
        await pair.work_until_idle()
    for name in ("helper.sqlite", "helper.sqlite.keys", "helper.sqlite.journal"):
        (tmp_path / name).rename(tmp_path / "new" / name)
    async with running(tmp_path / "new", make_task(privacy=LAPLACE)) as pair:
        pair.client_entropy = SeededEntropy(b"another client")
        await pair.upload(reports)  # the new leader's seeded HPKE key pair is the old one's
        await pair.work_until_idle()
        assert pair.leader.counts(pair.task) == {
            "aggregated": 3,
            "report_replayed": 1,
        }
        asked = await pair.ask()
        await pair.work_until_idle()
        refused = await pair.poll(asked.headers["location"])
        assert refused.problem_type == "batchMismatch"
        for service in (pair.leader, pair.helper):
            assert await service.database.read("ledger", list_ledger) == []
        # The batch is open again: later reports still count.
        await pair.upload(await pair.reports([1]))
        await pair.work_until_idle()
        assert pair.leader.counts(pair.task)["aggregated"] == 4


async def test_reports_that_do_not_open_or_verify_are_rejected_alone(tmp_path: Path) -> None:
    async with running(tmp_path, make_task()) as pair:
        good = await pair.reports([0, 1, 2])
        other_task = make_task(task_info="another")
        (undecryptable,) = await pair.reports([3], task=other_task)
        forged = await _forged_report(pair)
        await pair.upload([good[0], undecryptable, good[1], forged, good[2]])
        assert (await pair.collect()).values == (1, 1, 1, 0)
        leader = pair.leader.counts(pair.task)
        assert leader == {"aggregated": 3, "hpke_decrypt_error": 1, "vdaf_verify_error": 1}
        helper = pair.helper.counts(pair.task)
        assert helper == {"aggregated": 3, "vdaf_verify_error": 1}


async def _forged_report(pair: Pair) -> Report:
    """Return a report whose leader's share was altered before it was sealed: its proof fails."""
    (prepared,) = prepare_reports(pair.task, [3], pair.task.time(NOW), pair.client_entropy)
    share = bytearray(prepared.leader_input_share)
    share[0] ^= 1
    forged = dataclasses.replace(prepared, leader_input_share=bytes(share))
    return seal_report(pair.task, forged, *await pair.configs(), pair.client_entropy)


async def test_the_same_request_gets_the_same_job_and_the_same_sealed_bytes(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, make_task(privacy=LAPLACE)) as pair:
        await pair.upload(await pair.reports([0, 1, 2]))
        first = await pair.ask()
        again = await pair.ask()
        assert first.headers["location"] == again.headers["location"]
        assert "retry-after" in first.headers
        assert first.body == b""
        await pair.work_until_idle()
        finished = await pair.poll(first.headers["location"])
        assert finished.body
        assert (await pair.poll(first.headers["location"])).body == finished.body
        assert (await pair.ask()).body == finished.body
        pair.leader.restart()
        pair.helper.restart()
        assert (await pair.ask()).body == finished.body


async def test_a_release_is_charged_once_and_its_unnoised_shares_are_gone(tmp_path: Path) -> None:
    task = make_task(privacy=LAPLACE)
    async with running(tmp_path, task) as pair:
        await pair.upload(await pair.reports([0, 1, 2]))
        await pair.collect()
        for service in (pair.leader, pair.helper):
            (entry,) = await service.database.read("ledger", list_ledger)
            assert entry.charge.mechanism == "PureDpDiscreteLaplace"
            # A histogram's release is two mechanisms of epsilon/2.
            assert entry.charge.cost == cost_of_dp(Fraction(1, 4), count=2)
            assert entry.charged_at is not None
            shares = await service.database.read(
                "shares", lambda tx: read_shares(tx, task.task_id.value, units(0, 2**63))
            )
            assert shares == []


async def test_reports_for_a_collected_batch_are_refused_by_name(tmp_path: Path) -> None:
    async with running(tmp_path, make_task()) as pair:
        await pair.upload(await pair.reports([0, 1, 2]))
        await pair.collect()
        late = await pair.reports([3])
        (status,) = (await pair.upload(late)).status
        assert DAP_18.report_error(status.error) is ReportError.BATCH_COLLECTED
        assert status.id == late[0].report_metadata.report_id


async def test_a_counted_report_that_is_sent_again_after_collection_is_not_refused(
    tmp_path: Path,
) -> None:
    """The client never heard the answer: told of a refusal, it might send the measurement anew."""
    async with running(tmp_path, make_task()) as pair:
        reports = await pair.reports([0, 1, 2])
        await pair.upload(reports)
        await pair.collect()
        late = await pair.reports([3])
        (status,) = (await pair.upload([*reports, *late])).status
        assert status.id == late[0].report_metadata.report_id


async def test_a_second_batch_of_the_task_is_collected_by_itself(tmp_path: Path) -> None:
    async with running(tmp_path, make_task()) as pair:
        await pair.upload(await pair.reports([0, 1, 2]))
        earlier = NOW - TIME_PRECISION
        await pair.upload(await pair.reports([3, 3, 3, 3], earlier))
        assert (await pair.collect()).values == (1, 1, 1, 0)
        assert (await pair.collect(pair.interval(earlier))).values == (0, 0, 0, 4)


async def test_a_deleted_collection_job_is_forgotten_and_its_batch_never_collected_again(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, make_task()) as pair:
        await pair.upload(await pair.reports([0, 1, 2]))
        await pair.collect()
        location = (await pair.ask()).headers["location"]
        url = f"https://leader.example{location}"
        assert (await pair.send("DELETE", url, token=COLLECTOR_TOKEN)).status == 200
        gone = await pair.poll(location)
        assert (gone.status, gone.problem_type) == (404, "unrecognized-collection-job")
        again = await pair.ask()
        assert again.problem_type == "batchOverlap"


async def test_too_small_a_batch_fails_and_can_be_asked_for_again_when_it_has_grown(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, make_task(privacy=LAPLACE)) as pair:
        await pair.upload(await pair.reports([0, 1]))
        asked = await pair.ask()
        await pair.work_until_idle()
        failed = await pair.poll(asked.headers["location"])
        assert (failed.status, failed.problem_type) == (400, "invalidBatchSize")
        assert await pair.leader.database.read("ledger", list_ledger) == []
        await pair.upload(await pair.reports([2]))
        assert (await pair.collect()).report_count == 3


async def test_the_helper_answers_the_same_aggregation_request_with_the_same_bytes(
    tmp_path: Path,
) -> None:

    async with running(tmp_path, make_task()) as pair:
        body = await pair.job(await pair.reports([0, 1, 2]))

        async def ask() -> tuple[int, bytes, str]:
            answer = await send_job(pair, body)
            return answer.status, answer.body, answer.headers["location"]

        first = await ask()
        pair.helper.restart()
        assert await ask() == first
        again = await pair.send(
            "GET", f"https://helper.example{first[2]}?step=0", token=LEADER_TOKEN
        )
        assert again.body == first[1]
        helper = pair.helper.counts(pair.task)
        assert helper == {"aggregated": 3}


async def test_an_abandoned_lease_is_taken_up_when_it_expires(tmp_path: Path) -> None:

    async with running(tmp_path, make_task()) as pair:
        await pair.upload(await pair.reports([0, 1, 2]))

        await JobCreator(pair.leader.runtime, job_size=100, linger_seconds=0).run_once()
        await pair.leader.database.run(
            "lease and die", lambda tx: AGGREGATION_JOBS.lease(tx, 10, LEASE_SECONDS)
        )
        assert await pair.work() == 0
        pair.clock.advance(LEASE_SECONDS)
        assert await pair.work() == 1
        assert (await pair.collect()).report_count == 3
