"""Two aggregators verify a batch by turns: the leader's shares, the helper's messages, done.

Prio3 has one round, so each party speaks once:

    leader_initialized   ── initialize(verifier share) ──▶   helper_initialized
    leader_continued     ◀── finish(verifier message) ──     (has its out shares already)

The messages of the reports are separate byte strings; how they travel is not for this module.

Source:
    VDAF, "The Ping-Pong Topology (Only Two Aggregators)".
"""

import dataclasses
from collections.abc import Sequence
from enum import IntEnum

from aggregator.errors import ReportRejected
from aggregator.vdaf.prio3 import OutShares, Prio3, VerifyError, VerifyState

LEADER, HELPER = 0, 1

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
        state: To be kept for `leader_continued`.
        outbound: For the helper, one a report; empty where there is an error.
    """

    state: VerifyState
    outbound: list[bytes] = dataclasses.field(repr=False)

    @property
    def errors(self) -> list[ReportRejected | None]:
        """Why a report is rejected already, or None."""
        return self.state.errors


@dataclasses.dataclass(frozen=True, slots=True)
class HelperFinished:
    """The helper has verified the batch.

    Attributes:
        out_shares: Its out shares, and each report's error.
        outbound: For the leader, one a report; empty where there is an error.
    """

    out_shares: OutShares
    outbound: list[bytes] = dataclasses.field(repr=False)


def leader_initialized(
    prio3: Prio3,
    verify_key: bytes,
    ctx: bytes,
    nonces: Sequence[bytes],
    public_shares: Sequence[bytes],
    input_shares: Sequence[bytes],
) -> LeaderContinued:
    """Begin to verify a batch as the leader; the arguments are those of `Prio3.verify_init`."""
    init = prio3.verify_init(verify_key, ctx, LEADER, nonces, public_shares, input_shares)
    return LeaderContinued(
        init.state,
        [
            b"" if error else encode(MessageType.INITIALIZE, share)
            for share, error in zip(init.verifier_shares, init.state.errors, strict=True)
        ],
    )


def helper_initialized(
    prio3: Prio3,
    verify_key: bytes,
    ctx: bytes,
    nonces: Sequence[bytes],
    public_shares: Sequence[bytes],
    input_shares: Sequence[bytes],
    inbound: Sequence[bytes],
) -> HelperFinished:
    """Verify a batch as the helper.

    Args:
        prio3: The VDAF, for two aggregators.
        verify_key: As for `Prio3.verify_init`; so are the next four.
        ctx: The application context string.
        nonces: One a report.
        public_shares: One a report.
        input_shares: One a report.
        inbound: The leader's messages as they came, one a report.
    """
    init = prio3.verify_init(verify_key, ctx, HELPER, nonces, public_shares, input_shares)
    received = [decode(MessageType.INITIALIZE, message) for message in inbound]
    # A report without a leader's share gets an empty one here, and its own error below.
    pairs = [
        (b"" if isinstance(share, VerifyError) else share, own)
        for share, own in zip(received, init.verifier_shares, strict=True)
    ]
    messages = [
        share if isinstance(share, VerifyError) else message
        for share, message in zip(
            received, prio3.verifier_shares_to_message(ctx, pairs), strict=True
        )
    ]
    out_shares = prio3.verify_next(init.state, messages)
    return HelperFinished(
        out_shares,
        [
            b""
            if error or isinstance(message, ReportRejected)
            else encode(MessageType.FINISH, message)
            for message, error in zip(messages, out_shares.errors, strict=True)
        ],
    )


def leader_continued(
    prio3: Prio3, continued: LeaderContinued, inbound: Sequence[bytes | ReportRejected]
) -> OutShares:
    """Finish the verification of a batch as the leader.

    Args:
        prio3: The VDAF.
        continued: From `leader_initialized`.
        inbound: One a report: the helper's message as it came, or why the report is rejected.
    """
    messages = [
        message if isinstance(message, ReportRejected) else decode(MessageType.FINISH, message)
        for message in inbound
    ]
    return prio3.verify_next(continued.state, messages)


def encode(message_type: MessageType, content: bytes) -> bytes:
    """Return a message of one part: a verifier share to initialize, a message to finish."""
    return bytes([message_type]) + len(content).to_bytes(4, "big") + content


def decode(expected: MessageType, message: bytes) -> bytes | VerifyError:
    """Return what a message of the expected type says; with anything else the report fails.

    The result is a value, because one peer's bad message is one report's failure.
    """
    if not message or message[0] != expected:
        return VerifyError(f"a ping-pong message is not of type {expected.name}")
    size = int.from_bytes(message[1:_HEADER_SIZE], "big")
    if len(message) != _HEADER_SIZE + size:
        return VerifyError("a ping-pong message has another size than it says")
    return message[_HEADER_SIZE:]
