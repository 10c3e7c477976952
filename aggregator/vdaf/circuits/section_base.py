"""`Section`: what a kind of section of Prio3Sections must define.

A section's residues are zeros and ones. Those that are summed are the digits of its entries; with
some kinds the client adds digits of numbers that it *claims*, so that a linear check can hold them
against the entries. `aggregator.vdaf.circuits.sections` puts sections together; docs/protocol.md
has the proof that the checks suffice.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from typing_extensions import override

from aggregator.vdaf.circuits.base import Run, Summed, check_max_measurement, check_parameter
from aggregator.vdaf.circuits.linear_form import Term
from aggregator.vdaf.circuits.range_checked import weights
from field import FIELD128

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    import numpy as np
    import numpy.typing as npt

    from aggregator.vdaf.circuits.linear_form import LinearCheck

    Values: TypeAlias = npt.NDArray[np.uint64]
    """Entries of a batch, `uint64[num_measurements, entries]`."""

MAX_ENTRIES = 2**16 - 1

BIT = (1,)
"""The weights of an entry that is its only digit."""


class Place(NamedTuple):
    """Where a section's residues stand in an encoding: the first that is summed, or claimed."""

    summed: int
    claimed: int


class Claim(NamedTuple):
    """Numbers that a client appends: the same count for each measurement, from 0 to `largest`."""

    values: Values
    largest: int


class Row(NamedTuple):
    """A section in a configuration; `of` and `by` are the earlier sections to which it refers."""

    entries: int
    bound: int = 1
    of: int = 0
    by: int = 0


class SectionMisfit(Exception):
    """Measurements do not fit their section.

    Attributes:
        which: `bool[num_measurements]`: which measurements these are.
        problem: What they must be.
    """

    def __init__(self, which: npt.NDArray[np.bool_], problem: str) -> None:
        super().__init__(problem)
        self.which = which
        self.problem = problem


class Section(Summed):
    """One section: a value, equal if its numbers are."""

    __slots__ = ()

    code: ClassVar[int]
    """Its kind's number in a configuration."""

    number_names: ClassVar[tuple[str, ...]]
    """The names of the numbers in its text, in order."""

    def __post_init__(self) -> None:
        check_parameter("the number of entries", self.output_len, MAX_ENTRIES)
        check_max_measurement("the largest number", self.row.bound, FIELD128)

    @classmethod
    def of_numbers(cls, numbers: Sequence[int], earlier: Sequence[Section]) -> Section:
        """Return the section with these numbers, by default its fields, after some earlier ones.

        Raises:
            ParameterError: A number is out of its range.
        """
        del earlier
        make: Callable[..., Section] = cls
        return make(*numbers)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in its text, by default its fields."""
        fields: tuple[str, ...] = self.__slots__
        return tuple(getattr(self, name) for name in fields)

    @property
    @abstractmethod
    def row(self) -> Row:
        """Its row in a configuration."""

    @property
    @override
    def output_len(self) -> int:
        return self.row.entries

    @property
    @abstractmethod
    def digits(self) -> tuple[int, ...]:
        """The weights of an entry's digits."""

    @property
    def claims(self) -> int:
        """How many residues it claims."""
        return 0

    @property
    def largest(self) -> int:
        """The largest value of an entry."""
        return sum(self.digits)

    @property
    def summed(self) -> int:
        """How many of its residues are summed."""
        return self.output_len * len(self.digits)

    @property
    def text(self) -> str:
        """How it is written, such as `atmost:7,3`."""
        return f"{self.name}:{','.join(map(str, self.numbers))}"

    def check(self, parts: Sequence[Values], index: int) -> None:
        """Refuse measurements that this section does not allow; their entries are in range.

        Args:
            parts: The measurements' values in this section, at `index`, and in those before.
            index: The section's place.

        Raises:
            SectionMisfit: Some are not allowed; it says which, and why.
        """

    def claim(self, parts: Sequence[Values], index: int) -> Claim | None:
        """Return what a client claims of measurements that `check` lets pass, if anything."""
        del parts, index
        return None

    def checks(self, places: Sequence[Place], index: int) -> list[LinearCheck]:
        """Return the linear checks; with bits for residues they make a valid section."""
        del places, index
        return []


def one_then_another(entries: int, largest: int) -> list[Run]:
    """Return the furthest measurements that hold `largest` in one entry.

    These are the first two entries, not the first and the last: a section that refers to this one
    may have fewer entries.
    """
    if entries == 1:
        return [Run(1, largest, 0)]
    return [Run(1, largest, 0), Run(1, 0, largest), Run(entries - 2, 0, 0)]


def minus(first: int, largest: int) -> Term:
    """Return the term that subtracts a number up to `largest`, whose digits begin at `first`."""
    digits = weights(largest)
    return Term(first, len(digits), tuple(-weight for weight in digits))
