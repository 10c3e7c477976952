"""What may be collected, what it costs, and the one way in which a share leaves an aggregator."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

import pytest

from aggregator.codec import encode
from aggregator.collector.results.result import UnusableResult, collection_request, open_result
from aggregator.dap.hpke import aggregate_share_info, generate_keypair, seal
from aggregator.dap.messages import (
    CollectionJobReq,
    CollectionJobResp,
    TimeIntervalQuery,
    aggregate_share_aad,
)
from aggregator.dap.problems import BatchInvalid, BatchMismatch, BudgetExceeded, InvalidBatchSize
from aggregator.dap.profile import DAP_18, Role
from aggregator.dap.times import Interval, Time
from aggregator.protocol.batches import BatchTotals
from aggregator.protocol.buckets import add_to_agg_share, merge_agg_shares
from aggregator.protocol.budget import check_budget, cost
from aggregator.protocol.collection import (
    aggregate_share_request,
    check_agreement,
    check_size,
    release,
)
from aggregator.protocol.task import Task
from aggregator.protocol.time_interval import batch_of_interval
from field import Vector
from tests.support.entropy import SeededEntropy
from tests.support.tasks import LAPLACE, NO_NOISE, TIME_PRECISION, collector_keypair, make_task

INTERVAL = Interval.of(5, 2)
TIMES = (Time(5), Time(6))
REQUEST = CollectionJobReq(TimeIntervalQuery(INTERVAL))


def share_of(task: Task, values: Sequence[int]) -> Vector:
    return Vector.from_ints(task.prio3.field, values)


def released(
    task: Task,
    leader: Sequence[int],
    helper: Sequence[int],
    *,
    request: CollectionJobReq = REQUEST,
) -> CollectionJobResp:
    """Return the response in which both aggregators released these shares."""
    sealed = [
        release(
            task,
            role,
            share_of(task, values),
            request,
            SeededEntropy(role.name.encode()),
        )
        for role, values in ((Role.LEADER, leader), (Role.HELPER, helper))
    ]
    return CollectionJobResp(10, INTERVAL, *sealed)


def draws(task: Task, role: Role) -> list[int]:
    return task.policy.mechanism.noise(task.prio3.circuit, SeededEntropy(role.name.encode()))


def test_without_noise_the_collector_reads_the_sum_of_the_shares() -> None:
    task = make_task()
    p = task.prio3.field.modulus
    response = released(task, [p - 5, 1, 2, 3], [8, 1, 1, 1])
    result = open_result(task, collector_keypair(), REQUEST, response)
    assert result.values == (3, 2, 3, 4)
    assert (result.half_width, result.joint_half_width) == (0, 0)
    assert result.mechanism == "None"


def test_exact_sums_that_so_many_reports_cannot_have_are_no_result() -> None:
    """A helper that adds the reports of more batches than one would have its residues believed."""
    task = make_task()
    most = open_result(
        task, collector_keypair(), REQUEST, released(task, [9, 0, 0, 0], [1, 0, 0, 0])
    )
    assert most.values == (10, 0, 0, 0)
    with pytest.raises(UnusableResult, match="have not added the same reports"):
        open_result(task, collector_keypair(), REQUEST, released(task, [9, 0, 0, 0], [2, 0, 0, 0]))


def test_with_noise_the_collector_reads_signed_sums_with_one_draw_of_each_aggregator() -> None:
    task = make_task(privacy=LAPLACE)
    response = released(task, [0, 0, 0, 0], [0, 0, 0, 0])
    result = open_result(task, collector_keypair(), REQUEST, response)
    expected = [
        mine + theirs
        for mine, theirs in zip(draws(task, Role.LEADER), draws(task, Role.HELPER), strict=True)
    ]
    assert result.values == tuple(expected)
    assert min(result.values) < 0
    assert result.guarantee.epsilon == Fraction(1, 2)
    assert 0 < result.half_width < result.joint_half_width


def test_a_scalar_result_has_one_value() -> None:
    task = make_task({"type": "Prio3Sum", "max_measurement": 9})
    result = open_result(task, collector_keypair(), REQUEST, released(task, [40], [2]))
    assert result.values == (42,)


def test_every_release_of_a_noisy_task_draws_anew() -> None:
    task = make_task(privacy=LAPLACE)
    entropy = SeededEntropy(1)
    results = set()
    for _ in range(3):
        sealed = release(task, Role.LEADER, share_of(task, [0] * 4), REQUEST, entropy)
        results.add(sealed.payload)
    assert len(results) == 3


@pytest.mark.parametrize("view", ["task", "request", "swapped", "key"])
def test_a_share_opens_only_under_the_view_that_it_was_released_under(view: str) -> None:
    task = make_task(privacy=LAPLACE)
    response = released(task, [0] * 4, [0] * 4)
    other_task, request, keypair = task, REQUEST, collector_keypair()
    match view:
        case "task":
            other_task = make_task(privacy={**LAPLACE, "epsilon": "1"})
        case "request":
            request = CollectionJobReq(TimeIntervalQuery(Interval.of(5, 1)))
        case "swapped":
            response = dataclasses.replace(
                response,
                leader_encrypted_agg_share=response.helper_encrypted_agg_share,
                helper_encrypted_agg_share=response.leader_encrypted_agg_share,
            )
        case _:
            keypair = generate_keypair(7, SeededEntropy(b"another collector"))
    with pytest.raises(UnusableResult, match="does not open"):
        open_result(other_task, keypair, request, response)


@pytest.mark.parametrize("plaintext", [b"", bytes(64)[:-1], b"\xff" * 64])
def test_a_share_that_opens_but_does_not_decode_is_no_result(plaintext: bytes) -> None:
    task = make_task(privacy=LAPLACE)
    aad = aggregate_share_aad(task.task_id, task.configuration_bytes, encode(REQUEST))
    forged = seal(
        task.collector_hpke_config,
        aggregate_share_info(DAP_18.tag, Role.HELPER),
        aad,
        plaintext,
        SeededEntropy(b"malicious helper"),
    )
    response = dataclasses.replace(
        released(task, [0] * 4, [0] * 4), helper_encrypted_agg_share=forged
    )
    with pytest.raises(UnusableResult, match="helper's aggregate share does not decode"):
        open_result(task, collector_keypair(), REQUEST, response)


@pytest.mark.parametrize(
    ("claim", "match"),
    [
        ({"report_count": 2}, "holds 2 reports; a batch of the task may hold from 3 to 1000"),
        ({"report_count": 0}, "holds 0 reports"),
        ({"report_count": 1001}, "holds 1001 reports"),
        ({"report_count": 2**64 - 1}, "holds 18446744073709551615 reports"),
        ({"interval": Interval.of(4, 2)}, "beyond what was asked for"),
        ({"interval": Interval.of(5, 3)}, "beyond what was asked for"),
        ({"interval": Interval.of(5, 0)}, "beyond what was asked for"),
        ({"interval": Interval.of(2**64 - 2, 1)}, "beyond what was asked for"),
    ],
)
def test_what_no_batch_of_the_query_can_be_is_no_result(
    claim: dict[str, int | Interval], match: str
) -> None:
    task = make_task()
    response = dataclasses.replace(released(task, [0] * 4, [0] * 4), **claim)
    with pytest.raises(UnusableResult, match=match):
        open_result(task, collector_keypair(), REQUEST, response)


def test_the_request_for_an_interval_is_always_the_same_bytes() -> None:
    named = {"start": 5 * TIME_PRECISION, "end": 7 * TIME_PRECISION}
    assert encode(collection_request(make_task(), named)) == encode(REQUEST)


@pytest.mark.parametrize(("count", "problem"), [(2, InvalidBatchSize), (1001, BatchInvalid)])
def test_a_batch_that_is_too_small_or_too_large_is_not_released(
    count: int, problem: type[Exception]
) -> None:
    with pytest.raises(problem):
        check_size(make_task(), count)


@pytest.mark.parametrize("count", [3, 1000])
def test_the_limits_themselves_are_allowed(count: int) -> None:
    check_size(make_task(), count)


def test_aggregators_that_disagree_on_count_or_checksum_release_nothing() -> None:
    task = make_task()
    totals = BatchTotals(5, bytes(31) + b"\1", TIMES)
    request = aggregate_share_request(task, REQUEST, batch_of_interval(INTERVAL), totals)
    check_agreement(task, request, totals)
    for own in (dataclasses.replace(totals, report_count=4), BatchTotals(5, bytes(32), TIMES)):
        with pytest.raises(BatchMismatch):
            check_agreement(task, request, own)
    with pytest.raises(InvalidBatchSize):
        check_agreement(task, request, dataclasses.replace(totals, report_count=2))


def test_releases_cost_epsilon_each_however_few_a_person_says_to_be_in() -> None:
    task = make_task(privacy={**LAPLACE, "max_batches_per_person": 3})
    assert [cost(task, n) for n in (0, 1, 3, 10)] == [0, Fraction(1, 2), Fraction(3, 2), 5]
    assert cost(make_task(), 10) == 0


@pytest.mark.parametrize(
    ("privacy", "allowed"),
    [
        ({**LAPLACE, "budget": "1"}, 2),
        ({**LAPLACE, "budget": "1.49"}, 2),
        ({**LAPLACE, "budget": "1/3"}, 0),
        ({**LAPLACE, "budget": "1", "max_batches_per_person": 2}, 2),
        (LAPLACE, None),
        (NO_NOISE, None),
    ],
)
def test_a_release_that_the_budget_does_not_cover_is_refused(
    privacy: dict[str, str | int], allowed: int | None
) -> None:
    task = make_task(privacy=privacy)
    for releases in range(10 if allowed is None else allowed):
        check_budget(task, releases)
    if allowed is not None:
        with pytest.raises(BudgetExceeded, match=r"epsilon 1/2; of the task's .* is left"):
            check_budget(task, allowed)


def test_stored_shares_add_up_and_no_share_is_zero() -> None:
    task = make_task()
    prio3 = task.prio3
    first = add_to_agg_share(prio3, None, share_of(task, [1, 2, 3, 4]))
    both = add_to_agg_share(prio3, first, share_of(task, [1, 1, 1, prio3.field.modulus - 4]))
    assert prio3.decode_agg_share(both).to_ints() == [2, 3, 4, 0]
    assert merge_agg_shares(prio3, [first, both]).to_ints() == [3, 5, 7, 4]
    assert merge_agg_shares(prio3, []).to_ints() == [0, 0, 0, 0]
