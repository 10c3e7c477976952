"""What is told beside a string, as a level: each bucket of strings has an entry for each level.

It is either a number (`amounts`) or the answer to another question (`choices`). The place in a
report is that of the string's bucket, with the buckets of level 1 after all those of level 0, and
so on; so both are one entry, for one epsilon. Whoever gives only one of both gave no answer.
"""

from typing import TypeAlias

from aggregator.client.text.amounts import Amount, Range, range_of, without_range
from aggregator.client.text.choices import ByChoice, choice_in, without_choice
from aggregator.client.text.hashing import MOST_BUCKETS, NO_ANSWER
from aggregator.errors import ParameterError

Beside: TypeAlias = Amount | ByChoice
"""What a question asks for beside a string."""

Told: TypeAlias = Range | ByChoice
"""What its tasks say of it, which is what a decoder has to know."""

Written: TypeAlias = str | tuple[str, int] | None
"""A string, with the steps of the number or the place of the label where one is asked for; None is
no answer."""


def check_length(length: int, beside: Beside | None) -> None:
    """Refuse more buckets than a report may have entries, if each has one for each level."""
    most = MOST_BUCKETS if beside is None else MOST_BUCKETS // beside.levels
    if length > most:
        what = "an amount" if isinstance(beside, Amount) else "these labels"
        raise ParameterError(f"buckets: with {what} must be at most {most}, not {length}")


def entry_of(bucket: int, level: int, length: int) -> int:
    """Return the entry of a bucket at a level, if `length` buckets are those of one level."""
    return bucket if bucket == NO_ANSWER else bucket + level * (length - 1)


def entries_of(length: int, levels: int) -> int:
    """Return how many entries a report has, if `length` buckets are those of one level."""
    return 1 + levels * (length - 1)


def length_of(entries: int, levels: int) -> int:
    """Return how many buckets one level has if a report has so many entries; 0 if none has."""
    each, rest = divmod(entries - 1, levels)
    return 0 if rest else 1 + each


def labelled(written: Written, place: int | None) -> Written:
    """Return what a person wrote with the place of the label; None if there is only one of both."""
    return (written, place) if isinstance(written, str) and place is not None else None


def told_in(title: str) -> Told | None:
    """Return what the `task_info` of a task says is told beside a string; None if it says none."""
    return range_of(title) or choice_in(title)


def without_told(title: str) -> str:
    """Return what a task is for, without what is told beside a string."""
    return without_range(title) if range_of(title) else without_choice(title)
