"""Prio3 over a batch of reports, in the draft's steps: shard, verify, aggregate, unshard.

Shares, verifier shares and messages go in and out in their wire form, one byte string a report.
Each report of a batch has its own outcome: what is wrong with one is a value in its place, and the
others are bit for bit what they would be alone. Randomness is an argument.

Source:
    VDAF, "Prio3".
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt

from aggregator.errors import ParameterError, ReportRejected
from aggregator.vdaf import fused, sharding
from aggregator.vdaf.circuits import AggResult, Measurement
from aggregator.vdaf.decision import decide_shares
from aggregator.vdaf.parameters import Parameters
from aggregator.vdaf.sharding import WORKING_MEMORY, Shards, checked_rows
from aggregator.vdaf.shares import (
    BoolRows,
    equal_rows,
    slices,
    to_grouped_rows,
    to_rows,
    to_strings,
)
from aggregator.vdaf.verification import Aggregator, QueriedShares, ReportShares
from aggregator.vdaf.xof import ByteRows
from field import FieldError, Vector, centre, decode, encode, encode_rows

SLICE_SIZE = 2**21
"""Bytes of shares that a fused kernel is given at a time: they stay in the processor's cache."""


class VerifyError(ReportRejected):
    """A report failed verification: DAP's `vdaf_verify_error`."""


class ShareDecodeError(ReportRejected):
    """A public share or an input share is no encoding of one: DAP's `invalid_message`."""


@dataclasses.dataclass(frozen=True, slots=True)
class VerifyState:
    """What one aggregator keeps of a batch between `verify_init` and `verify_next`.

    Attributes:
        out_shares: Shape `(rows, output_len)`; zero where there is an error.
        joint_rand_seeds: Shape `(rows, 32)`, or `(rows, 0)` without joint randomness.
        errors: Why a report is rejected already, or None.
    """

    out_shares: Vector = dataclasses.field(repr=False)
    joint_rand_seeds: ByteRows = dataclasses.field(repr=False)
    errors: list[ReportRejected | None]


@dataclasses.dataclass(frozen=True, slots=True)
class VerifyInit:
    """What `verify_init` returns.

    Attributes:
        state: To be kept for `verify_next`.
        verifier_shares: To be combined with the other aggregators'; empty where there is an error.
    """

    state: VerifyState
    verifier_shares: list[bytes] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class OutShares:
    """One aggregator's shares of verified measurements, ready to be summed.

    Attributes:
        shares: Shape `(rows, output_len)`; zero where there is an error, so a sum over all rows is
            the sum over the verified ones.
        errors: Why a report was rejected, or None.
    """

    shares: Vector = dataclasses.field(repr=False)
    errors: list[ReportRejected | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Prio3(Parameters):
    """Prio3 with one validity circuit; `aggregator.vdaf.instances` makes the named ones."""

    def shard(
        self,
        ctx: bytes,
        measurements: Sequence[Measurement],
        nonces: Sequence[bytes],
        rands: Sequence[bytes],
    ) -> Shards:
        """Split each measurement into one input share an aggregator, and a public share.

        Args:
            ctx: The application context string.
            measurements: As the circuit wants them.
            nonces: `nonce_size` bytes each, public and different for each report.
            rands: `rand_size` bytes each, secret, uniform, used once.

        Raises:
            MeasurementError: A measurement is out of range; the message has its index.
            ParameterError: A nonce or rand is missing or has the wrong size, or `ctx` is too long.
        """
        return sharding.shard(self, ctx, measurements, nonces, rands)

    def verify_init(
        self,
        verify_key: bytes,
        ctx: bytes,
        agg_id: int,
        nonces: Sequence[bytes],
        public_shares: Sequence[bytes],
        input_shares: Sequence[bytes],
    ) -> VerifyInit:
        """Begin to verify a batch of reports.

        Args:
            verify_key: `verify_key_size` bytes that the aggregators share and no client knows.
            ctx: The application context string.
            agg_id: Which aggregator this is; 0 is the leader.
            nonces: `nonce_size` bytes each.
            public_shares: As they came from the client.
            input_shares: As they came from the client.

        Returns:
            For each report a verifier share, or in the state's `errors` a `ShareDecodeError`, or a
            `VerifyError` where the test point is a root of unity.

        Raises:
            ParameterError: The key, a nonce or `agg_id` is wrong: the caller's fault, not a
                report's.
        """
        if len(verify_key) != self.verify_key_size:
            raise ParameterError(
                f"verify_key must have {self.verify_key_size} bytes, not {len(verify_key)}"
            )
        if not 0 <= agg_id < self.num_shares:
            raise ParameterError(f"agg_id must be from 0 to {self.num_shares - 1}, not {agg_id}")
        rows = len(nonces)
        nonce_rows = checked_rows("nonce", nonces, rows, self.nonce_size)
        for name, shares in (("public share", public_shares), ("input share", input_shares)):
            if len(shares) != rows:
                raise ParameterError(
                    f"there must be one {name} a report, {rows}, not {len(shares)}"
                )
        out_shares = np.empty((rows, self.output_len, *self.field.word_shape), dtype=np.uint64)
        aggregator = Aggregator(verify_key, ctx, agg_id)
        verifier = fused.Verifier(self, aggregator)
        working_memory = SLICE_SIZE if fused.is_fused(self) else WORKING_MEMORY
        parts = [
            self._verify_init_slice(
                verifier,
                aggregator,
                nonce_rows[part],
                public_shares[part],
                input_shares[part],
                out_shares[part],
            )
            for part in slices(rows, fused.working_size(self, agg_id), working_memory)
        ]
        state = VerifyState(
            out_shares=Vector(self.field, out_shares),
            joint_rand_seeds=np.concatenate([part.state.joint_rand_seeds for part in parts]),
            errors=list(itertools.chain.from_iterable(part.state.errors for part in parts)),
        )
        shares_of_parts = (part.verifier_shares for part in parts)
        return VerifyInit(state, list(itertools.chain.from_iterable(shares_of_parts)))

    def verifier_shares_to_message(
        self, ctx: bytes, verifier_shares: Sequence[Sequence[bytes]]
    ) -> list[bytes | ReportRejected]:
        """Add up the verifier shares of each report and decide whether it is valid.

        Args:
            ctx: The application context string.
            verifier_shares: For each report one share an aggregator, in the order of their ids.

        Returns:
            For each report the verifier message, or a `VerifyError`.

        Raises:
            ParameterError: A report has more or fewer shares than there are aggregators.
        """
        if not set(map(len, verifier_shares)) <= {self.num_shares}:
            index = next(i for i, s in enumerate(verifier_shares) if len(s) != self.num_shares)
            raise ParameterError(
                f"report {index} must have {self.num_shares} verifier shares, "
                f"not {len(verifier_shares[index])}"
            )
        messages: list[bytes | ReportRejected] = []
        memory = 4 * self.num_shares * self.verifier_share_size
        for part in slices(len(verifier_shares), memory, WORKING_MEMORY):
            messages += self._verifier_shares_to_message_slice(ctx, verifier_shares[part])
        return messages

    def verify_next(
        self, state: VerifyState, verifier_messages: Sequence[bytes | ReportRejected]
    ) -> OutShares:
        """Finish the verification of a batch.

        Args:
            state: From this aggregator's `verify_init`.
            verifier_messages: One a report; where it is a `ReportRejected`, that is the report's
                error.

        Returns:
            For each report an out share, or its error: the state's, the message's, or a
            `VerifyError` where the client lied about the joint randomness.

        Raises:
            ParameterError: There are more or fewer messages than reports.
        """
        if len(verifier_messages) != len(state.errors):
            raise ParameterError(
                f"there must be one verifier message a report, {len(state.errors)}, "
                f"not {len(verifier_messages)}"
            )
        received, rejections = _received(verifier_messages)
        seeds, is_right_size = to_rows(received, self.verifier_message_size)
        is_agreed = is_right_size & equal_rows(seeds, state.joint_rand_seeds)
        errors = list(state.errors)
        for index, rejection in rejections.items():
            errors[index] = errors[index] or rejection
        for index in np.flatnonzero(~is_agreed).tolist():
            errors[index] = errors[index] or VerifyError(
                "the joint randomness is not what the client used"
            )
        shares = state.out_shares
        if errors.count(None) < state.errors.count(None):
            shares = shares.where(_is_good(errors))
        return OutShares(shares, errors)

    def agg_init(self) -> Vector:
        """Return the aggregate share of no report."""
        return Vector.zeros(self.field, self.output_len)

    def agg_update(self, agg_share: Vector, out_shares: Vector) -> Vector:
        """Return an aggregate share with out shares added, shape `(rows, output_len)`."""
        return agg_share + out_shares.sum(axis=0)

    def merge(self, agg_shares: Sequence[Vector]) -> Vector:
        """Return the sum of aggregate shares."""
        total = self.agg_init()
        for agg_share in agg_shares:
            total = total + agg_share
        return total

    def encode_agg_share(self, agg_share: Vector) -> bytes:
        """Return an aggregate share's wire form."""
        return encode(agg_share)

    def decode_agg_share(self, data: bytes) -> Vector:
        """Return an aggregate share from its wire form.

        Raises:
            ParameterError: The size is wrong, or a number is no residue.
        """
        size = self.output_len * self.field.encoded_size
        if len(data) != size:
            raise ParameterError(f"an aggregate share must have {size} bytes, not {len(data)}")
        try:
            return decode(self.field, data)
        except FieldError as error:
            raise ParameterError(
                f"an aggregate share holds a number that is no residue: {error}"
            ) from error

    def unshard(self, agg_shares: Sequence[Vector], num_measurements: int) -> AggResult:
        """Return the aggregate result, each number in [0, p).

        Args:
            agg_shares: One an aggregator.
            num_measurements: How many reports were aggregated, at least 1.

        Raises:
            ParameterError: A share is missing, or there was no report.
        """
        return self.circuit.decode(self._unsharded(agg_shares, num_measurements))

    def unshard_signed(self, agg_shares: Sequence[Vector], num_measurements: int) -> AggResult:
        """Return the aggregate result, each number in (-p/2, p/2): noise may have made it negative.

        Args:
            agg_shares: One an aggregator.
            num_measurements: How many reports were aggregated, at least 1.

        Raises:
            ParameterError: A share is missing, or there was no report.
        """
        integers = self._unsharded(agg_shares, num_measurements)
        return self.circuit.decode(centre(self.field, integers))

    def _unsharded(self, agg_shares: Sequence[Vector], num_measurements: int) -> list[int]:
        """Return the sum of aggregate shares as integers."""
        if len(agg_shares) != self.num_shares:
            raise ParameterError(
                f"there must be {self.num_shares} aggregate shares, not {len(agg_shares)}"
            )
        if num_measurements < 1:
            raise ParameterError(f"num_measurements must be at least 1, not {num_measurements}")
        return self.merge(agg_shares).to_ints()

    def _verify_init_slice(
        self,
        verifier: fused.Verifier,
        aggregator: Aggregator,
        nonces: ByteRows,
        public_shares: Sequence[bytes],
        input_shares: Sequence[bytes],
        out_shares: npt.NDArray[np.uint64],
    ) -> VerifyInit:
        """Begin to verify as many reports as fit the working memory; fill in their out shares."""
        public_rows, is_public = to_rows(public_shares, self.public_share_size)
        input_rows, is_input = to_rows(input_shares, self.input_share_size(aggregator.agg_id))
        shares = ReportShares(aggregator, nonces, public_rows, input_rows)
        queried = verifier.query(shares, out_shares)
        encoded = [encode_rows(queried.verifiers_shares), queried.joint_rand_parts]
        strings = to_strings(np.concatenate(encoded, axis=1))
        errors: list[ReportRejected | None] = [None] * len(strings)
        is_good = is_public & is_input & ~queried.is_undecodable & ~queried.is_rejected
        if not is_good.all():
            errors = _init_errors(is_public, is_input, queried)
            for index in np.flatnonzero(~is_good):
                out_shares[index] = 0
                strings[index] = b""
        return VerifyInit(
            VerifyState(Vector(self.field, out_shares), queried.joint_rand_seeds, errors), strings
        )

    def _verifier_shares_to_message_slice(
        self, ctx: bytes, verifier_shares: Sequence[Sequence[bytes]]
    ) -> list[bytes | ReportRejected]:
        """Decide on as many reports as fit in the working memory."""
        shares, is_right_size = to_grouped_rows(
            verifier_shares, self.num_shares, self.verifier_share_size
        )
        decided = decide_shares(self, ctx, shares)
        is_decodable = is_right_size & decided.is_decodable
        messages: list[bytes | ReportRejected] = [*to_strings(decided.joint_rand_seeds)]
        for index in np.flatnonzero(~(is_decodable & decided.is_valid)).tolist():
            messages[index] = VerifyError(
                "the proof does not hold"
                if is_decodable[index]
                else "a verifier share is no encoding of one"
            )
        return messages


def _init_errors(
    is_public: BoolRows, is_input: BoolRows, queried: QueriedShares
) -> list[ReportRejected | None]:
    """Return each report's error after `verify_init`, the first that applies."""
    errors: list[ReportRejected | None] = [None] * len(is_public)
    for is_wrong, kind, message in (
        (~is_public, ShareDecodeError, "the public share has the wrong size"),
        (~is_input, ShareDecodeError, "the input share has the wrong size"),
        (queried.is_undecodable, ShareDecodeError, "the input share holds a non-residue"),
        (queried.is_rejected, VerifyError, "the test point is a root of unity"),
    ):
        for index in np.flatnonzero(is_wrong):
            errors[index] = errors[index] or kind(message)
    return errors


def _is_good(errors: Sequence[ReportRejected | None]) -> BoolRows:
    """Return which reports have no error."""
    return np.fromiter((error is None for error in errors), dtype=np.bool_, count=len(errors))


def _received(
    messages: Sequence[bytes | ReportRejected],
) -> tuple[Sequence[bytes], dict[int, ReportRejected]]:
    """Return messages with nothing in place of errors, and the errors by the report's index."""
    if set(map(type, messages)) <= {bytes}:  # Nearly always; looking at each takes twice as long.
        return cast("Sequence[bytes]", messages), {}
    errors = {i: m for i, m in enumerate(messages) if isinstance(m, ReportRejected)}
    return [b"" if isinstance(m, ReportRejected) else m for m in messages], errors
