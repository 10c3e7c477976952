"""What a circuit computes besides the check that each residue is 0 or 1: linear functions.

The kernels know how to check digits; from a circuit they need only this. A circuit without a linear
form is verified all the same, by its own `evaluate` and `truncate`.
"""

import dataclasses
from typing import NamedTuple


class LinearCheck(NamedTuple):
    """An output that must be 0: all residues, each times its weight, and a constant.

    Attributes:
        constant: The constant.
        last_weights: The weights of the last residues; all before them have the weight 1.
    """

    constant: int = 0
    last_weights: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class LinearForm:
    """The linear part of a circuit whose encodings are zeros and ones.

    Besides this the circuit checks that each residue is 0 or 1, and nothing else. It checks them as
    `BitVectorCircuit` does, or by one gadget call per residue x: `Mul` on (x, x), from whose output
    it subtracts x, or `PolyEval` of x^2 - x, whose output it returns.

    Attributes:
        weights: Entry i of the sum adds up `len(weights)` residues, from residue `i * len(weights)`
            on, each times its weight.
        check: The output after that of the range check, if any.
    """

    weights: tuple[int, ...]
    check: LinearCheck | None = None
