"""Sections whose entries are bits: an answer, a set of labels, and the table of two answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from aggregator.errors import ParameterError
from aggregator.vdaf.circuits.base import Run, check_parameter
from aggregator.vdaf.circuits.linear_form import LinearCheck, Term
from aggregator.vdaf.circuits.section_base import (
    BIT,
    Claim,
    Place,
    Row,
    Section,
    SectionMisfit,
    minus,
    one_then_another,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.vdaf.circuits.section_base import Values


@dataclass(frozen=True, slots=True)
class OneHot(Section):
    """Exactly one entry is 1: an answer to a question. "No answer" is one of the labels."""

    entries: int

    name: ClassVar[str] = "onehot"
    code: ClassVar[int] = 1
    number_names: ClassVar[tuple[str, ...]] = ("entries",)
    digits: ClassVar[tuple[int, ...]] = BIT
    most_entries: ClassVar[int] = 1

    @override
    def __post_init__(self) -> None:
        Section.__post_init__(self)
        if self.entries == 1:
            raise ParameterError(
                "the number of entries must be at least 2: a single one is constant"
            )

    @property
    @override
    def row(self) -> Row:
        return Row(self.entries)

    @override
    def check(self, parts: Sequence[Values], index: int) -> None:
        if (which := parts[index].sum(axis=1) != 1).any():
            raise SectionMisfit(which, "exactly one entry must be 1")

    @override
    def checks(self, places: Sequence[Place], index: int) -> list[LinearCheck]:
        return [LinearCheck(-1, (Term(places[index].summed, self.entries),))]

    @override
    def furthest(self) -> Sequence[Run]:
        return one_then_another(self.entries, 1)


@dataclass(frozen=True, slots=True)
class AtMost(Section):
    """At most `most` entries are 1, as in Prio3MultihotCountVec; the client claims how many."""

    entries: int
    most: int

    name: ClassVar[str] = "atmost"
    code: ClassVar[int] = 2
    number_names: ClassVar[tuple[str, ...]] = ("entries", "most")
    digits: ClassVar[tuple[int, ...]] = BIT

    @override
    def __post_init__(self) -> None:
        Section.__post_init__(self)
        check_parameter("the most ones", self.most, self.entries)

    @property
    @override
    def row(self) -> Row:
        return Row(self.entries, self.most)

    @property
    @override
    def claims(self) -> int:
        return self.most.bit_length()

    @override
    def check(self, parts: Sequence[Values], index: int) -> None:
        import numpy as np

        if (which := parts[index].sum(axis=1) > np.uint64(self.most)).any():
            raise SectionMisfit(which, f"at most {self.most} entries must be 1")

    @override
    def claim(self, parts: Sequence[Values], index: int) -> Claim:
        return Claim(parts[index].sum(axis=1)[:, None], self.most)

    @override
    def checks(self, places: Sequence[Place], index: int) -> list[LinearCheck]:
        own = places[index]
        return [LinearCheck(0, (Term(own.summed, self.entries), minus(own.claimed, self.most)))]

    @property
    @override
    def most_entries(self) -> int:
        return self.most

    @override
    def furthest(self) -> Sequence[Run]:
        # As in Prio3MultihotCountVec.
        rest = self.entries - self.most
        opposite = min(self.most, rest)
        return [Run(self.most, 1, 0), Run(rest - opposite, 0, 0), Run(opposite, 0, 1)]


@dataclass(frozen=True, slots=True)
class Table(Section):
    """Entry (a, b), row by row, is 1 exactly where the answers `of` and `by` are a and b.

    Attributes:
        of: The one-hot section of the rows.
        by: The one-hot section of the columns.
        rows: How many entries `of` has.
        columns: How many entries `by` has.
    """

    of: int
    by: int
    rows: int
    columns: int

    name: ClassVar[str] = "table"
    code: ClassVar[int] = 6
    number_names: ClassVar[tuple[str, ...]] = ("of", "by")
    digits: ClassVar[tuple[int, ...]] = BIT
    most_entries: ClassVar[int] = 1

    @classmethod
    @override
    def of_numbers(cls, numbers: Sequence[int], earlier: Sequence[Section]) -> Table:
        of, by = numbers
        if of == by:
            raise ParameterError("a table must be of two different sections")
        return cls(of, by, one_hot(earlier, of).entries, one_hot(earlier, by).entries)

    @property
    @override
    def numbers(self) -> tuple[int, ...]:
        return (self.of, self.by)

    @property
    @override
    def row(self) -> Row:
        return Row(self.output_len, of=self.of, by=self.by)

    @property
    @override
    def output_len(self) -> int:
        return self.rows * self.columns

    @override
    def check(self, parts: Sequence[Values], index: int) -> None:
        product = parts[self.of][:, :, None] * parts[self.by][:, None, :]
        if (which := (product.reshape(parts[index].shape) != parts[index]).any(axis=1)).any():
            raise SectionMisfit(
                which,
                f"each entry must be the product of those of sections {self.of} and {self.by}",
            )

    @override
    def checks(self, places: Sequence[Place], index: int) -> list[LinearCheck]:
        own, of, by = places[index].summed, places[self.of].summed, places[self.by].summed
        sums_of_rows = [
            (Term(own + row * self.columns, self.columns), Term(of + row, 1, (-1,)))
            for row in range(self.rows)
        ]
        sums_of_columns = [
            (Term(own + column, self.rows, step=self.columns), Term(by + column, 1, (-1,)))
            for column in range(self.columns)
        ]
        return [LinearCheck(0, terms) for terms in sums_of_rows + sums_of_columns]

    @override
    def furthest(self) -> Sequence[Run]:
        # Entry 0 of both sections, then entry 1 of both.
        rest = self.output_len - self.columns - 2
        return [Run(1, 1, 0), Run(self.columns, 0, 0), Run(1, 0, 1), Run(rest, 0, 0)]


def one_hot(earlier: Sequence[Section], number: int) -> OneHot:
    """Return an earlier one-hot section.

    Raises:
        ParameterError: There is no one-hot section with this number.
    """
    found = earlier[number] if number < len(earlier) else None
    if not isinstance(found, OneHot):
        raise ParameterError(f"it must refer to an earlier onehot section, not to {number}")
    return found
