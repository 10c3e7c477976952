"""Residues of either field in an operation, so that algebra is written once for both.

`field64.residues` and `field128.residues` bind an operation to a field; see
`field.lanes.operations.operation_over`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from field.lanes.words import Code, Integer, Place, Scalars, Variables, Word


class Arithmetic(Protocol):
    """The arithmetic of a field on limbs; the implementations state its bounds.

    All results but those of `reduced_sum` may be lazily reduced, in bounds that all operations
    accept. Where a field divides products by R, constants are in Montgomery form.
    """

    @property
    def count(self) -> int:
        """The number of limbs of a residue."""

    @property
    def columns(self) -> int:
        """The number of words of a sum of products."""

    @property
    def split(self) -> Callable[..., list[Word]]:
        """A function from the words of an encoding to its limbs."""

    def encoded(self, x: Sequence[Word]) -> Sequence[Word]:
        """Return the encoding of a result of `reduced_sum`."""

    def product(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return x*y."""

    def sum(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return x + y, for y that was decoded or returned by `reduced_sum`."""

    def minus(self, x: Sequence[Word], y: Sequence[Word]) -> list[Word]:
        """Return x - y, for y as in `sum`."""

    def plus_and_minus(self, x: Sequence[Word], y: Sequence[Word]) -> tuple[list[Word], list[Word]]:
        """Return x + y and x - y, for a product y."""

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
        code: The code that computes.
        arithmetic: The field's arithmetic, in the code's layout of limbs.
        size: The rows of a lane array, or words of a table, that a residue in limbs takes.
        words: The rows that an encoded residue takes.
    """

    code: Code
    arithmetic: Arithmetic
    size: int
    words: int

    def at(self, residues: Place, index: Integer | int) -> Place:
        """Return the place of the residue in limbs with this index."""
        return residues.moved(index * self.size)

    def load(self, residues: Place, index: Integer | int = 0) -> list[Word]:
        """Return the limbs of the residue with this index."""
        return self.at(residues, index).load_many(self.arithmetic.count)

    def load_constant(self, constants: Scalars, index: Integer | int = 0) -> list[Word]:
        """Return the limbs of a constant, in every lane."""
        return constants.moved(index * self.size).load_many(self.arithmetic.count)

    def load_encoded(self, words: Place, index: Integer | int = 0) -> list[Word]:
        """Return the limbs of an encoded residue."""
        return self.arithmetic.split(*words.moved(index * self.words).load_many(self.words))

    def empty_sum(self) -> Variables:
        """Return an empty sum of products."""
        return self.code.variables([self.code.constant(0)] * self.arithmetic.columns)

    def add_product(self, sums: Variables, x: Sequence[Word], y: Sequence[Word]) -> None:
        """Add x*y to a sum of products."""
        sums.store_many(self.arithmetic.added_product(sums.load_many(), x, y))

    def reduced(self, sums: Variables) -> list[Word]:
        """Return the residue of a sum of products."""
        return self.arithmetic.reduced_sum(sums.load_many())

    def reduce_unless_zero(self, first: Integer, sums: Sequence[Variables], one: Scalars) -> None:
        """Reduce sums of products, replacing each by one product with its value.

        Args:
            first: The index of the next product; if it is 0, nothing has been added and nothing is
                reduced.
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
