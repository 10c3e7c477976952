"""A collection of attribution has its own epsilon: bound, at most what was agreed to, counted."""

import dataclasses
from fractions import Fraction

import pytest

from aggregator.codec import encode
from aggregator.collector.documents import result_document
from aggregator.collector.results import Batch
from aggregator.collector.results.result import UnusableResult, collection_request, open_result
from aggregator.dap.attribution import MILLION, budget_of, min_dp_budget
from aggregator.dap.extensions import Extension, Extensions
from aggregator.dap.messages import CollectionJobReq, CollectionJobResp, TimeIntervalQuery
from aggregator.dap.problems import (
    BatchInvalid,
    InvalidExtension,
    Problem,
    TaskRefused,
    UnsupportedExtension,
)
from aggregator.dap.profile import CODE_POINTS, Role
from aggregator.dap.times import Interval, Time
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.filters import Cost
from aggregator.errors import ParameterError
from aggregator.protocol.attribution import as_collected, with_budget
from aggregator.protocol.batches import BatchTotals
from aggregator.protocol.budget import releases_at
from aggregator.protocol.collection import (
    aggregate_share_request,
    check_aggregate_share_request,
    check_agreement,
    check_collection_request,
    check_totals,
    release,
)
from aggregator.protocol.task import Task
from aggregator.protocol.time_interval import batch_of_interval
from field import Vector
from tests.support.entropy import SeededEntropy
from tests.support.tasks import ATTRIBUTION, NO_NOISE, collector_keypair, make_task

INTERVAL = Interval.of(5, 2)
NOW = 1_000_000
MOST = 2 * MILLION
HISTOGRAM = {"type": "Prio3L1BoundSum", "length": 4, "max_value": 100, "chunk_length": 5}
EXACT = make_task(HISTOGRAM, NO_NOISE, attribution=ATTRIBUTION)


def task_of(epsilon: str = "2", **settings: str | int) -> Task:
    laplace = {"mechanism": "PureDpDiscreteLaplace", "epsilon": epsilon, "bound": False}
    return make_task(HISTOGRAM, laplace, attribution=ATTRIBUTION, **settings)


TASK = task_of()


def asking(budget: int | None, extensions: Extensions = ()) -> CollectionJobReq:
    asked = extensions if budget is None else min_dp_budget(budget)
    return CollectionJobReq(TimeIntervalQuery(INTERVAL), extensions=asked)


def refused_by_both(task: Task, request: CollectionJobReq) -> Problem:
    """Return why the leader refuses a request, and make sure that the helper does, too."""
    batch = batch_of_interval(INTERVAL)
    to_helper = aggregate_share_request(task, request, batch, BatchTotals())
    with pytest.raises(Problem) as at_leader:
        check_collection_request(task, request, NOW)
    with pytest.raises(Problem) as at_helper:
        check_aggregate_share_request(task, to_helper)
    assert type(at_leader.value) is type(at_helper.value)
    return at_leader.value


def sealed(task: Task, request: CollectionJobReq, role: Role, values: list[int]) -> object:
    share = Vector.from_ints(task.prio3.field, values)
    return release(task, role, share, request, SeededEntropy(role.name.encode()))


def released(of_leader: CollectionJobReq, of_helper: CollectionJobReq) -> CollectionJobResp:
    """Return what two aggregators release that were told these requests."""
    shares = [
        sealed(TASK, request, role, [0] * 4)
        for role, request in ((Role.LEADER, of_leader), (Role.HELPER, of_helper))
    ]
    return CollectionJobResp(10, INTERVAL, *shares)  # type: ignore[arg-type]  # ciphertexts


@pytest.mark.parametrize(
    ("extensions", "named"),
    [
        ((), "needs this extension"),
        ((Extension(CODE_POINTS.min_dp_budget, b""),), "must be 4 bytes, not 0"),
        ((Extension(CODE_POINTS.min_dp_budget, bytes(3)),), "must be 4 bytes, not 3"),
        ((Extension(CODE_POINTS.min_dp_budget, bytes(5)),), "must be 4 bytes, not 5"),
        ((Extension(CODE_POINTS.min_dp_budget, bytes(4)),), "must be above 0"),
    ],
)
@pytest.mark.parametrize("task", [TASK, EXACT], ids=["noised", "exact"])
def test_a_collection_without_a_budget_is_refused_by_both_aggregators(
    task: Task, extensions: Extensions, named: str
) -> None:
    problem = refused_by_both(task, asking(None, extensions))
    assert isinstance(problem, InvalidExtension)
    assert named in problem.detail


def test_an_extension_that_the_tasks_collections_have_not_is_not_supported() -> None:
    more = (*min_dp_budget(1), Extension(CODE_POINTS.min_dp_budget + 1, b""))
    for task, extensions, unknown in (
        (TASK, more, CODE_POINTS.min_dp_budget + 1),
        (make_task(HISTOGRAM), min_dp_budget(1), CODE_POINTS.min_dp_budget),
    ):
        problem = refused_by_both(task, asking(None, extensions))
        assert isinstance(problem, UnsupportedExtension)
        assert problem.unsupported_extensions == (unknown,)


def test_epsilon_is_at_most_what_each_aggregator_agreed_to_and_says_so_by_itself() -> None:
    assert check_collection_request(TASK, asking(MOST), NOW) is not None
    problem = refused_by_both(TASK, asking(MOST + 1))
    assert isinstance(problem, TaskRefused)
    assert problem.detail == "min_dp_budget: epsilon may be 2 here, not 2000001/1000000"
    # The policies are not bound, so each has its own.
    strict = task_of("1/2")
    assert strict.configuration_bytes == TASK.configuration_bytes
    to_helper = aggregate_share_request(
        TASK, asking(MOST), batch_of_interval(INTERVAL), BatchTotals()
    )
    check_aggregate_share_request(TASK, to_helper)
    with pytest.raises(TaskRefused, match="may be 1/2 here, not 2"):
        check_aggregate_share_request(strict, to_helper)
    with pytest.raises(TaskRefused):
        sealed(strict, asking(MOST), Role.HELPER, [0] * 4)


def test_noise_that_could_wrap_around_the_field_is_refused_whatever_the_task_may() -> None:
    laplace = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1", "bound": False}
    wide = {"type": "Prio3Sum", "max_measurement": 2**45}
    task = make_task(wide, laplace, attribution=ATTRIBUTION)
    assert check_collection_request(task, asking(MILLION), NOW) is not None
    problem = refused_by_both(task, asking(1))
    assert isinstance(problem, InvalidExtension)
    assert problem.detail.startswith("min_dp_budget: ")


@pytest.mark.parametrize("budget", [1, 500_000, MOST])
def test_each_aggregators_noise_is_that_of_the_collections_epsilon(budget: int) -> None:
    request = asking(budget)
    collected = as_collected(TASK, request)
    assert collected.policy.mechanism == PureDpDiscreteLaplace(Fraction(budget, MILLION))
    scale = Fraction(2 * 100 * MILLION, budget)
    assert collected.policy.mechanism.scale(TASK.prio3.circuit) == scale
    result = open_result(TASK, collector_keypair(), request, released(request, request))
    noise = [
        collected.policy.mechanism.noise(TASK.prio3.circuit, SeededEntropy(role.name.encode()))
        for role in (Role.LEADER, Role.HELPER)
    ]
    assert result.values == tuple(a + b for a, b in zip(*noise, strict=True))


def test_error_bars_and_promise_are_those_of_the_collections_epsilon() -> None:
    half_widths = []
    for budget in (500_000, MOST):
        request = asking(budget)
        result = open_result(TASK, collector_keypair(), request, released(request, request))
        assert result.guarantee.epsilon == Fraction(budget, MILLION)
        document = result_document(TASK, result)
        assert document["min_dp_budget"] == budget
        intervals = {
            batch.quantities()[0].interval(result.confidence)
            for batch in (Batch.of_result(TASK, result), Batch.of_document(TASK, document))
        }
        (interval,) = intervals
        assert interval.high - interval.low == 2 * result.half_width
        half_widths.append(result.half_width)
    small, large = half_widths
    assert 3.9 < small / large < 4.1


@pytest.mark.parametrize("told", [500_000, 1, MOST])
def test_a_leader_that_tells_its_helper_another_budget_gets_a_share_that_does_not_open(
    told: int,
) -> None:
    asked = asking(MILLION)
    with pytest.raises(UnusableResult, match="helper's aggregate share does not open"):
        open_result(TASK, collector_keypair(), asked, released(asked, asking(told)))
    with pytest.raises(UnusableResult, match="leader's aggregate share does not open"):
        open_result(TASK, collector_keypair(), asked, released(asking(told), asked))


def test_a_batch_with_a_report_that_pays_too_little_is_released_by_neither() -> None:
    totals = BatchTotals(5, bytes(32), (Time(5), Time(6)), 700_000)
    for budget in (1, 700_000):
        request = asking(budget)
        check_totals(TASK, request, totals)
        batch = batch_of_interval(INTERVAL)
        check_agreement(TASK, aggregate_share_request(TASK, request, batch, totals), totals)
    request = asking(700_001)
    with pytest.raises(BatchInvalid, match="privacy_budget of 700000, and min_dp_budget is 700001"):
        check_totals(TASK, request, totals)
    # A leader that let it in, and says nothing of it.
    claimed = dataclasses.replace(totals, least_budget=None)
    to_helper = aggregate_share_request(TASK, request, batch_of_interval(INTERVAL), claimed)
    with pytest.raises(BatchInvalid, match="min_dp_budget is 700001"):
        check_agreement(TASK, to_helper, totals)


def test_the_least_budget_of_several_buckets_is_that_of_all() -> None:
    one = BatchTotals(1, bytes(32), (Time(5), Time(5)), 7)
    other = dataclasses.replace(one, least_budget=3)
    none = dataclasses.replace(one, least_budget=None)
    assert (one + other).least_budget == (other + one + none).least_budget == 3
    assert (none + none).least_budget is (BatchTotals() + none).least_budget is None


def test_exact_results_stay_exact_and_their_reports_pay_all_the_same() -> None:
    request = asking(MILLION)
    assert as_collected(EXACT, request) is EXACT
    with pytest.raises(BatchInvalid):
        check_totals(EXACT, request, BatchTotals(5, bytes(32), (Time(5), Time(6)), 1))


def test_a_task_without_attribution_is_collected_as_it_is() -> None:
    task = make_task(HISTOGRAM)
    assert as_collected(task, asking(None)) is task


def test_a_ledger_adds_up_the_epsilon_of_each_collection() -> None:
    costs = [Cost(Fraction(each, 4)) for each in (1, 2, 1, 8)]
    releases = releases_at(TASK, costs)
    assert sum((each.epsilon_at(Fraction(0)) for each in releases), Fraction(0)) == 3
    assert sum(each.count for each in releases) == 4


def test_a_ledger_has_releases_of_before_another_agreement_at_what_they_cost() -> None:
    """The journal brings them back, whatever the task would cost when it comes again."""
    costs = [Cost(Fraction(5)), None, Cost(Fraction(1))]
    for task in (TASK, EXACT):
        releases = releases_at(task, costs)
        assert [each.epsilon_at(Fraction(0)) for each in releases] == [5, None, 1]
        assert [each.promises_nothing for each in releases] == [False, True, False]


def test_a_collector_names_a_budget_that_is_one_and_that_it_agreed_to() -> None:
    named = {"start": 500, "end": 700}
    request = collection_request(TASK, {**named, "min_dp_budget": 500_000})
    assert encode(request) == encode(asking(500_000))
    assert budget_of(Fraction(1, 2)) == 500_000
    for budget in (0, 2**32):
        with pytest.raises(BatchInvalid, match="min_dp_budget: must be from 1 to"):
            collection_request(TASK, {**named, "min_dp_budget": budget})
    with pytest.raises(TaskRefused):
        collection_request(TASK, {**named, "min_dp_budget": MOST + 1})
    with pytest.raises(InvalidExtension):
        collection_request(TASK, named)
    with pytest.raises(BatchInvalid):
        collection_request(make_task(HISTOGRAM), {**named, "min_dp_budget": 1})
    with pytest.raises(ParameterError, match="whole number of millionths"):
        budget_of(Fraction(1, 3))


def test_nothing_but_the_epsilon_of_a_task_changes_with_a_collection() -> None:
    collected = with_budget(TASK, 1)
    assert dataclasses.replace(collected, policy=TASK.policy) == TASK
    assert collected.configuration_bytes == TASK.configuration_bytes
