"""What a circuit computes besides the check that each residue is 0 or 1: linear functions.

The kernels know how to check digits; from a circuit they need only this. A circuit without a linear
form is verified all the same, by its own `evaluate` and `truncate`.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import NamedTuple


class Block(NamedTuple):
    """Adjacent entries of the sum that are weighted sums of equally many residues.

    Attributes:
        entries: How many entries.
        weights: The weights of an entry's residues. The residues of an entry follow those of the
            entry before, and a block's those of the block before, from residue 0 on.
    """

    entries: int
    weights: tuple[int, ...]


class Term(NamedTuple):
    """A weighted sum of some residues.

    Attributes:
        first: The first of them.
        length: How many.
        weights: Their weights, which begin again after the last.
        step: The distance from one residue to the next.
    """

    first: int
    length: int
    weights: tuple[int, ...] = (1,)
    step: int = 1

    @property
    def end(self) -> int:
        """The residue after the last one."""
        return self.first + (self.length - 1) * self.step + 1

    def weights_of_all(self) -> Iterator[int]:
        """Return the weight of each residue."""
        return itertools.islice(itertools.cycle(self.weights), self.length)


class LinearCheck(NamedTuple):
    """An output that must be 0: a constant and some terms.

    Attributes:
        constant: The constant.
        terms: What is added to it.
    """

    constant: int
    terms: tuple[Term, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class LinearForm:
    """The linear part of a circuit whose encodings are zeros and ones.

    Besides this the circuit checks that each residue is 0 or 1, and nothing else. It checks them as
    `ChunkedBitsCircuit` does, or by one gadget call per residue x: `Mul` on (x, x), from whose
    output it subtracts x, or `PolyEval` of x^2 - x, whose output it returns.

    Attributes:
        blocks: What is summed, in the order of the entries.
        checks: The outputs after that of the range check.
    """

    blocks: tuple[Block, ...]
    checks: tuple[LinearCheck, ...] = ()
