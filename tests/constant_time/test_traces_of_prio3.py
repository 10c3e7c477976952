"""No branch and no address of Prio3's kernels depends on a share, a seed or a measurement.

Kernels run here on the same public inputs and on secrets that have nothing in common, and must
execute the same instructions at the same addresses: see the README beside this file. With one lane,
LLVM likes to turn a choice into a branch; the processor's own number of lanes is what runs in use.
"""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from aggregator.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    Measurement,
    MultihotCountVec,
    Sections,
    Sum,
    SumVec,
)
from aggregator.vdaf.kernels import decision, dispatch, keccak
from aggregator.vdaf.kernels.chunks import decide as chunk_decide
from aggregator.vdaf.kernels.chunks import query as chunk_query
from aggregator.vdaf.kernels.digits import decide as digit_decide
from aggregator.vdaf.kernels.digits import query as digit_query
from aggregator.vdaf.prio3 import Prio3
from aggregator.vdaf.verification import Aggregator, ReportShares
from aggregator.vdaf.xof import ByteRows
from field import FIELD64, FIELD128
from field._kernels import kernels
from field.lanes import LaneWidth, lane_width, lanes
from tests.constant_time.instruction_trace import Call, captured, differences

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("_traced")]

CTX = b"a context"

QUERIES = [(chunk_query, "query_groups"), (digit_query, "query_groups")]
DECISIONS = [(chunk_decide, "decide_groups"), (digit_decide, "decide_groups")]
SHARDING = [
    (keccak, "_turboshake128"),
    *(
        (kernels(field), name)
        for field in (FIELD64, FIELD128)
        for name in (
            "add",
            "subtract",
            "multiply",
            "dot",
            "add_rows",
            "transform",
            "lagrange_basis",
            "are_residues",
        )
    ),
]
"""All but `accept_residues`, which skips non-residues and so depends on them."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A circuit, and two measurements that are as different as possible."""

    name: str
    circuit: Circuit
    low: Measurement
    high: Measurement

    @property
    def prio3(self) -> Prio3:
        return Prio3(4, self.circuit)


HISTOGRAM = Case("Histogram", Histogram(4, 2), 0, 3)
SUM = Case("Sum", Sum(3), 0, 3)
LARGE_SUM_VEC = Case("SumVec of 31 digits", SumVec(1, 2**31 - 1, 31), [0], [2**31 - 1])
CASES = [
    HISTOGRAM,
    Case("SumVec", SumVec(2, 3, 2), [0, 1], [3, 2]),
    Case("MultihotCountVec", MultihotCountVec(4, 2, 2), [0, 0, 0, 0], [1, 0, 1, 0]),
    Case(
        "Sections",
        Sections("onehot:2 given:0,1,3 onehot:2 table:0,2", 4),
        [1, 0, 3, 1, 0, 1, 0, 0, 0],
        [0, 1, 0, 0, 1, 0, 0, 0, 1],
    ),
    Case("Count", Count(), 0, 1),
    SUM,
]

on_all_lanes = pytest.mark.parametrize(
    ("case", "width"),
    [
        pytest.param(case, lane_width(count), id=f"{case.name}-{count} lanes")
        for case in CASES
        # Four lanes if the processor has more: one circuit for each kernel.
        for count in sorted({1, lanes(), *((4,) if case in (HISTOGRAM, SUM) else ())})
    ],
)


def rows(strings: list[bytes]) -> ByteRows:
    """Return byte strings as writable rows."""
    return np.frombuffer(b"".join(strings), np.uint8).reshape(len(strings), -1).copy()


def both_shares(
    prio3: Prio3, measurement: Measurement, num_reports: int, seed: int
) -> list[ReportShares]:
    """Return honest reports for both aggregators; all but the measurement is random."""
    rng = np.random.default_rng(seed)
    nonces = [rng.bytes(prio3.nonce_size) for _ in range(num_reports)]
    rands = [rng.bytes(prio3.rand_size) for _ in range(num_reports)]
    shards = prio3.shard(CTX, [measurement] * num_reports, nonces, rands)
    verify_key = rng.bytes(32)
    return [
        ReportShares(
            Aggregator(verify_key, CTX, agg_id),
            rows(nonces),
            rows(shards.public_shares),
            rows(shards.input_shares[agg_id]),
        )
        for agg_id in range(prio3.num_shares)
    ]


def residues(prio3: Prio3, numbers: list[int], count: int) -> ByteRows:
    """Encode some numbers over and over, `count` in all."""
    size = prio3.field.encoded_size
    encoded = [numbers[index % len(numbers)].to_bytes(size, "little") for index in range(count)]
    return np.frombuffer(b"".join(encoded), np.uint8)


def query(prio3: Prio3, shares: ReportShares, width: LaneWidth) -> tuple[Call, ByteRows]:
    """Return the kernel call that verifies some reports, and the verifier shares."""
    outputs = dispatch.new_outputs(prio3, len(shares))
    (call,) = captured(QUERIES, lambda: dispatch.query(prio3, shares, outputs, width=width))
    return call, outputs.verifier_shares


def other_leader_shares(prio3: Prio3, shares: ReportShares) -> Iterator[tuple[str, ReportShares]]:
    """Yield leader shares made of the extreme residues, and of non-residues too."""
    modulus, largest = prio3.field.modulus, 256**prio3.field.encoded_size - 1
    end = prio3.meas_share_size + prio3.proofs_share_size
    for name, numbers in {
        "extremes": [0, modulus - 1, modulus - 1, 0, 1],
        "no residues": [largest, modulus, modulus - 1, modulus + 1],
    }.items():
        input_shares = shares.input_shares.copy()
        input_shares[:, :end] = residues(prio3, numbers, end // prio3.field.encoded_size)
        yield name, dataclasses.replace(shares, input_shares=input_shares)


def all_zeros(shares: ReportShares) -> ReportShares:
    """Return helper shares whose seeds, blinds and parts from the client are zero."""
    public_shares, input_shares = shares.public_shares, shares.input_shares
    return dataclasses.replace(
        shares,
        public_shares=np.zeros_like(public_shares),
        input_shares=np.zeros_like(input_shares),
    )


@on_all_lanes
def test_the_leader_verifies_all_shares_with_the_same_trace(case: Case, width: LaneWidth) -> None:
    prio3 = case.prio3
    shares, _ = both_shares(prio3, case.low, len(width), seed=1)
    others, _ = both_shares(prio3, case.high, len(width), seed=2)
    named = {"others": others, **dict(other_leader_shares(prio3, others))}
    calls = {name: query(prio3, shares, width)[0] for name, shares in named.items()}
    assert differences(query(prio3, shares, width)[0], calls) == []


def test_the_leader_verifies_digits_of_large_weight_with_the_same_trace() -> None:
    # The kernel decodes these in another way; tracing it is slow, so only once.
    case, width = LARGE_SUM_VEC, lane_width(1)
    shares, _ = both_shares(case.prio3, case.low, 1, seed=1)
    others, _ = both_shares(case.prio3, case.high, 1, seed=2)
    call = query(case.prio3, others, width)[0]
    assert differences(query(case.prio3, shares, width)[0], {"others": call}) == []


@on_all_lanes
def test_the_helper_verifies_all_seeds_with_the_same_trace(case: Case, width: LaneWidth) -> None:
    prio3 = case.prio3
    _, shares = both_shares(prio3, case.low, len(width), seed=1)
    _, others = both_shares(prio3, case.high, len(width), seed=2)
    named = {"others": others, "zeros": all_zeros(others)}
    calls = {name: query(prio3, shares, width)[0] for name, shares in named.items()}
    assert differences(query(prio3, shares, width)[0], calls) == []


def decide(prio3: Prio3, shares: list[ByteRows], width: LaneWidth) -> Call:
    (call,) = captured(DECISIONS, lambda: decision.decide_shares(prio3, CTX, shares, width=width))
    return call


@on_all_lanes
def test_valid_and_invalid_proofs_are_decided_with_the_same_trace(
    case: Case, width: LaneWidth
) -> None:
    prio3 = case.prio3

    def verifier_shares(measurement: Measurement, seed: int) -> list[ByteRows]:
        both = both_shares(prio3, measurement, len(width), seed)
        return [query(prio3, shares, width)[1] for shares in both]

    first, good = verifier_shares(case.low, 1), verifier_shares(case.high, 2)
    # An invalid proof: both aggregators' shares are the leader's.
    bad = [good[0], good[0]]
    named = {"others": good, "invalid": bad}
    for name, byte in (("zeros", 0), ("no residues", 0xFF)):
        named[name] = [np.full_like(array, byte) for array in good]
    calls = {name: decide(prio3, shares, width) for name, shares in named.items()}
    assert differences(decide(prio3, first, width), calls) == []


def calls_of_sharding(case: Case, measurement: Measurement, seed: int) -> Mapping[object, Call]:
    """Return a call of each kernel in sharding, one for each form of its arguments."""
    calls = captured(SHARDING, lambda: both_shares(case.prio3, measurement, 2, seed))
    return {(call.kernel, call.form()): call for call in calls}


@pytest.mark.parametrize("case", [HISTOGRAM, SUM], ids=lambda case: case.name)
def test_all_measurements_are_sharded_with_the_same_trace(
    case: Case,
) -> None:
    first, others = calls_of_sharding(case, case.low, 1), calls_of_sharding(case, case.high, 2)
    assert len(first) > 5
    assert first.keys() == others.keys()
    for form, call in first.items():
        assert differences(call, {"others": others[form]}) == []
