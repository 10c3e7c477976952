"""The linear form of a circuit as tables of numbers for the kernel of `kernels.chunks.query`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aggregator.vdaf.circuits import Block, LinearCheck, LinearForm, Term
from aggregator.vdaf.kernels.chunks.arrays import BLOCK_COLUMNS, TERM_COLUMNS, Places
from field.lanes import Table, limbs128

_BIT = (1,)
"""The weights of an entry that is its only digit."""


class Blocks(NamedTuple):
    """What `Tables` holds of blocks."""

    places: Places
    small_weights: Table
    weights: list[int]


class Checks(NamedTuple):
    """What `Tables` holds of linear checks."""

    constants: list[int]
    check_terms: Places
    terms: Places
    weights: list[int]


def fits(form: LinearForm, output_len: int, meas_len: int) -> bool:
    """Return whether the kernel can compute a form with this number of entries and residues."""
    terms = [term for check in form.checks for term in check.terms]
    return (
        sum(block.entries for block in form.blocks) == output_len
        and sum(block.entries * len(block.weights) for block in form.blocks) <= meas_len
        and all(block.weights for block in form.blocks)
        and all(0 <= term.first < term.end <= meas_len for term in terms)
        and all(term.step == 1 or _is_plain(term) for term in terms)
    )


def table_of_blocks(blocks: Sequence[Block]) -> Blocks:
    """Return the rows of `Tables.blocks`, and the weights that they point to."""
    rows: list[list[int]] = []
    small_weights: list[int] = []
    weights: list[int] = []
    first = 0
    for block in blocks:
        small = len(small_weights) if _is_small(block) else -1
        digits = 0 if block.weights == _BIT else len(block.weights)
        rows.append([first, block.entries, digits, small, len(weights)])
        small_weights += block.weights if small >= 0 else ()
        weights += block.weights
        first += block.entries * len(block.weights)
    places = np.array(rows, np.int64).reshape(-1, BLOCK_COLUMNS)
    return Blocks(places, np.array(small_weights, np.uint64), weights)


def table_of_checks(form: LinearForm, meas_len: int, first_weight: int) -> Checks:
    """Return the rows of `Tables.terms` and what belongs to them.

    Args:
        form: The form.
        meas_len: How many residues there are.
        first_weight: How many weights stand before those of the terms in `Tables.weights`.
    """
    rest = beyond_the_digits(form, meas_len)
    checks = form.checks if rest is None else (rest,)
    rows: list[list[int]] = []
    ends = [0]
    weights: list[int] = []
    for check in checks:
        for term in check.terms:
            weight = -1 if _is_plain(term) else first_weight + len(weights)
            rows.append([term.first, term.length, term.step, weight])
            weights += () if _is_plain(term) else term.weights_of_all()
        ends.append(len(rows))
    return Checks(
        constants=[check.constant for check in checks],
        check_terms=np.array(ends, np.int64),
        terms=np.array(rows, np.int64).reshape(-1, TERM_COLUMNS),
        weights=weights,
    )


def beyond_the_digits(form: LinearForm, meas_len: int) -> LinearCheck | None:
    """Return what the only check adds to the sum of all digits; None if they are to be added apart.

    The kernel loads every digit once to evaluate the wires, and adds them up then at little cost.
    That serves a check of a long first part whose weights are 1, as in Histogram.
    """
    if len(form.checks) != 1:
        return None
    constant, terms = form.checks[0]
    if not terms or terms[0] != Term(0, terms[0].length):
        return None
    end = terms[0].length
    if meas_len - end > end:
        return None
    # The rest, each weight less the 1 with which the digit is in the sum already.
    rest = [-1] * (meas_len - end)
    for term in terms[1:]:
        if term.first < end or term.step != 1:
            return None
        for place, weight in enumerate(term.weights_of_all(), term.first - end):
            rest[place] += weight
    return LinearCheck(constant, (Term(end, len(rest), tuple(rest)),) if rest else ())


def _is_plain(term: Term) -> bool:
    return term.weights == _BIT


def _is_small(block: Block) -> bool:
    """Return whether weights are few enough, and their sum small enough, for `decode_digits`."""
    few = len(block.weights) <= limbs128.MAX_WEIGHT.bit_length()
    return few and min(block.weights) >= 0 and sum(block.weights) <= limbs128.MAX_WEIGHT
