"""A batch in arrays and the same in byte strings: the same results and errors, bit for bit."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.errors import ParameterError, ReportRejected
from aggregator.vdaf import ping_pong
from aggregator.vdaf.prio3 import BegunBatch, OutShares, Prio3, VerifierMessages, VerifyError
from aggregator.vdaf.shares import Batch
from aggregator.vdaf.xof import ByteRows
from tests.support import prio3_batches, prio3s
from tests.support.prio3_batches import CTX, PATHS, VERIFY_KEY, make_batch, take_path
from tests.support.residues import rows_to_ints

HISTOGRAM = prio3s.prio3_histogram(5, 2)
PRIO3S = {
    "count": prio3s.prio3_count(),
    "count of 3": prio3s.prio3_count(3),
    "sum": prio3s.prio3_sum(100),
    "histogram": HISTOGRAM,
    "histogram of 3": prio3s.prio3_histogram(3, 1, num_shares=3),
}
by_type = pytest.mark.parametrize("prio3", PRIO3S.values(), ids=PRIO3S.keys())


def as_array(strings: list[bytes], size: int) -> ByteRows:
    return np.frombuffer(b"".join(strings), np.uint8).reshape(len(strings), size)


@dataclass
class Run:
    """All that the aggregators compute from a batch."""

    prio3: Prio3
    inits: list[BegunBatch]
    out_shares: list[OutShares]

    def values(self) -> list[object]:
        """Everything, as values that can be compared."""
        aggregates = [
            self.prio3.agg_update(self.prio3.agg_init(), out_shares.shares).to_ints()
            for out_shares in self.out_shares
        ]
        return [
            [init.verifier_share_rows.tolist() for init in self.inits],
            [told(init.state.errors) for init in self.inits],
            [rows_to_ints(out_shares.shares) for out_shares in self.out_shares],
            [told(out_shares.errors) for out_shares in self.out_shares],
            aggregates,
        ]


def told(errors: list[ReportRejected | None]) -> list[tuple[type, str]]:
    return [(type(error), str(error)) for error in errors]


def inits_of(prio3: Prio3, nonces: Batch, public: Batch, inputs: list[Batch]) -> list[BegunBatch]:
    return [
        prio3.verify_init(VERIFY_KEY, CTX, agg_id, nonces, public, shares)
        for agg_id, shares in enumerate(inputs)
    ]


def run_of(prio3: Prio3, inits: list[BegunBatch]) -> Run:
    messages = prio3.verifier_shares_to_message(CTX, [init.verifier_share_rows for init in inits])
    return Run(prio3, inits, [prio3.verify_next(init.state, messages) for init in inits])


def run_on_strings(prio3: Prio3, batch: prio3_batches.Batch) -> Run:
    return run_of(prio3, inits_of(prio3, batch.nonces, batch.public_shares, [*batch.input_shares]))


def run_on_arrays(prio3: Prio3, batch: prio3_batches.Batch) -> Run:
    inputs: list[Batch] = [
        as_array(shares, prio3.input_share_size(agg_id))
        for agg_id, shares in enumerate(batch.input_shares)
    ]
    nonces = as_array(batch.nonces, prio3.nonce_size)
    public = as_array(batch.public_shares, prio3.public_share_size)
    return run_of(prio3, inits_of(prio3, nonces, public, inputs))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "rows", [0, 1, 7, *(pytest.param(rows, marks=pytest.mark.slow) for rows in (8, 16, 19))]
)
@by_type
def test_arrays_and_strings_give_the_same_whatever_the_number_of_reports(
    prio3: Prio3, rows: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_path(path, monkeypatch)
    batch = make_batch(prio3, [index % 2 for index in range(rows)])
    found = run_on_arrays(prio3, batch)
    assert found.values() == run_on_strings(prio3, batch).values()
    assert all(out_shares.errors == [None] * rows for out_shares in found.out_shares)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
@by_type
@settings(max_examples=15)
@given(
    changes=st.lists(
        st.tuples(
            st.integers(0, 18), st.integers(-1, 2), st.integers(0, 1000), st.sampled_from([1, 8])
        ),
        max_size=6,
    )
)
def test_cheaters_are_found_alike_in_arrays_and_in_strings(
    prio3: Prio3, path: str, changes: list[tuple[int, int, int, int]]
) -> None:
    batch = make_batch(prio3, [1] * 19)
    for report, agg_id, place, size in changes:
        strings = batch.public_shares if agg_id < 0 else batch.input_shares[min(agg_id, 1)]
        spoilt = bytearray(strings[report])
        if not spoilt:
            continue
        start = place % len(spoilt) // size * size
        # Eight bytes of all ones make a number that is no residue.
        spoilt[start : start + size] = b"\xff" * len(spoilt[start : start + size])
        strings[report] = bytes(spoilt)
    with pytest.MonkeyPatch.context() as patch:
        take_path(path, patch)
        found = run_on_arrays(prio3, batch)
        assert found.values() == run_on_strings(prio3, batch).values()
    touched = {report for report, _, _, _ in changes}
    for out_shares in found.out_shares:
        assert {i for i, error in enumerate(out_shares.errors) if error} <= touched


@by_type
def test_strings_of_the_wrong_size_become_invalid_rows_in_the_array_of_shares(prio3: Prio3) -> None:
    batch = make_batch(prio3, [1] * 11)
    batch.input_shares[1][4] += b"\x00"
    batch.public_shares[9] += b"\x00"
    leader, helper = run_on_strings(prio3, batch).inits[:2]
    assert set(leader.verifier_share_rows[9].tolist()) == {255}
    assert set(helper.verifier_share_rows[[4, 9]].reshape(-1).tolist()) == {255}


@by_type
def test_a_batch_may_be_partly_in_arrays_and_arrays_may_be_laid_out_in_any_way(
    prio3: Prio3,
) -> None:
    batch = make_batch(prio3, [1] * 13)
    plain = run_on_strings(prio3, batch).inits[1]
    apart = np.zeros((26, prio3.input_share_size(1) + 3), np.uint8)
    apart[::2, 3:] = as_array(batch.input_shares[1], prio3.input_share_size(1))
    mixed = prio3.verify_init(VERIFY_KEY, CTX, 1, batch.nonces, batch.public_shares, apart[::2, 3:])
    assert mixed.verifier_share_rows.tolist() == plain.verifier_share_rows.tolist()


def test_the_errors_of_messages_are_those_of_the_reports() -> None:
    batch = make_batch(HISTOGRAM, [0, 1, 2, 3])
    leader, helper = run_on_strings(HISTOGRAM, batch).inits
    shares = helper.verifier_share_rows.copy()
    shares[1, 0] ^= 1
    shares[2, :16] = 255
    messages = HISTOGRAM.verifier_shares_to_message(CTX, [leader.verifier_share_rows, shares])
    assert told(messages.errors)[1:3] == [
        (VerifyError, "the proof does not hold"),
        (VerifyError, "a verifier share does not decode"),
    ]
    assert len(messages) == 4
    for state in (leader.state, helper.state):
        out_shares = HISTOGRAM.verify_next(state, messages)
        assert told(out_shares.errors) == told(messages.errors)
        assert out_shares.shares[3] == state.out_shares[3]


def test_a_seed_that_is_not_the_clients_is_its_reports_error_in_an_array_too() -> None:
    leader, helper = run_on_strings(HISTOGRAM, make_batch(HISTOGRAM, [0, 1, 2])).inits
    messages = HISTOGRAM.verifier_shares_to_message(
        CTX, [leader.verifier_share_rows, helper.verifier_share_rows]
    )
    messages.rows[1, 31] ^= 128
    out_shares = HISTOGRAM.verify_next(helper.state, messages)
    assert told(out_shares.errors)[1] == (
        VerifyError,
        "the joint randomness is not what the client used",
    )
    assert out_shares.errors[::2] == [None, None]
    assert out_shares.shares[1] == HISTOGRAM.agg_init()


def test_an_array_of_the_wrong_shape_is_the_callers_fault() -> None:
    batch = make_batch(HISTOGRAM, [1, 2])
    nonces = as_array(batch.nonces, 16)
    public = as_array(batch.public_shares, HISTOGRAM.public_share_size)
    shares = as_array(batch.input_shares[1], HISTOGRAM.input_share_size(1))

    def init(nonces: Batch, public: Batch, shares: Batch) -> BegunBatch:
        return HISTOGRAM.verify_init(VERIFY_KEY, CTX, 1, nonces, public, shares)

    with pytest.raises(ParameterError, match=r"array of nonces must be uint8\[2, 16\], not uint8"):
        init(nonces[:, 1:], public, shares)
    with pytest.raises(ParameterError, match=r"must be uint8\[2, 64\], not uint8\[2, 63\]"):
        init(nonces, public[:, 1:], shares)
    with pytest.raises(ParameterError, match=r"must be uint8\[2, 64\], not uint64\[2, 8\]"):
        init(nonces, public, shares.view(np.uint64))  # type: ignore[arg-type]  # that is the test
    with pytest.raises(ParameterError, match="one input share per report, 2, not 1"):
        init(nonces, public, shares[:1])
    rows = init(nonces, public, shares).verifier_share_rows
    with pytest.raises(ParameterError, match="2 arrays of verifier shares, not 1"):
        HISTOGRAM.verifier_shares_to_message(CTX, [rows])
    with pytest.raises(ParameterError, match="one verifier share per report, 2, not 1"):
        HISTOGRAM.verifier_shares_to_message(CTX, [rows, rows[1:]])
    with pytest.raises(ParameterError, match=r"verifier shares must be uint8\[2, \d+\]"):
        HISTOGRAM.verifier_shares_to_message(CTX, [rows[:, 1:], rows])
    state = init(nonces, public, shares).state
    with pytest.raises(
        ParameterError, match=r"messages must be uint8\[2, 32\], not uint8\[2, 31\]"
    ):
        HISTOGRAM.verify_next(state, VerifierMessages(np.zeros((2, 31), np.uint8), {}))


@pytest.mark.parametrize("prio3", [HISTOGRAM, PRIO3S["count"]], ids=["histogram", "count"])
def test_the_ping_pong_of_arrays_sends_the_messages_of_the_strings(prio3: Prio3) -> None:
    batch = make_batch(prio3, [1] * 9)
    arrays = (
        as_array(batch.nonces, prio3.nonce_size),
        as_array(batch.public_shares, prio3.public_share_size),
    )
    leader_shares = as_array(batch.input_shares[0], prio3.input_share_size(0))
    by_arrays = ping_pong.leader_initialized(prio3, VERIFY_KEY, CTX, *arrays, leader_shares)
    by_strings = ping_pong.leader_initialized(
        prio3, VERIFY_KEY, CTX, batch.nonces, batch.public_shares, batch.input_shares[0]
    )
    assert by_arrays.outbound == by_strings.outbound
