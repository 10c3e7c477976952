"""How far a released value may lie from the truth before a test calls it wrong."""

from collections.abc import Sequence
from fractions import Fraction

from aggregator.protocol.task_file import task_from_toml

FALSE_ALARM = Fraction(1, 10**9)
"""How often a correct release fails `assert_near`, at most."""


def assert_near(values: Sequence[int], truth: Sequence[int], task_file: str) -> None:
    """Compare a release with the true sums, all coordinates at once, within its noise's bound.

    The bound is exact for the sum of the two aggregators' draws, so a correct release fails with a
    probability of at most `FALSE_ALARM`. A release without noise passes too, so this says nothing
    about privacy.
    """
    task = task_from_toml(task_file)
    width = task.policy.mechanism.joint_half_width(
        task.prio3.circuit, 1 - FALSE_ALARM, aggregators=2
    )
    assert len(values) == len(truth)
    errors = [value - true for value, true in zip(values, truth, strict=True)]
    assert max(map(abs, errors)) <= width, f"errors {errors}, bound {width}"
