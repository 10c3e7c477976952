"""Deciding on the verifier shares of a parallel sum of products on lanes.

`kernels.decision` computes the same function for every circuit and is the definition. Here as many
reports as there are lanes go from bytes to a flag and the joint randomness seed. A verifier is the
circuit's output, pairs of wires, and the gadget's output, all at the test point; the proof holds if
the circuit's output is 0 and the gadget's is the sum of the pairs' products.

Source:
    VDAF, "Deciding Validity".
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from aggregator.vdaf.kernels.arrays import INVALID, SEED_SIZE, SEED_WORDS, UNDECODABLE
from aggregator.vdaf.kernels.message import absorb_filled
from aggregator.vdaf.kernels.xof import SPONGE_ROWS
from field.lanes import (
    WORD_SIZE,
    Bytes,
    Code,
    Integer,
    LaneArray,
    LaneWidth,
    Place,
    Table,
    Variables,
    Word,
    Workspace,
    copy_words,
    cut,
    fetch_part,
    field128,
    inlined,
    kernel,
    limbs128,
    operation,
    row_ends,
    rows_to_words,
    words_to_rows,
)

# Rows of the scratch space `Scratch.registers`.
OUTPUT = 0
TOTAL = OUTPUT + field128.RESIDUE
CLAIMED = TOTAL + field128.RESIDUE
PRODUCTS = CLAIMED + field128.RESIDUE
RESULTS = PRODUCTS + field128.COLUMNS
FLAGS = RESULTS + 2 * field128.WORDS
REGISTER_ROWS = FLAGS + 1


T = TypeVar("T")


class ScratchOf(NamedTuple, Generic[T]):
    """Scratch space for one group of reports: lane arrays, or how many rows they have.

    Attributes:
        sponge: See `kernels.xof`.
        parts: All aggregators' joint randomness parts.
        words: All aggregators' verifier shares, encoded, each followed by its part.
        registers: Values named above.
        block: Bytes on their way to a row, in the spare rows at the end of every lane array.
    """

    sponge: T
    parts: T
    words: T
    registers: T
    block: T


Scratch: TypeAlias = ScratchOf[LaneArray]


def scratch_ends(num_shares: int, verifier_len: int, lanes: int) -> ScratchOf[int]:
    """Return where the lane arrays of `Scratch` end."""
    rows = ScratchOf(
        sponge=SPONGE_ROWS,
        parts=SEED_WORDS * num_shares + 1,
        words=(field128.WORDS * verifier_len + SEED_WORDS) * num_shares,
        registers=REGISTER_ROWS,
        block=0,
    )
    return row_ends(rows, lanes)


@kernel
def decide_groups(
    width: LaneWidth,
    verifier_len: int,
    minus_one: Table,
    message: Table,
    parts_start: int,
    workspace: Workspace,
    leader: Bytes,
    others: Bytes,
    seeds: Bytes,
    flags: Bytes,
) -> None:
    """Fill in seeds and flags of all reports, as many at a time as there are lanes.

    Args:
        width: The number of lanes.
        verifier_len: Residues of a verifier, an even number: output, pairs, gadget's output.
        minus_one: -1 as a table of constants.
        message: That of the joint randomness seed; the aggregators' parts are blank.
        parts_start: The byte of the message at which the parts begin.
        workspace: Its lane arrays end at `scratch_ends`.
        leader: `uint8[rows, size]`, each row a verifier share and then a joint randomness part; the
            number of rows is a multiple of the number of lanes.
        others: `uint8[rows, (num_shares - 1) * size]`, the same of the other aggregators, side by
            side for each report.
        seeds: `uint8[rows, 32]`.
        flags: `uint8[rows, 8]`: one word per report.
    """
    scratch: Scratch = cut(width, workspace)
    rows, size = leader.shape
    num_shares = 1 + others.shape[1] // size
    for first in range(0, rows, len(width)):
        _load_share(width, leader, first, 0, size, 0, scratch)
        for agg_id in range(1, num_shares):
            _load_share(width, others, first, (agg_id - 1) * size, size, agg_id, scratch)
        following = first + len(width)
        fetch_part(width, leader, following, 0, 1)
        part_words = SEED_WORDS * num_shares
        absorb_filled(width, scratch.sponge, message, parts_start, scratch.parts, part_words)
        words_to_rows(
            width, seeds, first * SEED_SIZE, SEED_SIZE, scratch.sponge, 0, SEED_SIZE, scratch.block
        )
        fetch_part(width, others, following, 0, 1)
        _decide(width, verifier_len, num_shares, minus_one, scratch)
        words_to_rows(width, flags, first * 8, 8, scratch.registers, FLAGS, 8, scratch.block)


@inlined
def _load_share(
    width: LaneWidth,
    shares: Bytes,
    first: int,
    start: int,
    size: int,
    agg_id: int,
    scratch: Scratch,
) -> None:
    """Bring an aggregator's shares into lanes, and copy its parts beside the others'.

    The shares begin at byte `start` of the rows from `first` on.
    """
    stride, words = shares.shape[1], size // WORD_SIZE
    place, row = first * stride + start, agg_id * words
    rows_to_words(width, scratch.words, row, shares, place, stride, words)
    part = row + words - SEED_WORDS
    copy_words(width, (scratch.parts, agg_id * SEED_WORDS), (scratch.words, part), SEED_WORDS)


@inlined
def _decide(
    width: LaneWidth,
    verifier_len: int,
    num_shares: int,
    minus_one: Table,
    scratch: Scratch,
) -> None:
    """Flag the lanes whose verifier is undecodable or not that of a valid proof.

    A sum of products comes out divided by R, and so does the product of the gadget's output and -1;
    that does not change whether their sum is 0.
    """
    words, registers, stride = (
        scratch.words,
        scratch.registers,
        field128.WORDS * verifier_len + SEED_WORDS,
    )
    registers[FLAGS] = 0
    last = field128.WORDS * (verifier_len - 1)
    add_shares(width, (registers, OUTPUT), (registers, FLAGS), words, stride, num_shares)
    add_shares(width, (registers, CLAIMED), (registers, FLAGS), (words, last), stride, num_shares)
    field128.multiply_constant(width, (registers, TOTAL), (registers, CLAIMED), minus_one)
    pairs = (verifier_len - 2) // 2
    for start in range(0, pairs, limbs128.MAX_PRODUCTS):
        registers[PRODUCTS : PRODUCTS + field128.COLUMNS] = 0
        count = min(limbs128.MAX_PRODUCTS, pairs - start)
        pair = field128.WORDS * (1 + 2 * start)
        add_pairs(
            width,
            total=(registers, PRODUCTS),
            flags=(registers, FLAGS),
            words=(words, pair),
            stride=stride,
            num_shares=num_shares,
            count=count,
        )
        field128.reduce_products(width, (registers, CLAIMED), (registers, PRODUCTS))
        field128.add(width, (registers, TOTAL), (registers, TOTAL), (registers, CLAIMED))
    field128.to_words(width, (registers, RESULTS), (registers, OUTPUT))
    field128.to_words(width, (registers, RESULTS + field128.WORDS), (registers, TOTAL))
    flag_not_zero(width, (registers, FLAGS), (registers, RESULTS))


@operation
def add_shares(
    code: Code, out: Place, flags: Place, words: Place, stride: Integer, count: Integer
) -> None:
    """Set `out` to the sum of `count` encoded shares, `stride` rows apart, below 2p.

    Shares that are not residues are flagged as `UNDECODABLE`.
    """
    found = code.variables([code.constant(0)])
    out.store_many(_added_shares(code, found, words, stride, count))
    _flag(flags, found, UNDECODABLE)


@operation
def add_pairs(
    code: Code,
    total: Place,
    flags: Place,
    words: Place,
    stride: Integer,
    num_shares: Integer,
    count: Integer,
) -> None:
    """Add the products of `count` pairs of wires, given as encoded shares, to a sum.

    Shares that are not residues are flagged as `UNDECODABLE`.
    """
    columns, found = (
        code.variables(field128.load_columns(total)),
        code.variables([code.constant(0)]),
    )
    for index in code.repeat(count):
        pair = words.moved(index * (2 * field128.WORDS))
        left = _added_shares(code, found, pair, stride, num_shares)
        right = _added_shares(code, found, pair.moved(field128.WORDS), stride, num_shares)
        columns.store_many(field128.limbs_of(code).added_product(columns.load_many(), left, right))
    total.store_many(columns.load_many())
    _flag(flags, found, UNDECODABLE)


@operation
def flag_not_zero(code: Code, flags: Place, words: Place) -> None:
    """Flag as `INVALID` the lanes where one of two encoded residues is not 0."""
    found = code.variables([code.constant(0)])
    for word in words.load_many(2 * field128.WORDS):
        found.store_many([found.load_many()[0] | word])
    _flag(flags, found, INVALID)


def _added_shares(
    code: Code, found: Variables, words: Place, stride: Integer, count: Integer
) -> Sequence[Word]:
    """Return the limbs, below 2p, of the sum of `count` encoded shares.

    There are at most 255 shares, so each limb grows by at most 8 bits, and the sum is below 2^136
    and can be folded. `found` becomes nonzero where a share is not a residue.
    """
    limbs = field128.limbs_of(code)
    sums = code.variables([code.constant(0)] * limbs.count)
    for agg_id in code.repeat(count):
        share = words.moved(agg_id * stride)
        low, high = share.load(0), share.load(1)
        found.store_many([found.load_many()[0] | field128.is_not_a_residue(low, high)])
        sums.store_many(limbs.plus(sums.load_many(), limbs.split(low, high)))
    return limbs.folded(sums.load_many())


def _flag(flags: Place, found: Variables, flag: int) -> None:
    """Set the bits `flag` in the lanes where `found` is not 0."""
    is_found = found.load_many()[0].at_least(1)
    flags.store(flags.load() | (is_found & flag))
