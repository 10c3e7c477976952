"""Deciding on the verifier shares of Count and Sum on lanes: a flag for each report.

`kernels.decision` computes the same function for every circuit and is the definition. A verifier is
the circuit's output, the gadget's wires, and its output, all at the test point. The proof holds if
the circuit's output is 0 and the gadget's is its value at the wires: x*y for Count's two wires,
x^2 - x for Sum's one. That is four words at most, so a group of reports goes from rows of bytes to
flags in registers, without scratch space.

Source:
    VDAF, "Deciding Validity".
"""

from collections.abc import Sequence

from aggregator.vdaf.kernels.arrays import INVALID, UNDECODABLE
from field.lanes import (
    WORD_SIZE,
    Bytes,
    Code,
    Integer,
    LaneWidth,
    Rows,
    Word,
    field64,
    kernel,
    operation,
    transposed,
)

MAX_LENGTH = 4
"""The largest verifier, Count's, in words."""


@kernel
def decide_groups(
    width: LaneWidth,
    arity: int,
    leader: Bytes,
    others: Bytes,
    seeds: Bytes,  # noqa: ARG001  both kernels that decide take the same arrays
    flags: Bytes,
) -> None:
    """Fill in the flags of all reports, as many at a time as there are lanes.

    Args:
        width: The number of lanes.
        arity: Wires of the gadget: Count's two or Sum's one.
        leader: `uint8[rows, size]`, verifier shares; the number of rows is a multiple of the
            number of lanes.
        others: `uint8[rows, (num_shares - 1) * size]`, the other aggregators' verifier shares, side
            by side for each report.
        seeds: `uint8[rows, 0]`: there is no joint randomness.
        flags: `uint8[rows, 8]`: one word per report.
    """
    size, stride = leader.shape[1], others.shape[1]
    for first in range(0, leader.shape[0], len(width)):
        start, place = first * size, first * stride
        decide(
            width,
            flags=(flags, first * WORD_SIZE),
            leader=(leader, start),
            size=size,
            others=(others, place),
            stride=stride,
            arity=arity,
        )


@operation
def decide(
    code: Code,
    flags: Rows,
    leader: Rows,
    size: Integer,
    others: Rows,
    stride: Integer,
    arity: Integer,
) -> None:
    """Flag the lanes whose verifier is undecodable or not that of a valid proof.

    `size` is that of a share, `stride` that of all the other shares of a report.
    """
    length = arity + 2
    own = _words(leader, size, length)
    totals, found = code.variables(own), code.variables([_is_not_a_residue(own)])
    for index in code.repeat(stride // size):
        shares = _words(others.moved(index * size), stride, length)
        found.store_many([found.load_many()[0] | _is_not_a_residue(shares)])
        added = [field64.plus(a, b) for a, b in zip(totals.load_many(), shares, strict=True)]
        totals.store_many(added)
    output, x, second, third = totals.load_many()
    # If there is one wire, it is both factors, and after it comes the gadget's output, to which x
    # is added: x^2 = (x^2 - x) + x. arity - 2 is then a mask of all ones.
    is_one_wire = code.in_every_lane(arity - 2)
    y = _chosen(is_one_wire, x, second)
    claimed = _chosen(is_one_wire, second, third)
    expected = field64.plus(claimed, field64.canonical(x) & is_one_wire)
    difference = field64.canonical(field64.product(x, y)) ^ field64.canonical(expected)
    is_wrong = (field64.canonical(output) | difference).at_least(1)
    # The flags of all lanes are side by side, as one row.
    word = (is_wrong & INVALID) | (found.load_many()[0] & UNDECODABLE)
    flags.store(word, 0, 0)


def _words(rows: Rows, stride: Integer, length: Integer) -> list[Word]:
    """Return the first `MAX_LENGTH` words of each lane's row, 0 from `length` on."""
    code, words = rows.code, list[Word]()
    for start in range(0, MAX_LENGTH, code.lanes):
        part = rows.moved(WORD_SIZE * start)
        count = length - start
        words += transposed(
            code, [part.load_some(lane, stride, count) for lane in range(code.lanes)]
        )
    return words[:MAX_LENGTH]


def _is_not_a_residue(words: Sequence[Word]) -> Word:
    """Return all ones in the lanes where one of some words is p or more, zero elsewhere."""
    found = words[0].at_least(field64.MODULUS)
    for word in words[1:]:
        found = found | word.at_least(field64.MODULUS)
    return found


def _chosen(mask: Word, word: Word, other: Word) -> Word:
    """Return `word` where the mask is all ones, `other` where it is zero."""
    return ((word ^ other) & mask) ^ other
