"""Noised results made plausible: named post-processing, which costs no privacy.

A noised count may be negative, and noised buckets do not add up to the number of reports. What is
known without looking at the data (a count lies between 0 and n; a histogram's buckets add up to n)
may be restored: that depends only on the release and on public numbers. Arithmetic is exact.

Error bars and sums of results are for the raw noised values, which always stay beside these. They
are unbiased; clamped or projected values are not, though a clamped value, and a projected histogram
as a whole, is never farther from the truth than before.

Source: [HRMS10] restores such constraints in released histograms. The projection on a simplex is
[DSSC08], Figure 1.
"""

import dataclasses
import math
from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction

from aggregator.dp.sensitivity import max_entry
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import Circuit


class Rule(StrEnum):
    """A rule that can be asked for."""

    CLAMP = "clamp"
    SIMPLEX = "simplex"


@dataclasses.dataclass(frozen=True, slots=True)
class PostProcessed:
    """A result after post-processing.

    Attributes:
        values: Exact; None in place of a withheld value.
        integers: The same, rounded to integers that obey the rule.
        statement: In words, what was done and what it means for the intervals.
    """

    rule: Rule
    values: tuple[Fraction | None, ...]
    integers: tuple[int | None, ...]
    statement: str


def post_process(
    rule: Rule, circuit: Circuit, values: Sequence[int | None], report_count: int
) -> PostProcessed:
    """Apply a rule to noised sums, centred, with None in place of a withheld one.

    Raises `ParameterError` for a projection of anything but a histogram without withheld buckets.
    """
    if rule is Rule.CLAMP:
        high = report_count * max_entry(circuit)
        clamped = tuple(None if value is None else min(max(value, 0), high) for value in values)
        return PostProcessed(
            rule=rule,
            values=tuple(None if value is None else Fraction(value) for value in clamped),
            integers=clamped,
            statement=f"Post-processed: each value clamped to what {report_count} reports can sum "
            f"to, 0 to {high}. Intervals of the noised values hold for the clamped ones as well.",
        )
    if not circuit.is_one_hot:
        raise ParameterError(
            f"post-process: only a histogram's buckets add up to the number of reports, not "
            f"Prio3{circuit.name}'s; clamp works for all"
        )
    buckets = [value for value in values if value is not None]
    if len(buckets) < len(values):
        raise ParameterError(
            "post-process: buckets are withheld, and those that are shown do not add up to the "
            "number of reports; clamp works for all"
        )
    projected = project_on_simplex(buckets, report_count)
    return PostProcessed(
        rule=rule,
        values=tuple(projected),
        integers=tuple(round_to_sum(projected)),
        statement=f"Post-processed: the nearest histogram whose buckets are at least 0 and add up "
        f"to the {report_count} reports (least squares); integers by largest remainders. Intervals "
        "are of the noised values, not of these.",
    )


def project_on_simplex(values: Sequence[int], total: int) -> list[Fraction]:
    """Return the nearest vector, by Euclidean distance, with entries >= 0 that add up to `total`.

    It is max(v - theta, 0) in every entry, with the theta that gives the right sum. The entries
    that stay positive are the largest ones: as many as exceed the theta that follows from them
    alone. Raises `ParameterError` if there are no values, or `total` is negative.
    """
    if not values or total < 0:
        raise ParameterError("project_on_simplex: needs values, and a total of at least 0")
    if total == 0:
        return [Fraction(0)] * len(values)
    theta, running = Fraction(0), 0
    for count, value in enumerate(sorted(values, reverse=True), start=1):
        running += value
        shift = Fraction(running - total, count)
        if value <= shift:
            break
        theta = shift
    return [max(value - theta, Fraction(0)) for value in values]


def round_to_sum(values: Sequence[Fraction]) -> list[int]:
    """Return integers with the same sum: floors, with the largest remainders rounded up.

    Of equal remainders the first ones are. No vector of integers with that sum is nearer. Raises
    `ParameterError` if the values do not add up to an integer.
    """
    missing = sum(values, Fraction(0)) - sum(math.floor(value) for value in values)
    if missing.denominator != 1:
        raise ParameterError("round_to_sum: the values must add up to an integer")
    rounded = [math.floor(value) for value in values]
    by_remainder = sorted(range(len(values)), key=lambda index: rounded[index] - values[index])
    for index in by_remainder[: int(missing)]:
        rounded[index] += 1
    return rounded
