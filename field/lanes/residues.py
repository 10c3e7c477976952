"""Residues of either field in an operation, so that algebra is written once for both.

`field128` and `field64` each have a function `residues`, which an operation over any field is bound
to; see `field.lanes.operations.operation`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from field.lanes.words import Code, Integer, Place, Scalars, Variables, Word


class Arithmetic(Protocol):
    """What a field computes on limbs; for the bounds of each see where it is implemented.

    The results of all but `reduced_sum` may be lazy, in bounds that all take for operands. Where a
    field's product is not its operands' but that over R, constants are in Montgomery form.
    """

    @property
    def count(self) -> int:
        """Limbs of a residue."""

    @property
    def columns(self) -> int:
        """Words of a sum of products."""

    @property
    def split(self) -> Callable[..., list[Word]]:
        """Takes the words of an encoding, and returns the limbs."""

    def encoded(self, x: Sequence[Word]) -> Sequence[Word]:
        """Return the encoding of what `reduced_sum` returned."""

    def product(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return x*y."""

    def sum(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return x + y, for y that was decoded or is what `reduced_sum` returned."""

    def minus(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return x - y, for such y."""

    def plus_and_minus(self, x: Sequence[Word], y: Sequence[Word]) -> tuple[list[Word], list[Word]]:
        """Return x + y and x - y, for y that is a product."""

    def added_product(
        self, columns: Sequence[Word], x: Sequence[Word], y: Sequence[Word]
    ) -> list[Word]:
        """Return a sum of products with x*y added."""

    def reduced_sum(self, columns: Sequence[Word]) -> list[Word]:
        """Return the residue of a sum of at most `MAX_PRODUCTS` products of either field."""


@dataclasses.dataclass(frozen=True, slots=True)
class Residues:
    """Where residues lie, and the arithmetic on their limbs.

    Attributes:
        code: What computes.
        arithmetic: The field's, in the layout of limbs that the code has.
        size: Rows of a lane array, or words of a table, that a residue in limbs takes.
        words: Rows that an encoded one takes.
    """

    code: Code
    arithmetic: Arithmetic
    size: int
    words: int

    def at(self, residues: Place, index: Integer | int) -> Place:
        """Return the place of a residue in limbs, `index` after the first."""
        return residues.moved(index * self.size)

    def load(self, residues: Place, index: Integer | int = 0) -> list[Word]:
        """Return the limbs of a residue, `index` after the first."""
        return self.at(residues, index).load_many(self.arithmetic.count)

    def load_constant(self, constants: Scalars, index: Integer | int = 0) -> list[Word]:
        """Return the limbs of a constant, in every lane."""
        return constants.moved(index * self.size).load_many(self.arithmetic.count)

    def load_encoded(self, words: Place, index: Integer | int = 0) -> list[Word]:
        """Return the limbs of an encoded residue."""
        return self.arithmetic.split(*words.moved(index * self.words).load_many(self.words))

    def sum_of_none(self) -> Variables:
        """Return a sum of products, 0."""
        return self.code.variables([self.code.constant(0)] * self.arithmetic.columns)

    def add_product(self, sums: Variables, x: Sequence[Word], y: Sequence[Word]) -> None:
        """Add x*y to a sum of products."""
        sums.store_many(self.arithmetic.added_product(sums.load_many(), x, y))

    def reduced(self, sums: Variables) -> list[Word]:
        """Return the residue of a sum of products."""
        return self.arithmetic.reduced_sum(sums.load_many())

    def reduce_unless_zero(self, first: Integer, sums: Sequence[Variables], one: Scalars) -> None:
        """Begin sums of products anew, each as one product of what it is so far.

        Args:
            first: The number of the first of the products to come; if it is 0 nothing was added
                yet.
            sums: The sums.
            one: 1, in Montgomery form where constants are.
        """
        none = [self.code.constant(0)] * self.arithmetic.columns
        for _ in self.code.unless_zero(first):
            for columns in sums:
                product = self.arithmetic.added_product(
                    none, self.reduced(columns), self.load_constant(one)
                )
                columns.store_many(product)
