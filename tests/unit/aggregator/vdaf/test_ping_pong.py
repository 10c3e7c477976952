"""The two aggregators' messages, byte by byte, and what becomes of wrong ones."""

import numpy as np
import pytest

from aggregator.errors import ReportRejected
from aggregator.vdaf import flp, ping_pong
from aggregator.vdaf.kernels import dispatch
from aggregator.vdaf.ping_pong import HelperFinished, LeaderContinued, MessageType
from aggregator.vdaf.prio3 import Prio3, ShareDecodeError, VerifyError
from aggregator.vdaf.randomness import Randomness
from aggregator.vdaf.verification import Aggregator
from field import concat, double_evaluations, encode_rows
from tests.support.entropy import SeededEntropy
from tests.support.prio3_batches import CTX, VERIFY_KEY, Batch, make_batch, verify
from tests.support.prio3s import (
    prio3_count,
    prio3_histogram,
    prio3_multihot_count_vec,
    prio3_sum_vec,
)

HISTOGRAM = prio3_histogram(4, 2)


def leader(prio3: Prio3, batch: Batch) -> LeaderContinued:
    return ping_pong.leader_initialized(
        prio3, VERIFY_KEY, CTX, batch.nonces, batch.public_shares, batch.input_shares[0]
    )


def helper(prio3: Prio3, batch: Batch, inbound: list[bytes]) -> HelperFinished:
    return ping_pong.helper_initialized(
        prio3, VERIFY_KEY, CTX, batch.nonces, batch.public_shares, batch.input_shares[1], inbound
    )


@pytest.mark.parametrize("prio3", [HISTOGRAM, prio3_count()], ids=["histogram", "count"])
def test_both_aggregators_finish_with_the_shares_of_the_plain_steps(prio3: Prio3) -> None:
    batch = make_batch(prio3, [1, 0, 1])
    plain = verify(prio3, batch)
    continued = leader(prio3, batch)
    finished = helper(prio3, batch, continued.outbound)
    leaders = ping_pong.leader_continued(prio3, continued, finished.outbound)
    assert leaders.shares == plain.out_shares[0].shares
    assert finished.out_shares.shares == plain.out_shares[1].shares
    assert leaders.errors == finished.out_shares.errors == continued.errors == [None] * 3


def test_an_initialize_message_is_a_type_a_length_and_the_verifier_share() -> None:
    batch = make_batch(HISTOGRAM, [1])
    share = verify(HISTOGRAM, batch).verifier_share(0, 0)
    assert leader(HISTOGRAM, batch).outbound[0].hex() == (
        "00"  # type: initialize
        "00000080"  # length of the verifier share: 6 residues of 16 bytes and a part of 32
        + share.hex()
    )


def test_a_finish_message_is_a_type_a_length_and_the_verifier_message() -> None:
    batch = make_batch(HISTOGRAM, [1])
    message = verify(HISTOGRAM, batch).messages[0]
    assert isinstance(message, bytes)
    [outbound] = helper(HISTOGRAM, batch, leader(HISTOGRAM, batch).outbound).outbound
    assert outbound.hex() == (
        "02"  # type: finish
        "00000020" + message.hex()  # length of the verifier message
    )


def test_a_finish_message_without_joint_randomness_is_empty_inside() -> None:
    batch = make_batch(prio3_count(), [1])
    [outbound] = helper(prio3_count(), batch, leader(prio3_count(), batch).outbound).outbound
    assert outbound.hex() == "0200000000"  # type: finish; length


def test_a_wrong_message_is_its_reports_error_only() -> None:
    batch = make_batch(HISTOGRAM, [1, 2, 3])
    outbound = leader(HISTOGRAM, batch).outbound
    good = helper(HISTOGRAM, batch, outbound)
    right = outbound[1]
    share = right[5:]
    wrong = [
        b"",
        b"\x00",
        b"\x00\x00\x00\x00",
        right + b"\x00",
        right[:-1],
        b"\x01" + right[1:],
        b"\x02" + right[1:],
        b"\x03" + right[1:],
        ping_pong.encode(MessageType.INITIALIZE, b""),
        ping_pong.encode(MessageType.INITIALIZE, share[:-1]),
        ping_pong.encode(MessageType.INITIALIZE, share + b"\x00"),
        ping_pong.encode(MessageType.INITIALIZE, b"\xff" * len(share)),
    ]
    for message in wrong:
        finished = helper(HISTOGRAM, batch, [outbound[0], message, outbound[2]])
        errors = finished.out_shares.errors
        assert isinstance(errors[1], VerifyError)
        assert [errors[0], errors[2]] == [None, None]
        assert finished.outbound == [good.outbound[0], b"", good.outbound[2]]
        assert finished.out_shares.shares[2] == good.out_shares.shares[2]
        assert finished.out_shares.shares[1] == HISTOGRAM.agg_init()


def test_a_leader_takes_only_a_finish_message_with_the_clients_joint_randomness() -> None:
    batch = make_batch(HISTOGRAM, [1, 2])
    continued = leader(HISTOGRAM, batch)
    answers = helper(HISTOGRAM, batch, continued.outbound).outbound
    right = answers[1]
    for message in (
        b"",
        right[:-1],
        right + b"\x00",
        b"\x00" + right[1:],
        b"\x01" + right[1:] + b"\x00\x00\x00\x00",
        ping_pong.encode(MessageType.FINISH, b""),
        ping_pong.encode(MessageType.FINISH, bytes(32)),
        answers[0],
    ):
        out_shares = ping_pong.leader_continued(HISTOGRAM, continued, [answers[0], message])
        assert out_shares.errors[0] is None
        assert isinstance(out_shares.errors[1], VerifyError)
        assert out_shares.shares[1] == HISTOGRAM.agg_init()


def test_a_report_that_the_helper_rejected_keeps_that_reason() -> None:
    batch = make_batch(HISTOGRAM, [1, 2])
    continued = leader(HISTOGRAM, batch)
    answers = helper(HISTOGRAM, batch, continued.outbound).outbound
    reason = ReportRejected("replayed")
    out_shares = ping_pong.leader_continued(HISTOGRAM, continued, [b"", answers[1]], {0: reason})
    assert out_shares.errors == [reason, None]


def test_a_report_that_cannot_be_decoded_is_silent_on_both_sides() -> None:
    batch = make_batch(HISTOGRAM, [1, 2])
    batch.public_shares[0] = b"short"
    continued = leader(HISTOGRAM, batch)
    assert continued.outbound[0] == b""
    assert isinstance(continued.errors[0], ShareDecodeError)
    finished = helper(HISTOGRAM, batch, continued.outbound)
    assert isinstance(finished.out_shares.errors[0], ShareDecodeError)
    assert finished.outbound[0] == b""
    leaders = ping_pong.leader_continued(HISTOGRAM, continued, finished.outbound)
    assert isinstance(leaders.errors[0], ShareDecodeError)
    assert leaders.errors[1] is None


def test_no_state_shows_what_it_holds() -> None:
    batch = make_batch(HISTOGRAM, [1])
    continued = leader(HISTOGRAM, batch)
    finished = helper(HISTOGRAM, batch, continued.outbound)
    assert repr(continued) == "LeaderContinued(state=VerifyState(rejected={}))"
    assert repr(finished) == "HelperFinished(out_shares=OutShares(rejected={}))"


def test_no_kernel_shows_what_it_left_in_its_scratch() -> None:
    plan = dispatch.plan_for(HISTOGRAM, 1)
    assert plan is not None
    kernel = plan.prepare(HISTOGRAM, Aggregator(bytes(32), b"", 1), plan.width)
    assert "Workspace()" in repr(kernel)
    assert "Messages()" in repr(kernel)
    assert "memory" not in repr(kernel)


@pytest.mark.parametrize(
    ("prio3", "measurement"),
    [
        (prio3_sum_vec(4, 1, 2), [1] * 4),
        (prio3_sum_vec(3, 255, 5), [255] * 3),
        (prio3_multihot_count_vec(4, 4, 2), [1] * 4),
    ],
    ids=["bits", "numbers", "multihot"],
)
def test_a_client_cannot_have_the_helper_accept_what_the_leader_must_reject(
    prio3: Prio3, measurement: list[int]
) -> None:
    """Where all bits are 1 the proof holds whatever the joint randomness is, so it may differ."""
    randomness = Randomness(prio3, CTX)
    seeds = iter(np.frombuffer(SeededEntropy(b"liar").bytes(32 * 8), np.uint8).reshape(8, 1, 32))
    nonce = np.zeros((1, prio3.nonce_size), np.uint8)
    helper_seed, helper_blind, leader_blind, prove_seed, lie = (next(seeds) for _ in range(5))
    helpers = randomness.helper_meas_shares(1, helper_seed)
    leaders = prio3.circuit.encode([measurement]) - helpers
    parts = [
        randomness.joint_rand_parts(agg_id, blind, nonce, encode_rows(share))
        for agg_id, blind, share in ((0, leader_blind, leaders), (1, helper_blind, helpers))
    ]
    public_share = np.concatenate([parts[0], lie], axis=1)
    seen_by_leader, seen_by_helper = (
        randomness.joint_rands(randomness.joint_rand_seeds(seen))
        for seen in (public_share, np.concatenate(parts, axis=1))
    )
    circuit, prove_rand = prio3.circuit, randomness.prove_rands(prove_seed)
    inputs = circuit.gadget_inputs(leaders, seen_by_leader, 2)
    inputs += circuit.gadget_inputs(helpers, seen_by_helper, 2)
    wires = flp._wire_polys(circuit, prove_rand, inputs)
    while wires.shape[-1] < circuit.gadget_poly_len:
        wires = double_evaluations(wires)
    gadget = circuit.gadget.evaluate(wires.swapaxes(1, 2))
    proof = concat([prove_rand, gadget[:, : circuit.gadget_poly_len]])
    leaders_proof = proof - randomness.helper_proofs_shares(1, helper_seed)
    input_shares = [
        np.concatenate([encode_rows(concat([leaders, leaders_proof])), leader_blind], axis=1),
        np.concatenate([helper_seed, helper_blind], axis=1),
    ]
    begun = ping_pong.leader_initialized(
        prio3, VERIFY_KEY, CTX, nonce, public_share, input_shares[0]
    )
    assert begun.errors == [None]
    finished = ping_pong.helper_initialized(
        prio3, VERIFY_KEY, CTX, nonce, public_share, input_shares[1], begun.messages
    )
    assert isinstance(finished.out_shares.errors[0], VerifyError)
    leaders_end = ping_pong.leader_continued(prio3, begun, finished.outbound)
    assert isinstance(leaders_end.errors[0], VerifyError)
