"""`Section`: what a kind of section of Prio3Sections must define.

A section's residues are zeros and ones. Those that are summed are the digits of its entries; with
some kinds the client adds digits of numbers that it *claims*, so that a linear check can hold them
against the entries. `aggregator.vdaf.circuits.sections` puts sections together; docs/adr has the
proof that the checks suffice.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from aggregator.vdaf.circuits.base import Run, Summed, check_max_measurement, check_parameter
from aggregator.vdaf.circuits.linear_form import Term
from aggregator.vdaf.circuits.range_checked import weights
from field import FIELD128

if TYPE_CHECKING:
    from collections.abc import Sequence
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
    """Numbers that a client appends: of each measurement as many, each from 0 to `largest`."""

    values: Values
    largest: int


class Row(NamedTuple):
    """A section in a configuration; `of` and `by` are the earlier sections to which it refers."""

    entries: int
    bound: int = 1
    of: int = 0
    by: int = 0


class Unfit(Exception):
    """Measurements do not fit their section.

    Attributes:
        which: `bool[num_measurements]`: those.
        problem: What must be.
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
    """What the numbers of its text are, in their order."""

    def __post_init__(self) -> None:
        check_parameter("the number of entries", self.output_len, MAX_ENTRIES)
        check_max_measurement("the largest number", self.row.bound, FIELD128)

    @classmethod
    @abstractmethod
    def of_numbers(cls, numbers: Sequence[int], earlier: Sequence[Section]) -> Section:
        """Return the section with these numbers, after some earlier sections.

        Raises:
            ParameterError: A number is out of its range.
        """

    @property
    @abstractmethod
    def numbers(self) -> tuple[int, ...]:
        """Its numbers as its text has them."""

    @property
    @abstractmethod
    def row(self) -> Row:
        """What a configuration has of it."""

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
        """The most that an entry holds."""
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
        """Refuse measurements that are none of this section, whose entries are in their range.

        Args:
            parts: What the measurements have in this section, at `index`, and in those before.
            index: The section's place.

        Raises:
            Unfit: Says which, and why.
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

    They are in the first two entries, not in the first and the last: what refers to a section may
    have fewer entries than it.
    """
    if entries == 1:
        return [Run(1, largest, 0)]
    return [Run(1, largest, 0), Run(1, 0, largest), Run(entries - 2, 0, 0)]


def minus(first: int, largest: int) -> Term:
    """Return the term that subtracts a number from 0 to `largest`, whose digits begin there."""
    digits = weights(largest)
    return Term(first, len(digits), tuple(-weight for weight in digits))
