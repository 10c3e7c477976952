"""Two aggregators verify a batch in turn: the leader's shares, the helper's messages, done.

Prio3 has one round, so each party speaks once:

    leader_initialized   ── initialize(verifier share) ──▶   helper_initialized
    leader_continued     ◀── finish(verifier message) ──     (has its out shares already)

Each report's message is a byte string of its own; how it travels is not this module's business.
Those of a batch have one size and begin alike, so they are made and read as rows of an array.

Source:
    VDAF, "The Ping-Pong Topology (Only Two Aggregators)".
"""

import dataclasses
from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

import numpy as np

from aggregator.errors import ReportRejected
from aggregator.vdaf.outcomes import (
    NO_VERIFIER_SHARE,
    OTHER_JOINT_RANDOMNESS,
    OutShares,
    Rejections,
    VerifierMessages,
    VerifyError,
    VerifyState,
)
from aggregator.vdaf.prio3 import Prio3
from aggregator.vdaf.seeds import SEED_SIZE
from aggregator.vdaf.shares import Batch, different_rows, to_rows, to_strings
from aggregator.vdaf.xof import ByteRows

LEADER_ID, HELPER_ID = 0, 1

_HEADER_SIZE = 5


class MessageType(IntEnum):
    """The first byte of a message. Prio3 has no round that could send `CONTINUE`."""

    INITIALIZE = 0
    CONTINUE = 1
    FINISH = 2


@dataclasses.dataclass(frozen=True, slots=True)
class LeaderContinued:
    """The leader has spoken and waits for the helper.

    Attributes:
        state: For `leader_continued`.
        messages: For the helper, one a row; meaningless where there is an error.
    """

    state: VerifyState
    messages: ByteRows = dataclasses.field(repr=False)

    @property
    def outbound(self) -> list[bytes]:
        """The messages as strings; empty where there is an error."""
        return _strings(self.messages, self.state.rejected)

    @property
    def errors(self) -> list[ReportRejected | None]:
        """Why a report is rejected already, or None."""
        return self.state.errors


@dataclasses.dataclass(frozen=True, slots=True)
class HelperFinished:
    """The helper has verified the batch.

    Attributes:
        out_shares: Its out shares, and each report's error.
        messages: For the leader, one a row; meaningless where there is an error.
    """

    out_shares: OutShares
    messages: ByteRows = dataclasses.field(repr=False)

    @property
    def outbound(self) -> list[bytes]:
        """The messages as strings; empty where there is an error."""
        return _strings(self.messages, self.out_shares.rejected)


def leader_initialized(
    prio3: Prio3,
    verify_key: bytes,
    ctx: bytes,
    nonces: Batch,
    public_shares: Batch,
    input_shares: Batch,
) -> LeaderContinued:
    """Begin to verify a batch as the leader; the arguments are those of `Prio3.verify_init`."""
    init = prio3.verify_init(verify_key, ctx, LEADER_ID, nonces, public_shares, input_shares)
    return LeaderContinued(init.state, _encoded(MessageType.INITIALIZE, init.verifier_share_rows))


def helper_initialized(
    prio3: Prio3,
    verify_key: bytes,
    ctx: bytes,
    nonces: Batch,
    public_shares: Batch,
    input_shares: Batch,
    inbound: Batch,
) -> HelperFinished:
    """Verify a batch as the helper.

    Args:
        prio3: The VDAF, for two aggregators.
        verify_key: As for `Prio3.verify_init`; so are the next four.
        ctx: The application context string.
        nonces: One per report.
        public_shares: One per report.
        input_shares: One per report.
        inbound: The leader's messages, one per report: as they came, or rows of the right size.
    """
    init = prio3.verify_init(verify_key, ctx, HELPER_ID, nonces, public_shares, input_shares)
    shares, wrong = _decoded(MessageType.INITIALIZE, inbound, prio3.verifier_share_size)
    decided = prio3.verifier_shares_to_message(ctx, [shares, init.verifier_share_rows])
    malformed = {i: error or VerifyError(NO_VERIFIER_SHARE) for i, error in wrong.items()}
    rejected = decided.rejected | malformed
    for index in _with_anothers_part(prio3, init.verifier_share_rows, public_shares):
        rejected.setdefault(index, VerifyError(OTHER_JOINT_RANDOMNESS))
    messages = VerifierMessages(decided.rows, rejected)
    out_shares = prio3.verify_next(init.state, messages)
    return HelperFinished(out_shares, _encoded(MessageType.FINISH, messages.rows))


def _with_anothers_part(prio3: Prio3, verifier_shares: ByteRows, public_shares: Batch) -> list[int]:
    """Return the reports whose public share states another part of the joint randomness than ours.

    Only the leader's half of the proof depends on what is stated there for the helper. If the proof
    holds for any joint randomness, as it does when all bits of a measurement are 1, the helper
    would accept such a report and the leader reject it: one client could make a batch on which the
    two disagree, so that nobody could collect it. No honest report differs.
    """
    if not prio3.has_joint_rand:
        return []
    rows, _ = to_rows(public_shares, prio3.public_share_size)  # of another size: rejected before
    stated = rows[:, HELPER_ID * SEED_SIZE : (HELPER_ID + 1) * SEED_SIZE]
    ours = verifier_shares[:, -SEED_SIZE:]
    return different_rows(np.ascontiguousarray(stated), np.ascontiguousarray(ours))


def leader_continued(
    prio3: Prio3,
    continued: LeaderContinued,
    inbound: Batch,
    refused: Mapping[int, ReportRejected] = MappingProxyType({}),
) -> OutShares:
    """Finish the verification of a batch as the leader.

    Args:
        prio3: The VDAF.
        continued: From `leader_initialized`.
        inbound: The helper's messages, one per report: as they came, or rows of the right size.
        refused: Errors of reports whose messages are meaningless.
    """
    rejected = {**refused}
    rows, wrong = _decoded(MessageType.FINISH, inbound, prio3.verifier_message_size)
    for index, error in wrong.items():
        rejected.setdefault(index, error or VerifyError(OTHER_JOINT_RANDOMNESS))
    return prio3.verify_next(continued.state, VerifierMessages(rows, rejected))


def message_size(content: int) -> int:
    """Return the size of a message whose single part has `content` bytes."""
    return _HEADER_SIZE + content


def encode(message_type: MessageType, content: bytes) -> bytes:
    """Return a message of one part: a verifier share, or a verifier message to finish."""
    return _header(message_type, len(content)) + content


def decode(expected: MessageType, message: bytes) -> bytes | VerifyError:
    """Return the content of a message of the expected type, or why the report fails.

    An error is a value here, because the peer's bad message is one report's failure.
    """
    if not message or message[0] != expected:
        return VerifyError(f"a ping-pong message is not of type {expected.name}")
    size = int.from_bytes(message[1:_HEADER_SIZE], "big")
    if len(message) != _HEADER_SIZE + size:
        return VerifyError("a ping-pong message does not have the size that it states")
    return message[_HEADER_SIZE:]


def _header(message_type: MessageType, size: int) -> bytes:
    return bytes([message_type]) + size.to_bytes(_HEADER_SIZE - 1, "big")


def _encoded(message_type: MessageType, contents: ByteRows) -> ByteRows:
    """Return `encode` of every row."""
    rows, size = contents.shape
    messages = np.empty((rows, _HEADER_SIZE + size), np.uint8)
    messages[:, :_HEADER_SIZE] = np.frombuffer(_header(message_type, size), np.uint8)
    messages[:, _HEADER_SIZE:] = contents
    return messages


def _strings(messages: ByteRows, rejected: Rejections) -> list[bytes]:
    strings = to_strings(messages)
    for index in rejected:
        strings[index] = b""
    return strings


def _decoded(
    expected: MessageType, messages: Batch, size: int
) -> tuple[ByteRows, dict[int, VerifyError | None]]:
    """Return `decode` of every message as a row of `size` bytes.

    Returns:
        Shape `(rows, size)`; and why some rows are meaningless: a malformed message's error, or
        None for a well-formed one whose content has another size.
    """
    rows, wrong = to_rows(messages, _HEADER_SIZE + size)
    header = np.frombuffer(_header(expected, size), np.uint8)
    is_other = (rows[:, :_HEADER_SIZE] != header).any(axis=1)
    others = {*wrong, *np.flatnonzero(is_other).tolist()}
    decoded = {index: decode(expected, bytes(messages[index])) for index in others}
    errors = {i: found if isinstance(found, VerifyError) else None for i, found in decoded.items()}
    return rows[:, _HEADER_SIZE:], errors
