"""The kernel that decides on verifier shares against the definition."""

import tracemalloc

import numpy as np
import pytest

from aggregator.vdaf.kernels import decision, dispatch
from aggregator.vdaf.kernels.decision import decide_shares
from aggregator.vdaf.outcomes import NO_VERIFIER_SHARE, VerifierMessages
from aggregator.vdaf.prio3 import Prio3
from aggregator.vdaf.xof import ByteRows
from field import FIELD64, FIELD128
from field.lanes import LaneWidth
from tests.support import prio3s
from tests.support.lane_widths import INTERPRETED, QUICKEST
from tests.support.prio3_batches import CTX, make_batch, verify

ROWS = 11


def grouped_shares(prio3: Prio3, measurement: int | list[int]) -> ByteRows:
    """Return all aggregators' verifier shares of honest reports, writable."""
    outcome = verify(prio3, make_batch(prio3, [measurement] * ROWS))
    return np.stack([init.verifier_share_rows for init in outcome.inits], axis=1)


def decided_generally(
    prio3: Prio3, shares: ByteRows, monkeypatch: pytest.MonkeyPatch
) -> VerifierMessages:
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "plan_for", lambda _parameters, _agg_id: None)
        return decide_shares(prio3, CTX, by_aggregator(shares))


def undecodable(messages: VerifierMessages) -> list[int]:
    return [i for i, error in messages.rejected.items() if str(error) == NO_VERIFIER_SHARE]


def invalid(messages: VerifierMessages) -> list[int]:
    return [i for i, error in messages.rejected.items() if str(error) == "the proof does not hold"]


def by_aggregator(shares: ByteRows) -> list[ByteRows]:
    return [shares[:, agg_id] for agg_id in range(shares.shape[1])]


MANY_PAIRS = prio3s.prio3_histogram(900, 450)
"""More pairs of wires than the kernel sums before it reduces them."""

PRIO3S = [
    (prio3s.prio3_histogram(5, 2), 3),
    (prio3s.prio3_histogram(9, 1, num_shares=3), 0),
    (prio3s.prio3_sum_vec(3, 4, 9), [0, 4, 2]),
]


@pytest.mark.slow
@pytest.mark.parametrize("num_shares", [2, 3])
def test_the_parts_of_a_batch_are_copied_one_at_a_time(
    num_shares: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prio3, rows, memory = prio3s.prio3_histogram(100, 10, num_shares=num_shares), 3000, 2**18
    rng = np.random.default_rng(1)
    size = (rows, num_shares, prio3.verifier_share_size)
    shares = by_aggregator(rng.integers(0, 256, size, np.uint8))
    whole = decide_shares(prio3, CTX, shares)
    monkeypatch.setattr(decision, "WORKING_MEMORY", memory)
    tracemalloc.start()
    try:
        found = decide_shares(prio3, CTX, shares)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.rows.tolist() == whole.rows.tolist()
    assert list(found.rejected) == list(whole.rejected)
    assert peak - kept < 2 * memory < rows * prio3.verifier_share_size


@pytest.mark.slow
def test_separate_arrays_and_slices_of_one_array_are_decided_alike() -> None:
    prio3 = prio3s.prio3_histogram(5, 2)
    shares = grouped_shares(prio3, 3)
    shares[4, 1, 0] ^= 1
    parts = by_aggregator(shares)
    found = decide_shares(prio3, CTX, [np.ascontiguousarray(part) for part in parts])
    assert found.rows.tolist() == decide_shares(prio3, CTX, parts).rows.tolist()
    assert invalid(found) == [4]


@pytest.mark.slow
@pytest.mark.parametrize("width", [*INTERPRETED, *QUICKEST])
@pytest.mark.parametrize(("prio3", "measurement"), PRIO3S)
def test_the_kernel_decides_as_the_definition_does(
    prio3: Prio3, measurement: int | list[int], width: LaneWidth, monkeypatch: pytest.MonkeyPatch
) -> None:
    decides_as_defined(prio3, measurement, width, monkeypatch)


@pytest.mark.parametrize("width", QUICKEST)
def test_the_kernel_decides_on_many_pairs_of_wires_as_the_definition_does(
    width: LaneWidth, monkeypatch: pytest.MonkeyPatch
) -> None:
    decides_as_defined(MANY_PAIRS, 1, width, monkeypatch)


def decides_as_defined(
    prio3: Prio3,
    measurement: int | list[int],
    width: LaneWidth,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shares = grouped_shares(prio3, measurement)
    last = prio3.num_shares - 1
    gadget = prio3.verifiers_share_size - 16
    modulus = np.frombuffer(FIELD128.modulus.to_bytes(16, "little"), np.uint8)
    shares[1, 0, 0] ^= 1  # the circuit's output
    shares[2, last, 16] ^= 1  # a wire
    shares[3, last, gadget] ^= 1  # the gadget's output
    shares[4, 0, -1] ^= 1  # a joint randomness part
    shares[5, last, 0:16] = modulus  # the smallest non-residue
    shares[6, 0, gadget : gadget + 16] = modulus
    shares[7, last, 32:48] = 255
    shares[10, 0, 16:32] = np.frombuffer((FIELD128.modulus - 1).to_bytes(16, "little"), np.uint8)

    found = decide_shares(prio3, CTX, by_aggregator(shares), width=width)

    expected = decided_generally(prio3, shares, monkeypatch)
    assert found.rows.tolist() == expected.rows.tolist()
    assert undecodable(found) == undecodable(expected) == [5, 6, 7]
    assert invalid(found) == invalid(expected) == [1, 2, 3, 10]


@pytest.mark.slow
@pytest.mark.parametrize("width", [*INTERPRETED, *QUICKEST])
@pytest.mark.parametrize(
    "prio3",
    [
        prio3s.prio3_count(),
        prio3s.prio3_count(3),
        prio3s.prio3_count(255),
        prio3s.prio3_sum(1),
        prio3s.prio3_sum(2**32 - 1, 4),
    ],
    ids=str,
)
def test_the_field64_kernel_decides_as_the_definition_does(
    prio3: Prio3, width: LaneWidth, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = grouped_shares(prio3, 1)
    words = shares.view(np.uint64)
    last, modulus = prio3.num_shares - 1, FIELD64.modulus
    words[1, 0, 0] ^= 1  # the circuit's output
    words[2, last, 1] ^= 1  # a wire
    words[3, last, -1] ^= 1  # the gadget's output
    words[4, 0] = words[4, last] = 0  # the verifier of an all-zero proof
    words[5, last, 0] = modulus  # the smallest non-residue
    words[6, 0, -1] = modulus
    words[7, last, 1] = 2**64 - 1
    words[8, :, 0] = 0  # an output of 0
    words[9, :, 0] = 0
    words[9, 0, 0], words[9, last, 0] = modulus - 1, 1  # an output of p
    words[10, 0, 1] = modulus - 1

    found = decide_shares(prio3, CTX, by_aggregator(shares), width=width)

    expected = decided_generally(prio3, shares, monkeypatch)
    assert found.rows.shape == expected.rows.shape == (ROWS, 0)
    assert undecodable(found) == undecodable(expected) == [5, 6, 7]
    assert invalid(found) == invalid(expected)
    assert {1, 2, 3, 10} <= set(invalid(found))
    assert not {0, 8, 9} & set(invalid(found))


@pytest.mark.slow
@pytest.mark.parametrize("width", [*INTERPRETED, *QUICKEST])
@pytest.mark.parametrize("rows", [1, 3, 8, 9, 16])
def test_any_number_of_reports_is_decided(rows: int, width: LaneWidth) -> None:
    prio3 = prio3s.prio3_sum(10)
    shares = grouped_shares(prio3, 7)[np.arange(rows) % ROWS]
    shares[-1, 0, 0] ^= 1
    found = decide_shares(prio3, CTX, by_aggregator(shares), width=width)
    assert (undecodable(found), invalid(found)) == ([], [rows - 1])


def test_an_empty_batch_is_decided() -> None:
    for prio3 in (prio3s.prio3_histogram(5, 2), prio3s.prio3_count()):
        nothing = np.empty((0, prio3.verifier_share_size), np.uint8)
        assert len(prio3.verifier_shares_to_message(CTX, [nothing, nothing])) == 0
