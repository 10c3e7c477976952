"""The end of verification of Count and Sum on lanes: a flag for each report.

`aggregator.vdaf.decision` computes the same function for every circuit; it is the definition. A
verifier is the circuit's output, the gadget's wires, and its output, all at the test point. The
proof holds if the circuit's output is 0 and the gadget's is what comes of the wires: x*y of Count's
two wires, x^2 - x of Sum's one.

Source:
    VDAF, "Deciding Validity".
"""

from typing import NamedTuple

from aggregator.vdaf._lane_decide import INVALID, UNDECODABLE
from field._jit import LaneWidth, kernel
from field.lane_arrays import WORD_SIZE, Bytes, LaneArray, new_lane_array
from field.lane_rows import rows_to_words, word_out
from field.lanes import Code, Integer, Place, Word, operation
from field.lanes64 import MODULUS, canonical, plus, product


class Scratch(NamedTuple):
    """Lane arrays for one group of reports.

    Attributes:
        words: All aggregators' shares of the verifier.
        flags: One row.
    """

    words: LaneArray
    flags: LaneArray


def new_scratch(num_shares: int, verifier_len: int, lanes: int) -> Scratch:
    """Return scratch for one group of reports."""
    # Where words are gathered from rows, some beyond the last become zero.
    space = new_lane_array(1 + num_shares * verifier_len + lanes, lanes)
    return Scratch(space[1:], space[:1])


@kernel
def decide_groups(
    width: LaneWidth,
    arity: int,
    leader: Bytes,
    others: Bytes,
    flags: Bytes,
    scratch: Scratch,
) -> None:
    """Fill in the flags of all reports, as many at a time as there are lanes.

    Args:
        width: The number of lanes.
        arity: Wires of the gadget: Count's two or Sum's one.
        leader: `uint8[rows, size]`, shares of verifiers; the number of rows is a multiple of the
            number of lanes.
        others: `uint8[num_shares - 1, rows, size]`, the same of the other aggregators.
        flags: `uint8[rows, 8]`: one word a report.
        scratch: From `new_scratch`.
    """
    rows, size = leader.shape
    num_others, length = others.shape[0], arity + 2
    flat = others.reshape(num_others * rows, size)
    for first in range(0, rows, len(width)):
        # In this order: what is gathered may set rows beyond to zero.
        rows_to_words(width, scratch.words, 0, leader, first * size, size, length)
        for index in range(num_others):
            start = (index * rows + first) * size
            place = (index + 1) * length
            rows_to_words(width, scratch.words, place, flat, start, size, length)
        decide(width, scratch.flags, 0, scratch.words, 0, arity, num_others + 1)
        word_out(width, flags, first * WORD_SIZE, WORD_SIZE, scratch.flags, 0)


@operation
def decide(code: Code, flags: Place, words: Place, arity: Integer, num_shares: Integer) -> None:
    """Flag the lanes whose verifier is undecodable, or is that of no proof."""
    builder, unit = code.builder, code.integer(1)
    gadget = builder.add(arity, unit)
    length = builder.add(gadget, unit)
    found = code.variables([code.constant(0)])

    def added(place: Place) -> Word:
        """Return the sum of all shares of one residue, any word; note any that is no residue."""
        total = code.variables([code.constant(0)])
        with code.repeat(num_shares) as agg_id:
            share = place.advanced(builder.mul(agg_id, length)).load()
            found.store_many([found.load_many()[0] | share.at_least(MODULUS)])
            total.store_many([plus(total.load_many()[0], share)])
        return total.load_many()[0]

    output, x, y = added(words), added(words.moved(1)), added(words.advanced(arity))
    claimed = added(words.advanced(gadget))
    # x^2 = (x^2 - x) + x, where there is one wire; arity - 2 is then a mask of all ones.
    is_one_wire = code.in_every_lane(builder.sub(arity, code.integer(2)))
    expected = plus(claimed, canonical(x) & is_one_wire)
    difference = canonical(product(x, y)) ^ canonical(expected)
    is_wrong = (canonical(output) | difference).at_least(1)
    flags.store((is_wrong & INVALID) | (found.load_many()[0] & UNDECODABLE))
