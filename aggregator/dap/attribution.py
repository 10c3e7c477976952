"""The Attribution draft's extensions: two of a task, one of a report and one of a collection.

Source: draft-thomson-ppm-dap-attribution.
"""

import dataclasses
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Self

from aggregator.codec import U32_MAX
from aggregator.dap.extensions import Extension, Extensions, find
from aggregator.dap.profile import CODE_POINTS
from aggregator.errors import ParameterError

BUDGET_SIZE: Final = 4
"""Bytes of a budget: of a report's, or of what a collection asks of each."""

LEAST_BUDGET: Final = 1
"""The least budget that a report may have: a millionth of an epsilon."""

BUDGET_NAME: Final = "min_dp_budget"
"""What names the budget of a collection, among what names its batch."""

MILLION: Final = 10**6
"""So many are an epsilon of 1."""

_HOST = re.compile("[!-~]{1,253}")


@dataclasses.dataclass(frozen=True, slots=True)
class Attribution:
    """That a task counts what browsers attribute; hosts as they are on the wire, never normalised.

    Attributes:
        collector_identity: The host of the site that collects, or of its intermediary.
        budget_source: The host of the site whose budget pays for the reports.

    Raises:
        ParameterError: One of them is no host.
    """

    collector_identity: str
    budget_source: str

    def __post_init__(self) -> None:
        for name in ("collector_identity", "budget_source"):
            if not _HOST.fullmatch(host := getattr(self, name)):
                raise ParameterError(
                    f"attribution.{name}: must be a host, 1 to 253 visible ASCII characters, "
                    f"not {host!r}"
                )

    @property
    def extensions(self) -> Extensions:
        """The task extensions that say this, in order."""
        return (
            Extension(CODE_POINTS.collector_identity, self.collector_identity.encode()),
            Extension(CODE_POINTS.budget_source, self.budget_source.encode()),
        )

    @classmethod
    def of(cls, extensions: Sequence[Extension]) -> Self | None:
        """Return what a task's extensions say, None if they say nothing of it.

        Raises `ParameterError` if there is only one of the two, or one that is no host.
        """
        identity = find(extensions, CODE_POINTS.collector_identity)
        source = find(extensions, CODE_POINTS.budget_source)
        if identity is None and source is None:
            return None
        if identity is None or source is None:
            raise ParameterError("attribution: needs both collector_identity and budget_source")
        return cls(identity.decode("latin-1"), source.decode("latin-1"))


def privacy_budget(budget: int) -> Extensions:
    """Return the public extensions of a report that may cost `budget` millionths of an epsilon.

    Raises `ParameterError` if that is no budget.
    """
    return (Extension(CODE_POINTS.privacy_budget, _written(budget, "privacy_budget")),)


def min_dp_budget(budget: int) -> Extensions:
    """Return the extensions of a collection whose reports are to pay `budget` millionths each.

    Raises `ParameterError` if that is no budget.
    """
    return (Extension(CODE_POINTS.min_dp_budget, _written(budget, "min_dp_budget")),)


def asked_budget(extensions: Sequence[Extension]) -> int:
    """Return what a collection's reports are to pay, in millionths of an epsilon.

    Raises `ParameterError` if the collection does not say it, or says no budget.
    """
    data = find(extensions, CODE_POINTS.min_dp_budget)
    if data is None:
        raise ParameterError("min_dp_budget: a collection of attribution needs this extension")
    if len(data) != BUDGET_SIZE:
        raise ParameterError(f"min_dp_budget: must be {BUDGET_SIZE} bytes, not {len(data)}")
    budget = int.from_bytes(data, "big")
    if budget < LEAST_BUDGET:
        raise ParameterError("min_dp_budget: must be above 0")
    return budget


def budget_of(epsilon: Fraction) -> int:
    """Return an epsilon in millionths; raises `ParameterError` if that is no whole number."""
    millionths = epsilon * MILLION
    if millionths.denominator > 1:
        raise ParameterError("epsilon: must be a whole number of millionths")
    return millionths.numerator


def _written(budget: int, name: str) -> bytes:
    if not LEAST_BUDGET <= budget <= U32_MAX:
        raise ParameterError(
            f"{name}: must be from {LEAST_BUDGET} to {U32_MAX} millionths, not {budget}"
        )
    return budget.to_bytes(BUDGET_SIZE, "big")
