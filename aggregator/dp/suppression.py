"""Which exact counts are not shown because they are small: only for tasks without noise.

This is not differential privacy. The collector opens every count before it suppresses any, so at
best it protects against readers of what the collector publishes. `collector.results` has what
can be proved for a single count.

A count that lacks at most T of all reports is not shown either: their number is public, so it
tells how many gave the other answer.

Source: [Des20], Definition 60, in both directions as the text after it asks.
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
    """Counts of at most T are not shown, nor those from which such a count follows.

    Attributes:
        at_or_below: T, from 0 to 2^63 - 1.
        assumed_probability: For one count, the assumed bound of each answer's chance to be "yes":
            the most if it is at most 1/2, otherwise the least. It does not change what is shown,
            only what is said about it.
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

    def check_batches(self, min_batch_size: int) -> None:
        """Refuse batches of which nothing could be shown, as no count can be above T both ways."""
        least = 2 * self.at_or_below + 2
        if min_batch_size < least:
            raise ParameterError(
                f"min_batch_size: must be at least {least}, not {min_batch_size}, where "
                f"suppress_at_or_below is {self.at_or_below}: of fewer reports no count can be "
                "shown, as it or the number of all others is too small"
            )

    def select(self, counts: Sequence[int], circuit: Circuit, reports: int) -> list[int | None]:
        """Return the counts that may be shown, None in place of the others.

        The buckets of a histogram add up to the number of reports. So do the entries of reports
        that add to one entry at most, as one count is, with the number of those that add to none.
        Such parts of a known total are suppressed together; see `_parts`. Where a report may add
        to several entries, each entry and what it lacks of all reports are the two parts of a
        total, and if no more than T could be added to what is hidden, so is the smallest that
        would be shown.

        Args:
            counts: Exact.
            circuit: What counted them.
            reports: How many reports there are.
        """
        parts, most = list(counts), circuit.most_entries
        if circuit.is_one_hot or most == 1:
            if not circuit.is_one_hot:
                parts.append(reports - sum(counts))
            hidden = self._parts(parts)
        else:
            limit = self.at_or_below
            hidden = {j for j, n in enumerate(counts) if n <= limit or reports - n <= limit}
            shown = [count for j, count in enumerate(counts) if j not in hidden]
            if shown and most * reports - sum(shown) <= limit:
                hidden |= {j for j, count in enumerate(counts) if count == min(shown)}
        return [None if index in hidden else count for index, count in enumerate(counts)]

    def _parts(self, counts: Sequence[int]) -> set[int]:
        """Return which parts of a known total are hidden.

        The sum of the hidden ones is known. If it were at most T, it would be a small count itself;
        and all are revealed if all are T. Then the smallest remaining part is hidden too, or
        several that are equally small; if none remains, all are hidden.

        A reader who knows this rule and the total is then sure of no hidden part. If all are small,
        there are at least two, and their sum is neither the least nor the most possible, so each
        may have another value. If larger ones are among them, any two may be swapped: the rule
        depends on values only, and would have hidden the same parts.
        """
        small = {index for index, count in enumerate(counts) if count <= self.at_or_below}
        total = sum(counts[index] for index in small)
        if small and (total <= self.at_or_below or total == len(small) * self.at_or_below):
            least = min((count for count in counts if count > self.at_or_below), default=-1)
            small |= {index for index, count in enumerate(counts) if count == least}
        return small
