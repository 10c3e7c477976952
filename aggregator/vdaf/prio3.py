"""Prio3 over a batch of reports, in the draft's steps: shard, verify, aggregate, unshard.

Shares, verifier shares and messages go in and out in their wire form, as an array, one row per
report; what comes from a client may also be byte strings, one per report. Computation is on arrays;
taking strings apart costs more than verifying a small report. Each report of a batch has its own
outcome: an error is a value in its place, and the others are bit for bit what they would be alone.
Randomness is an argument.

Source:
    VDAF, "Prio3".
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Self

from aggregator.errors import ParameterError, ReportRejected
from aggregator.vdaf.outcomes import (
    NO_ENCODING,
    OTHER_JOINT_RANDOMNESS,
    BegunBatch,
    OutShares,
    ShareDecodeError,
    VerifierMessages,
    VerifyError,
    VerifyState,
)
from aggregator.vdaf.parameters import Parameters
from field import FieldError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.vdaf.aggregation_parameter import AggregationParameter
    from aggregator.vdaf.circuits import AggResult, Measurement
    from aggregator.vdaf.sharding import Shards
    from aggregator.vdaf.shares import Batch
    from aggregator.vdaf.xof import ByteRows
    from field import Vector

__all__ = [
    "BegunBatch",
    "OutShares",
    "Prio3",
    "ShareDecodeError",
    "VerifierMessages",
    "VerifyError",
    "VerifyState",
]

SLICE_SIZE = 2**21
"""How many bytes of strings are joined at a time for a kernel: few enough for the fast caches."""


@dataclasses.dataclass(frozen=True)  # No slots: see `Parameters`.
class Prio3(Parameters):
    """Prio3 with one validity circuit; `aggregator.vdaf.instances` has the named ones."""

    def aggregating(self, agg_param: AggregationParameter) -> Self:
        """Return this VDAF as it verifies, aggregates and unshards under a parameter.

        A VDAF's computations, its field and its sizes may depend on the parameter, so callers that
        have one ask for this first. Prio3 takes none and is always the same.

        Raises:
            ParameterError: The parameter is not empty.
        """
        if agg_param.encoded:
            raise ParameterError("Prio3 takes no aggregation parameter")
        return self

    def shard(
        self,
        ctx: bytes,
        measurements: Sequence[Measurement],
        nonces: Batch,
        rands: Batch,
    ) -> Shards:
        """Split each measurement into one input share per aggregator, and a public share.

        Args:
            ctx: The application context string.
            measurements: As the circuit takes them.
            nonces: `nonce_size` bytes each, public and different for each report.
            rands: `rand_size` bytes each, secret, uniform and used once.

        Raises:
            MeasurementError: A measurement is out of range; the message has its index.
            ParameterError: A nonce or rand is missing or has the wrong size, or `ctx` is too long.
        """
        from aggregator.vdaf import sharding

        return sharding.shard(self, ctx, measurements, nonces, rands)

    def verify_init(
        self,
        verify_key: bytes,
        ctx: bytes,
        agg_id: int,
        nonces: Batch,
        public_shares: Batch,
        input_shares: Batch,
    ) -> BegunBatch:
        """Begin to verify a batch of reports.

        Args:
            verify_key: `verify_key_size` bytes that the aggregators share and no client knows.
            ctx: The application context string.
            agg_id: Which aggregator this is; 0 is the leader.
            nonces: `nonce_size` bytes each.
            public_shares: As they came from the client; an array has `public_share_size` columns.
            input_shares: As they came from the client; an array has `input_share_size(agg_id)`
                columns. It must not change: the leader's out shares may be part of it.

        Returns:
            For each report a verifier share or, in the state's `errors`, a `ShareDecodeError`, or a
            `VerifyError` if the test point is a root of unity.

        Raises:
            ParameterError: The key, a nonce, `agg_id` or the shape of an array is wrong, or `ctx`
                is too long: the caller's fault, not a report's.
        """
        from aggregator.vdaf.kernels import dispatch
        from aggregator.vdaf.shares import check_batch, checked_rows, to_rows
        from aggregator.vdaf.verification import Aggregator, ReportShares
        from field import Vector

        if len(verify_key) != self.verify_key_size:
            raise ParameterError(
                f"verify_key must have {self.verify_key_size} bytes, not {len(verify_key)}"
            )
        if not 0 <= agg_id < self.num_shares:
            raise ParameterError(f"agg_id must be from 0 to {self.num_shares - 1}, not {agg_id}")
        rows, input_share_size = len(nonces), self.input_share_size(agg_id)
        nonce_rows = checked_rows("nonce", nonces, rows, self.nonce_size)
        check_batch("public share", public_shares, rows, self.public_share_size)
        check_batch("input share", input_shares, rows, input_share_size)
        aggregator = Aggregator(verify_key, ctx, agg_id)
        parts = self._verification_slices(agg_id, rows, public_shares, input_shares)
        # Out shares stay where they are, unless that is a slice's own memory.
        stays = len(parts) == 1 and dispatch.has_leading_out_shares(self, agg_id)
        outputs = dispatch.new_outputs(self, rows, has_out_shares=not stays)
        encoded, rejected = outputs.out_shares, dict[int, ReportRejected]()
        for part in parts:
            public_rows, wrong_public = to_rows(public_shares[part], self.public_share_size)
            input_rows, wrong_input = to_rows(input_shares[part], input_share_size)
            encoded = input_rows if stays else encoded
            shares = ReportShares(aggregator, nonce_rows[part], public_rows, input_rows)
            found = dispatch.query(self, shares, outputs.rows(part) if len(parts) > 1 else outputs)
            # If a report has several errors the first applies: that of its public share.
            for name, wrong in (("input", wrong_input), ("public", wrong_public)):
                for index in wrong:
                    found[index] = ShareDecodeError(f"the {name} share has the wrong size")
            for index, error in found.items():
                rejected[part.start + index] = error
        out_shares = dispatch.out_shares_of(self, encoded)
        if rejected:
            wrong = list(rejected)
            outputs.verifier_shares[wrong] = NO_ENCODING
            out_shares = out_shares.copy() if stays else out_shares
            out_shares[wrong] = 0
        # Nothing may change it from here on, and kernels take read-only rows as they are.
        outputs.verifier_shares.setflags(write=False)
        state = VerifyState(Vector(self.field, out_shares), outputs.joint_rand_seeds, rejected)
        return BegunBatch(state, outputs.verifier_shares)

    def verifier_shares_to_message(
        self, ctx: bytes, verifier_shares: Sequence[ByteRows]
    ) -> VerifierMessages:
        """Add up the verifier shares of each report and decide whether it is valid.

        Args:
            ctx: The application context string.
            verifier_shares: Each aggregator's, in the order of their ids, one row per report.

        Returns:
            The verifier messages, and each report's error, a `VerifyError`.

        Raises:
            ParameterError: There are more or fewer arrays than aggregators, or one has the wrong
                shape.
        """
        from aggregator.vdaf.kernels.decision import decide_shares
        from aggregator.vdaf.shares import check_batch

        if len(verifier_shares) != self.num_shares:
            raise ParameterError(
                f"there must be {self.num_shares} arrays of verifier shares, "
                f"not {len(verifier_shares)}"
            )
        for shares in verifier_shares:
            check_batch("verifier share", shares, len(verifier_shares[0]), self.verifier_share_size)
        return decide_shares(self, ctx, verifier_shares)

    def verify_next(self, state: VerifyState, messages: VerifierMessages) -> OutShares:
        """Finish the verification of a batch.

        Args:
            state: From this aggregator's `verify_init`.
            messages: From `verifier_shares_to_message`; an error among them is the report's error.

        Returns:
            For each report an out share, or its error: the state's, the message's, or a
            `VerifyError` if the client lied about the joint randomness.

        Raises:
            ParameterError: There are more or fewer messages than reports, or they have the wrong
                size.
        """
        import numpy as np

        from aggregator.vdaf.shares import check_batch, different_rows

        rows = len(state)
        check_batch("verifier message", messages.rows, rows, self.verifier_message_size)
        rejected = messages.rejected | state.rejected
        for index in different_rows(messages.rows, state.joint_rand_seeds):
            rejected.setdefault(index, VerifyError(OTHER_JOINT_RANDOMNESS))
        if not rejected:
            return OutShares(state.out_shares, rejected)
        is_good = np.ones(rows, np.bool_)
        is_good[list(rejected)] = False
        return OutShares(state.out_shares.where(is_good), rejected)

    def agg_init(self) -> Vector:
        """Return the aggregate share of no reports."""
        from field import Vector

        return Vector.zeros(self.field, self.output_len)

    def agg_update(self, agg_share: Vector, out_shares: Vector) -> Vector:
        """Return an aggregate share with out shares added, shape `(rows, output_len)`."""
        return agg_share.plus_sum_of(out_shares)

    def merge(self, agg_shares: Sequence[Vector]) -> Vector:
        """Return the sum of aggregate shares."""
        total = self.agg_init()
        for agg_share in agg_shares:
            total = total + agg_share
        return total

    def encode_agg_share(self, agg_share: Vector) -> bytes:
        """Return an aggregate share's wire form."""
        from field import encode

        return encode(agg_share)

    def decode_agg_share(self, data: bytes) -> Vector:
        """Return an aggregate share from its wire form.

        Raises:
            ParameterError: The size is wrong, or a number is not a residue.
        """
        from field import decode

        size = self.output_len * self.field.encoded_size
        if len(data) != size:
            raise ParameterError(f"an aggregate share must have {size} bytes, not {len(data)}")
        try:
            return decode(self.field, data)
        except FieldError as error:
            raise ParameterError(
                f"an aggregate share holds a number that is not a residue: {error}"
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
        from field import centre

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

    def _verification_slices(
        self, agg_id: int, rows: int, public_shares: Batch, input_shares: Batch
    ) -> Sequence[slice]:
        """Return the slices of a batch that are verified one after the other."""
        from aggregator.vdaf.kernels import dispatch
        from aggregator.vdaf.shares import WORKING_MEMORY, slices

        memory = WORKING_MEMORY
        if dispatch.is_fused(self):
            if _are_contiguous(public_shares, input_shares):
                # A kernel needs no more memory for a larger batch, and nothing is copied.
                return [slice(0, rows)]
            memory = SLICE_SIZE
        return [*slices(rows, dispatch.working_size(self, agg_id), memory)]


def _are_contiguous(*batches: Batch) -> bool:
    import numpy as np

    return all(isinstance(batch, np.ndarray) and batch.flags.c_contiguous for batch in batches)
