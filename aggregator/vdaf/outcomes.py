"""What the verification steps return for a batch: arrays of rows, and errors as values.

Each report has its own outcome. Nearly always nothing is wrong, so only the errors are kept, in
`rejected` by their place in the batch; `errors` lists them report by report.

Source:
    VDAF, "Verification" of Prio3.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sized
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import override

from aggregator.errors import ReportRejected

if TYPE_CHECKING:
    from aggregator.vdaf.xof import ByteRows
    from field import Vector

NO_ENCODING = 0xFF
"""Fills a row that stands for no verifier share: in no field are all ones a residue."""

Rejections: TypeAlias = dict[int, ReportRejected]
"""Why reports of a batch are rejected, by their place in it; valid reports have no entry."""

NO_VERIFIER_SHARE = "a verifier share does not decode"
OTHER_JOINT_RANDOMNESS = "the joint randomness is not what the client used"


class VerifyError(ReportRejected):
    """A report failed verification: DAP's `vdaf_verify_error`."""


class ShareDecodeError(ReportRejected):
    """A public share or an input share does not decode: DAP's `invalid_message`."""


class Outcomes(Sized):
    """The outcome of each report of a batch.

    Attributes:
        rejected: Why reports are rejected.
    """

    __slots__ = ()

    rejected: Rejections

    @property
    def errors(self) -> list[ReportRejected | None]:
        """Why each report is rejected, or None."""
        return [self.rejected.get(index) for index in range(len(self))]


@dataclasses.dataclass(frozen=True, slots=True)
class VerifyState(Outcomes):
    """What one aggregator keeps of a batch between `verify_init` and `verify_next`.

    Attributes:
        out_shares: Shape `(rows, output_len)`; zero where there is an error. The leader's may be
            part of its input shares, which must not change until the out shares are added up.
        joint_rand_seeds: Shape `(rows, 32)`, or `(rows, 0)` without joint randomness.
        rejected: Why reports are rejected already.
    """

    out_shares: Vector = dataclasses.field(repr=False)
    joint_rand_seeds: ByteRows = dataclasses.field(repr=False)
    rejected: Rejections

    @override
    def __len__(self) -> int:
        return len(self.joint_rand_seeds)


@dataclasses.dataclass(frozen=True, slots=True)
class BegunBatch:
    """What `verify_init` returns.

    Attributes:
        state: For `verify_next`.
        verifier_share_rows: Shape `(rows, verifier_share_size)`, to be combined with the other
            aggregators'; read-only. Where there is an error it holds no residues (`NO_ENCODING`),
            so that the report is rejected whatever shares it is combined with.
    """

    state: VerifyState
    verifier_share_rows: ByteRows = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class VerifierMessages(Outcomes):
    """What all aggregators' verifier shares of a batch decide.

    Attributes:
        rows: Shape `(rows, verifier_message_size)`; meaningless where a report is rejected.
        rejected: Why reports are rejected.
    """

    rows: ByteRows = dataclasses.field(repr=False)
    rejected: Rejections

    @override
    def __len__(self) -> int:
        return len(self.rows)


@dataclasses.dataclass(frozen=True, slots=True)
class OutShares(Outcomes):
    """One aggregator's shares of verified measurements, ready to be summed.

    Attributes:
        shares: Shape `(rows, output_len)`; zero where there is an error, so a sum over all rows is
            the sum over the verified ones. They may be part of the input shares, as in
            `VerifyState`.
        rejected: Why reports were rejected.
    """

    shares: Vector = dataclasses.field(repr=False)
    rejected: Rejections

    @override
    def __len__(self) -> int:
        return len(self.shares)
