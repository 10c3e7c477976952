"""The fused kernels against the general `query_shares`, which defines what they compute."""

import dataclasses
import itertools

import numpy as np
import pytest

from aggregator.vdaf import flp
from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    L1BoundSum,
    Measurement,
    MultihotCountVec,
    Sum,
    SumVec,
)
from aggregator.vdaf.kernels import dispatch
from aggregator.vdaf.kernels.arrays import IRREGULAR, Inputs, Outputs, ShareMessages
from aggregator.vdaf.kernels.chunks import arrays as chunk_arrays
from aggregator.vdaf.kernels.chunks import plan as chunk_plan
from aggregator.vdaf.kernels.chunks import query as chunk_query
from aggregator.vdaf.prio3 import Prio3
from aggregator.vdaf.randomness import Randomness
from aggregator.vdaf.verification import QueriedShares, ReportShares, query_shares
from field import FIELD64, FIELD128
from field.lanes import LaneWidth, field128, lane_width, limbs128
from tests.support.kernel_runs import (
    CTX,
    VERIFY_KEY,
    agree,
    all_values,
    by_kernel,
    queried,
    shares_of,
    values,
)
from tests.support.lane_widths import INTERPRETED, ONE_LAYOUT, QUICKEST, width_of

width = width_of(*INTERPRETED, *QUICKEST)


def ones(length: int, count: int) -> list[int]:
    return [1] * count + [0] * (length - count)


CIRCUITS: list[tuple[Circuit, Measurement]] = [
    (Histogram(1, 1), 0),
    (Histogram(2, 9), 1),
    (Histogram(7, 3), 6),
    (Histogram(8, 4), 0),
    (Histogram(100, 10), 99),
    (Histogram(63, 1), 62),
    (Histogram(64, 1), 62),
    (SumVec(1, 1, 1), [1]),
    (SumVec(5, 1, 2), ones(5, 3)),
    (SumVec(3, 255, 7), [255, 0, 128]),
    (SumVec(4, 10, 3), [10, 9, 0, 8]),
    (SumVec(9, 200, 5), [200, 199, 128, 127, 73, 72, 1, 0, 200]),
    (SumVec(2, 2**28 - 1, 9), [2**28 - 1, 1]),
    (SumVec(2, 2**28, 9), [2**28, 1]),
    (SumVec(2, 2**28 + 1, 9), [2**28 + 1, 2**27]),
    (SumVec(2, 2**64 - 1, 11), [2**64 - 1, 2**63]),
    (MultihotCountVec(7, 3, 4), ones(7, 3)),
    (MultihotCountVec(10, 10, 4), ones(10, 10)),
    (MultihotCountVec(9, 1, 20), ones(9, 0)),
    (L1BoundSum(5, 12, 4), [1, 0, 11, 0, 0]),
    (L1BoundSum(150, 7, 30), ones(150, 7)),
    (Count(), 1),
    (Sum(1), 1),
    (Sum(2), 2),
    (Sum(255), 200),
    (Sum(1337), 1336),
    (Sum(2**32 - 1), 2**31),
    (Sum(2**63 - 1), 2**63 - 1),
    (Sum(2**64 - 2**32), 2**64 - 2**32),
    (Sum(2**64 - 2**32), 2**63),
]


@pytest.mark.parametrize("width", QUICKEST)
@pytest.mark.parametrize(("circuit", "measurement"), CIRCUITS, ids=str)
def test_a_kernel_computes_what_the_definition_says_for_both_roles(
    circuit: Circuit, measurement: Measurement, width: LaneWidth
) -> None:
    assert agree(Prio3(4, circuit), [measurement] * 3, width)


@pytest.mark.parametrize("width", [*ONE_LAYOUT, *QUICKEST])
@pytest.mark.parametrize("num_reports", [1, 4, 9])
def test_any_number_of_reports_is_taken(num_reports: int, width: LaneWidth) -> None:
    measurements = [index % 2 for index in range(num_reports)]
    assert agree(Prio3(4, SumVec(1, 1, 1)), [[bit] for bit in measurements], width)


@pytest.mark.slow
@pytest.mark.parametrize("num_shares", [3, 4, 7, 255])
def test_any_number_of_aggregators_share_a_measurement(num_shares: int) -> None:
    prio3 = Prio3(4, MultihotCountVec(5, 2, 3), num_shares)
    for agg_id in (0, 1, num_shares - 1):
        shares = shares_of(prio3, [ones(5, 2)] * 2, agg_id)
        assert all_values(by_kernel(prio3, shares)) == all_values(query_shares(prio3, shares))


@pytest.mark.parametrize(
    "ctx_size",
    [1, 168, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 2, 3, 4, 5, 6, 7, 120))],
)
def test_a_context_of_any_size_shifts_the_words_that_are_absorbed(ctx_size: int) -> None:
    assert agree(
        Prio3(4, Histogram(30, 6)),
        [3, 29],
        LaneWidth(4, has_multiply_add=True, is_interpreted=True),
        bytes(ctx_size),
    )


@pytest.mark.parametrize("ctx_size", [0, 1, 3, 5, 7, 8, 108, 111, 113, 116, 117, 130, 161, 1000])
@pytest.mark.parametrize("width", [*ONE_LAYOUT, *QUICKEST])
def test_a_seed_or_nonce_is_filled_in_wherever_a_block_of_the_message_ends(
    ctx_size: int, width: LaneWidth
) -> None:
    assert agree(Prio3(1, Sum(3)), [3, 1], width, bytes(ctx_size))


@pytest.mark.slow
@pytest.mark.parametrize("length", [300, 500])
def test_more_calls_than_are_summed_at_once_are_summed_in_parts(length: int) -> None:
    assert length > chunk_query.CALLS_AT_ONCE
    assert agree(Prio3(4, Histogram(length, 1)), [3], lane_width())


@pytest.mark.parametrize("width", QUICKEST)
def test_a_linear_check_adds_up_any_number_of_digits(width: LaneWidth) -> None:
    for circuit in (
        Histogram(2 * limbs128.MAX_TERMS + 5, 600),
        Histogram(limbs128.MAX_TERMS + 300, 3),
    ):
        assert agree(Prio3(4, circuit), [circuit.length - 1], width)


@pytest.mark.slow
def test_an_empty_batch_is_an_empty_result() -> None:
    prio3 = Prio3(4, Histogram(7, 3))
    shares = shares_of(prio3, [1], 1).rows(slice(0, 0))
    assert all_values(by_kernel(prio3, shares)) == []


@pytest.mark.slow
def test_a_leader_share_with_a_non_residue_is_undecodable_and_spoils_no_other(
    width: LaneWidth,
) -> None:
    prio3 = Prio3(4, Histogram(7, 3))
    shares = shares_of(prio3, [0, 1, 2, 3, 4], 0)
    good = by_kernel(prio3, shares, width)
    modulus = np.frombuffer(FIELD128.modulus.to_bytes(16, "little"), np.uint8)
    num_residues = prio3.circuit.meas_len + prio3.circuit.proof_len
    for report, residue in ((0, 0), (2, 5), (4, num_residues - 1)):
        input_shares = shares.input_shares.copy()
        input_shares[report, 16 * residue : 16 * residue + 16] = modulus
        bad = dataclasses.replace(shares, input_shares=input_shares)
        found = by_kernel(prio3, bad, width)
        assert np.flatnonzero(found.is_undecodable).tolist() == [report]
        for other in set(range(5)) - {report}:
            assert values(found, other) == values(good, other)


@pytest.mark.slow
@pytest.mark.parametrize("circuit", [Count(), Sum(2)], ids=str)
def test_a_leader_share_in_field64_with_a_non_residue_is_undecodable(
    circuit: Circuit, width: LaneWidth
) -> None:
    prio3 = Prio3(1, circuit)
    shares = shares_of(prio3, [0, 1, 1], 0)
    for residue in range(circuit.meas_len + circuit.proof_len):
        for word, is_residue in ((FIELD64.modulus, False), (FIELD64.modulus - 1, True)):
            input_shares = shares.input_shares.copy()
            input_shares.view(np.uint64)[1, residue] = word
            edge = dataclasses.replace(shares, input_shares=input_shares)
            found = by_kernel(prio3, edge, width)
            assert np.flatnonzero(found.is_undecodable).tolist() == ([] if is_residue else [1])
            expected = query_shares(prio3, edge)
            for report in {0, 2} | ({1} if is_residue else set()):
                assert values(found, report) == values(expected, report)


@pytest.mark.slow
def test_a_leader_share_may_hold_the_largest_residue() -> None:
    prio3 = Prio3(4, Histogram(7, 3))
    shares = shares_of(prio3, [0, 1], 0)
    input_shares = shares.input_shares.copy()
    # p - 1 has the same high word as p.
    input_shares[:, :-32] = np.frombuffer(
        (FIELD128.modulus - 1).to_bytes(16, "little") * 29, np.uint8
    )[: input_shares.shape[1] - 32]
    edge = dataclasses.replace(shares, input_shares=input_shares)
    found = by_kernel(prio3, edge)
    assert not found.is_undecodable.any()
    assert all_values(found) == all_values(query_shares(prio3, edge))


def taken_again(monkeypatch: pytest.MonkeyPatch, flagged: slice) -> list[int]:
    """Make the kernel spoil and flag some reports; list how many are computed again at a time."""
    kernel = chunk_query.query_groups
    taken: list[int] = []

    def flagging(*arguments: object) -> None:
        kernel(*arguments)  # type: ignore[arg-type]  # the kernel's own arguments
        outputs = Outputs(*arguments[-4:])  # type: ignore[arg-type]  # the last of them
        for array in outputs:
            array[flagged] = 0xEE
        outputs.flags[flagged] = [IRREGULAR, 0, 0, 0, 0, 0, 0, 0]

    def counting(parameters: Prio3, shares: ReportShares) -> QueriedShares:
        taken.append(len(shares))
        return query_shares(parameters, shares)

    monkeypatch.setattr(chunk_query, "query_groups", flagging)
    monkeypatch.setattr(dispatch, "query_shares", counting)
    return taken


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flagged", "expected"),
    [(slice(2, 3), [1]), (slice(None), [3, 3, 2])],
    ids=["one", "all, a few at a time"],
)
def test_flagged_reports_are_computed_again_and_the_others_are_not(
    monkeypatch: pytest.MonkeyPatch, flagged: slice, expected: list[int]
) -> None:
    prio3 = Prio3(4, Histogram(7, 3))
    shares = shares_of(prio3, [0, 1, 2, 3, 4, 5, 6, 0], 1)
    good = all_values(query_shares(prio3, shares))
    taken = taken_again(monkeypatch, flagged)
    monkeypatch.setattr(dispatch, "WORKING_MEMORY", 3 * flp.working_size(prio3.circuit))
    assert all_values(by_kernel(prio3, shares)) == good
    assert taken == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("circuit", "measurement"),
    [
        (Histogram(7, 3), 1),
        (MultihotCountVec(5, 3, 4), ones(5, 3)),
        (L1BoundSum(2, 3, 4), ones(2, 2)),
        (SumVec(2, 5, 4), ones(2, 2)),
        (SumVec(1, 2**28, 15), [1]),
        (Sum(5), 1),
    ],
    ids=str,
)
def test_no_leader_share_makes_work_for_the_general_function(
    circuit: Circuit,
    measurement: Measurement,
    width: LaneWidth,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prio3 = Prio3(4, circuit)
    shares = shares_of(prio3, [measurement] * 3, 0)
    input_shares = shares.input_shares.copy()
    size, end = prio3.field.encoded_size, prio3.meas_share_size + prio3.proofs_share_size
    for report, number in ((0, prio3.field.modulus - 1), (1, prio3.field.modulus)):
        encoded = number.to_bytes(size, "little") * (end // size)
        input_shares[report, :end] = np.frombuffer(encoded, np.uint8)
    edge = dataclasses.replace(shares, input_shares=input_shares)
    expected = query_shares(prio3, edge)
    monkeypatch.delattr(dispatch, "query_shares")
    found = by_kernel(prio3, edge, width)
    assert found.is_undecodable.tolist() == [False, True, False]
    for report in (0, 2):
        assert values(found, report) == values(expected, report)


@pytest.mark.slow
def test_a_test_point_that_is_a_root_of_unity_is_flagged(
    monkeypatch: pytest.MonkeyPatch, width: LaneWidth
) -> None:
    # No key is known for which t^p = 1. So the kernel is made to look for another power, t^p of
    # one report, and must flag that report only.
    prio3 = Prio3(4, Histogram(7, 3))
    shares = shares_of(prio3, [0, 1, 2, 3, 4, 5, 6, 0], 1)
    randomness = Randomness(prio3, CTX)
    test_points = randomness.query_rands(VERIFY_KEY, shares.nonces)[:, -1].to_ints()
    power = pow(test_points[3], prio3.circuit.wire_poly_len, FIELD128.modulus)
    encoded = power * field128.limbs_of(width).radix % FIELD128.modulus
    tables = chunk_plan.kernel_tables(prio3, width)
    words = np.array([encoded % 2**64, encoded >> 64], np.uint64)
    other = tables._replace(one=words)
    monkeypatch.setattr(chunk_plan, "kernel_tables", lambda *_arguments: other)
    taken: list[bytes] = []

    def watching(parameters: Prio3, irregular: ReportShares) -> QueriedShares:
        taken.extend(nonce.tobytes() for nonce in irregular.nonces)
        return query_shares(parameters, irregular)

    monkeypatch.setattr(dispatch, "query_shares", watching)
    by_kernel(prio3, shares, width)
    assert taken == [shares.nonces[3].tobytes()]


def test_circuits_without_a_kernel_are_computed_by_the_general_function() -> None:
    prio3 = Prio3(4, SumVec(3, 3, 2, FIELD64), num_proofs=3)
    assert not dispatch.is_fused(prio3)
    shares = shares_of(prio3, [[1, 2, 3]], 1)
    found = queried(prio3, shares)
    assert all_values(found) == all_values(query_shares(prio3, shares))


def test_no_repr_of_a_kernel_input_or_output_shows_its_contents() -> None:
    kinds = (Inputs, Outputs, ShareMessages, chunk_arrays.Messages)
    for kind in kinds:
        value = kind._make([np.full(3, 77, np.uint8)] * len(kind._fields))
        assert repr(value) == f"{kind.__name__}()"


def test_long_reports_use_fewer_lanes_to_bound_scratch_space() -> None:
    for length, chunk_length in itertools.product((10, 10**5), (10, 300)):
        plan = chunk_plan.plan(Prio3(4, Histogram(length, chunk_length)), 1)
        size = chunk_plan.scratch_size(plan.shape) * len(plan.width)
        assert size <= chunk_plan.MAX_SCRATCH or len(plan.width) == 1


@pytest.mark.slow
@pytest.mark.parametrize("has_multiply_add", [False, True])
def test_two_lanes_compute_the_same_as_the_definition(*, has_multiply_add: bool) -> None:
    measurements: list[Measurement] = [index % 7 for index in range(5)]
    width = LaneWidth(2, has_multiply_add, is_interpreted=True)
    assert agree(Prio3(4, Histogram(7, 3)), measurements, width)
