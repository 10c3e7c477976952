"""Which exact counts are not shown because they are small: only for tasks without noise.

This is not differential privacy. The collector opens every count before it suppresses any, so at
best it protects against readers of what the collector publishes. `collector.results` has what
can be proved for a single count.

Source: [Des20], Definition 60: a count of at most T is suppressed.
"""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import Self

from aggregator.dp.decimals import integer_in
from aggregator.dp.rationals import format_rational, parse_probability
from aggregator.dp.sensitivity import check_counts, is_one_count
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit

_LARGEST = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Suppression:
    """Counts of at most T are not shown.

    Attributes:
        at_or_below: T, from 0 to 2^63 - 1.
        assumed_probability: For one count, the assumed upper bound of each answer's chance to be
            "yes". It does not change what is shown, only what is said about it.
    """

    at_or_below: int
    assumed_probability: Fraction | None = None

    def __post_init__(self) -> None:
        assumed = self.assumed_probability
        integer_in(self.at_or_below, "suppress_at_or_below", 0, _LARGEST)
        if assumed is not None and not 0 < assumed < 1:
            raise ParameterError(f"assumed_probability must be between 0 and 1, not {assumed}")

    @classmethod
    def from_settings(cls, values: dict[str, object]) -> Self | None:
        """Take suppression out of settings, or raise `ParameterError`; None if there is none."""
        limit = values.pop("suppress_at_or_below", None)
        assumed = values.pop("assumed_probability", None)
        if limit is None:
            if assumed is not None:
                raise ParameterError("assumed_probability: needs suppress_at_or_below")
            return None
        return cls(
            integer_in(limit, "suppress_at_or_below", 0, _LARGEST),
            None if assumed is None else parse_probability(assumed, "assumed_probability"),
        )

    def settings(self) -> dict[str, str | int]:
        """Return the settings that `from_settings` takes."""
        settings: dict[str, str | int] = {"suppress_at_or_below": self.at_or_below}
        if self.assumed_probability is not None:
            settings["assumed_probability"] = format_rational(self.assumed_probability)
        return settings

    def check(self, circuit: Circuit) -> None:
        """Refuse a circuit for which this is meaningless.

        Raises `UnsupportedCircuit` if results of this circuit are sums, not counts;
        `ParameterError` if a probability is assumed, and the circuit is not a single count.
        """
        check_counts(circuit)
        if self.assumed_probability is not None and not is_one_count(circuit):
            raise ParameterError(
                "assumed_probability: the theorem is about one count, Prio3Count; for "
                f"Prio3{circuit.name} there is no guarantee"
            )

    def select(self, counts: Sequence[int], circuit: Circuit) -> list[int | None]:
        """Return the counts that may be shown, None in place of the others.

        A histogram's buckets add up to the public number of reports, so the sum of the suppressed
        ones is known. It reveals them all if there is only one, or if all are 0 or all are T. Then
        the smallest remaining bucket is suppressed too, or several that are equally small; if none
        remains, nothing is shown.

        A reader who knows this rule and the total is then sure of no suppressed count. If all
        suppressed counts are small, there are at least two, and their sum is neither the least nor
        the most possible, so each may have another value. If larger ones are among them, any two
        may be swapped: the rule depends on values only, and would have suppressed the same buckets.
        """
        small = {index for index, count in enumerate(counts) if count <= self.at_or_below}
        if circuit.is_one_hot and small:
            total = sum(counts[index] for index in small)
            if len(small) == 1 or total in {0, len(small) * self.at_or_below}:
                least = min((count for count in counts if count > self.at_or_below), default=-1)
                small |= {index for index, count in enumerate(counts) if count == least}
        return [None if index in small else count for index, count in enumerate(counts)]
