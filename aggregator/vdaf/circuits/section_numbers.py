"""Sections whose entries are numbers: of everybody, by group, or given an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from aggregator.vdaf.circuits.base import Run, check_parameter
from aggregator.vdaf.circuits.linear_form import LinearCheck, Term
from aggregator.vdaf.circuits.range_checked import digits_of, weights
from aggregator.vdaf.circuits.section_base import (
    Claim,
    Place,
    Row,
    Section,
    SectionMisfit,
    minus,
    one_then_another,
)
from aggregator.vdaf.circuits.section_choices import one_hot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.vdaf.circuits.section_base import Values


@dataclass(frozen=True, slots=True)
class Number(Section):
    """A number from 0 to `bound` that every measurement has."""

    bound: int

    name: ClassVar[str] = "number"
    code: ClassVar[int] = 3
    number_names: ClassVar[tuple[str, ...]] = ("largest",)
    output_len: ClassVar[int] = 1

    @property
    @override
    def row(self) -> Row:
        return Row(1, self.bound)

    @property
    @override
    def digits(self) -> tuple[int, ...]:
        return weights(self.bound)

    @override
    def furthest(self) -> Sequence[Run]:
        return one_then_another(1, self.bound)


@dataclass(frozen=True, slots=True)
class ByGroup(Section):
    """Numbers that add up to at most `bound`, as in Prio3L1BoundSum; the client claims the sum."""

    entries: int
    bound: int

    name: ClassVar[str] = "bygroup"
    code: ClassVar[int] = 4
    number_names: ClassVar[tuple[str, ...]] = ("entries", "largest")

    @property
    @override
    def row(self) -> Row:
        return Row(self.entries, self.bound)

    @property
    @override
    def digits(self) -> tuple[int, ...]:
        return weights(self.bound)

    @property
    @override
    def claims(self) -> int:
        return len(self.digits)

    @override
    def check(self, parts: Sequence[Values], index: int) -> None:
        import numpy as np

        part = parts[index]
        left = np.full(len(part), self.bound, np.uint64)
        which = np.zeros(len(part), np.bool_)
        for entry in part.T:  # what is left cannot wrap, as a sum could
            which |= entry > left
            left -= np.minimum(entry, left)
        if which.any():
            raise SectionMisfit(which, f"the entries must add up to at most {self.bound}")

    @override
    def claim(self, parts: Sequence[Values], index: int) -> Claim:
        return Claim(parts[index].sum(axis=1)[:, None], self.bound)

    @override
    def checks(self, places: Sequence[Place], index: int) -> list[LinearCheck]:
        own = places[index]
        entries = Term(own.summed, self.summed, self.digits)
        return [LinearCheck(0, (entries, minus(own.claimed, self.bound)))]

    @override
    def furthest(self) -> Sequence[Run]:
        return one_then_another(self.entries, self.bound)


@dataclass(frozen=True, slots=True)
class Given(Section):
    """Numbers from 0 to `bound`, each 0 unless its entry of the one-hot section `of` is 1.

    So at most one is not 0. For each number the client claims its slack, how many more of its
    digits could be 1: if the entry is 1, the count of its zero digits; if the entry is 0, none, and
    no digit may be 1.
    """

    of: int
    entries: int
    bound: int

    name: ClassVar[str] = "given"
    code: ClassVar[int] = 5
    number_names: ClassVar[tuple[str, ...]] = ("of", "entries", "largest")
    most_entries: ClassVar[int] = 1

    @classmethod
    @override
    def of_numbers(cls, numbers: Sequence[int], earlier: Sequence[Section]) -> Given:
        of, entries, largest = numbers
        check_parameter("the number of entries", entries, one_hot(earlier, of).entries)
        return cls(of, entries, largest)

    @property
    @override
    def row(self) -> Row:
        return Row(self.entries, self.bound, of=self.of)

    @property
    @override
    def digits(self) -> tuple[int, ...]:
        return weights(self.bound)

    @property
    @override
    def claims(self) -> int:
        return self.entries * len(self._slack)

    @property
    def _slack(self) -> tuple[int, ...]:
        """The weights of the digits of the slack claimed for one entry."""
        return weights(len(self.digits))

    @override
    def check(self, parts: Sequence[Values], index: int) -> None:
        answers = parts[self.of][:, : self.entries]
        if (which := ((parts[index] > 0) & (answers == 0)).any(axis=1)).any():
            raise SectionMisfit(which, f"an entry must be 0 unless that of section {self.of} is 1")

    @override
    def claim(self, parts: Sequence[Values], index: int) -> Claim:
        import numpy as np

        ones = digits_of(parts[index], self.bound).sum(axis=2, dtype=np.uint64)
        most = len(self.digits)
        return Claim(np.uint64(most) * parts[self.of][:, : self.entries] - ones, most)

    @override
    def checks(self, places: Sequence[Place], index: int) -> list[LinearCheck]:
        own, answers, most = places[index], places[self.of].summed, len(self.digits)
        slack = self._slack
        return [
            LinearCheck(
                0,
                (
                    Term(own.summed + entry * most, most),
                    Term(own.claimed + entry * len(slack), len(slack), slack),
                    Term(answers + entry, 1, (-most,)),
                ),
            )
            for entry in range(self.entries)
        ]

    @override
    def furthest(self) -> Sequence[Run]:
        return one_then_another(self.entries, self.bound)
