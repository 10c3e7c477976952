"""The hot path: `verify_init` of the circuits that check digits in chunks, as one kernel.

Histogram, SumVec, MultihotCountVec and L1BoundSum check that each residue of a measurement is 0 or
1 by calls of a parallel sum of multiplications, and differ in what else they check. This module
takes one aggregator's shares of as many reports as there are lanes from bytes to verifier shares,
without leaving the lanes. `aggregator.vdaf.verification` computes the same function for every
circuit; it is the definition, and computes the few reports that are flagged here.

Notation, for one report. There are `num_calls` calls of the gadget; call k = 1, 2, ... has the
joint randomness r_k and the chunk m_(k,0), m_(k,1), ... of the measurement. p is the length of a
wire polynomial, alpha the principal p-th root of unity, beta the principal 2p-th one. t is the test
point, s the number of shares. L_k(x) is the polynomial of degree below p that is 1 at alpha^k and 0
at alpha's other powers.

Source:
    VDAF, "Querying the Proof"; the formulas are derived where they are used.
"""

from aggregator.vdaf.kernels.arrays import SEED_SIZE, Inputs, Outputs, store
from aggregator.vdaf.kernels.chunks.arrays import (
    BLOCK_DIGITS,
    BLOCK_ENTRIES,
    BLOCK_FIRST,
    BLOCK_SMALL_WEIGHT,
    BLOCK_WEIGHT,
    COMBINED,
    DIGITS_SUM,
    MINUS_SHARE_OF_ONE,
    ONE,
    SUMS,
    TERM_COUNT,
    TERM_FIRST,
    TERM_STEP,
    TERM_WEIGHT,
    TO_MONTGOMERY,
    WEIGHTED,
    A,
    B,
    Messages,
    Shape,
    Tables,
)
from aggregator.vdaf.kernels.chunks.polynomials import evaluate_gadget, prepare_bases
from aggregator.vdaf.kernels.chunks.shares import (
    derive_joint_rand,
    derive_query_rand,
    expand_share,
    load_share,
)
from aggregator.vdaf.kernels.shares import Scratch, clear
from field.lanes import (
    Bytes,
    Code,
    Integer,
    LaneWidth,
    Place,
    Scalars,
    Workspace,
    copy_words,
    cut,
    field128,
    kernel,
    operation,
    words_to_rows,
)

CALLS_AT_ONCE = 256
"""Calls whose products are summed before they are reduced; with two more, below `MAX_PRODUCTS`."""

CHECKS_AT_ONCE = 256
"""Linear checks whose products are summed before they are reduced; with one more, the same."""


@kernel
def query_groups(
    width: LaneWidth,
    shape: Shape,
    tables: Tables,
    messages: Messages,
    workspace: Workspace,
    nonces: Bytes,
    public_shares: Bytes,
    input_shares: Bytes,
    verifier_shares: Bytes,
    out_shares: Bytes,
    joint_rand_seeds: Bytes,
    flags: Bytes,
) -> None:
    """Fill in the outputs of all reports, as many at a time as there are lanes.

    Inputs and outputs are passed one by one: passing a named tuple takes as long as ten arrays.
    """
    inputs = Inputs(nonces, public_shares, input_shares)
    outputs = Outputs(verifier_shares, out_shares, joint_rand_seeds, flags)
    scratch: Scratch = cut(width, workspace)
    for first in range(0, nonces.shape[0], len(width)):
        clear(width, scratch.flags)
        if shape.agg_id == 0:
            load_share(width, shape, inputs.input_shares, first, scratch)
        else:
            expand_share(width, shape, messages, inputs.input_shares, first, scratch)
        derive_joint_rand(width, shape, messages, inputs, outputs, first, scratch)
        derive_query_rand(width, shape, messages, inputs.nonces, first, scratch)
        prepare_bases(width, shape, tables, scratch)
        _evaluate_wires(width, shape, tables, scratch)
        evaluate_gadget(width, shape, tables, scratch)
        _evaluate_circuit(width, shape, tables, scratch)
        _store_verifier(width, outputs.verifier_shares, first, scratch)
        if outputs.out_shares.shape[1] > 0:
            _truncate(width, shape, tables, outputs.out_shares, first, scratch)
        store(width, outputs.flags, first, scratch.flags, 0, scratch.block)


@kernel
def _store_verifier(width: LaneWidth, verifier_shares: Bytes, first: int, scratch: Scratch) -> None:
    """Write the verifier's residues, before the part of the joint randomness."""
    stride = verifier_shares.shape[1]
    size = stride - SEED_SIZE
    words_to_rows(
        width, verifier_shares, first * stride, stride, scratch.result, 0, size, scratch.block
    )


@kernel
def _evaluate_wires(width: LaneWidth, shape: Shape, tables: Tables, scratch: Scratch) -> None:
    """Evaluate every wire polynomial at t, into residues 1 to 2 * chunk_length of the verifier.

    Wire 2j takes r_k^(j+1) * m_(k,j) at call k, wire 2j+1 takes m_(k,j) - 1/s; at 0 both take a
    seed from the proof. So at the test point

        wire_(2j)(t)   = L_0(t) * seed_(2j)   + sum over k of (L_k(t) * r_k^(j+1)) * m_(k,j)
        wire_(2j+1)(t) = L_0(t) * seed_(2j+1) + sum over k of L_k(t) * m_(k,j)
                         - 1/s * (sum over k of L_k(t))

    which takes three products per digit: one to step L_k(t) * r_k^j, in `wire_factors`, to the next
    j, and one for each wire. Sums are reduced once per wire, not once per product.
    """
    calls, chunk_length, digits = shape.num_calls, shape.chunk_length, shape.meas_len
    constants, registers = tables.constants, scratch.registers
    basis, factors, joint_rand = scratch.basis, scratch.wire_factors, scratch.joint_rand_limbs
    field128.to_montgomery(width, joint_rand, scratch.joint_rand, (constants, TO_MONTGOMERY), calls)
    copy_words(width, factors, (basis, field128.RESIDUE), field128.RESIDUE * calls)
    registers[DIGITS_SUM : DIGITS_SUM + field128.RESIDUE] = 0
    field128.sum_residues(width, (registers, A), (basis, field128.RESIDUE), calls)
    # The last line of the formula is the same for all odd wires.
    field128.set_product(width, scratch.odd_start, (registers, A), (constants, MINUS_SHARE_OF_ONE))

    # The last call may have fewer digits: the pairs beyond those have one less call.
    whole = digits - (calls - 1) * chunk_length
    for first, end, pair_calls in ((0, whole, calls), (whole, chunk_length, calls - 1)):
        evaluate_pairs(
            width,
            result=(scratch.result, field128.WORDS * (1 + 2 * first)),
            factors=factors,
            joint_rand=joint_rand,
            basis=basis,
            odd_start=scratch.odd_start,
            seeds=(scratch.share, field128.WORDS * (digits + 2 * first)),
            words=(scratch.share, field128.WORDS * first),
            one=(tables.constants, ONE),
            digits_sum=(registers, DIGITS_SUM),
            has_sum=shape.has_digits_sum,
            chunk_length=chunk_length,
            calls=pair_calls,
            pairs=end - first,
        )


@operation
def evaluate_pairs(
    code: Code,
    result: Place,
    factors: Place,
    joint_rand: Place,
    basis: Place,
    odd_start: Place,
    seeds: Place,
    words: Place,
    one: Scalars,
    digits_sum: Place,
    has_sum: Integer,
    chunk_length: Integer,
    calls: Integer,
    pairs: Integer,
) -> None:
    """Evaluate `pairs` pairs of wires, with digits of `calls` calls, into `result`.

    `factors` are L_k(t) * r_k^j for the pair before the first, below 2p, and are stepped to the
    last: multiplying by r_k < 2p keeps them below 2p. No call waits for another's factor, so the
    processor works on several at once.

    If `has_sum` is 1, not 0, the digits are added to `digits_sum`, a residue that stays below 2p.
    The code is generated twice, so that only circuits that need the sum pay for it.
    """
    residues, limbs = field128.residues(code), field128.limbs_of(code)
    total = code.variables(field128.load_residue(digits_sum))

    def evaluate(*, is_summed: bool) -> None:
        for pair in code.repeat(pairs):
            pair_seeds, out = (
                place.moved(pair * (2 * field128.WORDS)) for place in (seeds, result)
            )
            seed_weight = field128.load_residue(basis)
            even_seed, odd_seed = (
                field128.load_unmasked(pair_seeds),
                field128.load_unmasked(pair_seeds.moved(field128.WORDS)),
            )
            even = code.variables(limbs.columns_of_product(seed_weight, even_seed))
            odd = code.variables(
                limbs.added_product(field128.load_columns(odd_start), seed_weight, odd_seed)
            )
            for first, count in code.parts(calls, CALLS_AT_ONCE):
                residues.reduce_unless_zero(first, (even, odd), one)
                for index in code.repeat(count):
                    call = first + index
                    factor = residues.at(factors, call)
                    stepped = limbs.unmasked_product(
                        field128.load_residue(factor),
                        residues.load(joint_rand, call),
                    )
                    factor.store_many(stepped)
                    # The basis begins with L_0, which goes with the seeds.
                    weight = residues.load(basis, call + 1)
                    place = field128.encoded_at(words, pair + call * chunk_length)
                    digit = field128.load_unmasked(place)
                    even.store_many(limbs.added_product(even.load_many(), digit, stepped))
                    odd.store_many(limbs.added_product(odd.load_many(), digit, weight))
                    if is_summed:
                        total.store_many(limbs.plus_unmasked(total.load_many(), digit))
                if is_summed:
                    # The digits of a part and the folded sum: fewer than `MAX_TERMS`.
                    total.store_many(limbs.folded(total.load_many()))
            out.store_many(limbs.encoded(limbs.reduced_sum(even.load_many())))
            out.moved(field128.WORDS).store_many(limbs.encoded(limbs.reduced_sum(odd.load_many())))

    for _ in code.unless_zero(1 - has_sum):
        evaluate(is_summed=False)
    for _ in code.unless_zero(has_sum):
        evaluate(is_summed=True)
    digits_sum.store_many(total.load_many())


@kernel
def _evaluate_circuit(width: LaneWidth, shape: Shape, tables: Tables, scratch: Scratch) -> None:
    """Reduce the circuit's outputs to one, residue 0 of the verifier.

    The range check is the sum of G(alpha^k) over all calls k. If the circuit also has linear
    checks, query randomness combines them all.
    """
    registers, share = scratch.registers, scratch.share
    values = field128.WORDS * (shape.meas_len + 2 * shape.chunk_length)
    field128.sum_encoded(
        width,
        (registers, A),
        (share, values + 2 * field128.WORDS),
        2 * field128.WORDS,
        shape.num_calls,
    )
    if shape.num_checks > 0:
        _add_checks(width, shape, tables, scratch)
    field128.to_words(width, scratch.result, (registers, A))


@kernel
def _add_checks(width: LaneWidth, shape: Shape, tables: Tables, scratch: Scratch) -> None:
    """Combine the range check in A with the linear checks, by query randomness, into A.

    No factor is in Montgomery form, so reduced sums of products are divided by R; the product with
    R^2 makes up for that.
    """
    registers, query_rand = scratch.registers, scratch.query_rand
    registers[COMBINED : COMBINED + field128.COLUMNS] = 0
    add_weighted_output(width, (registers, COMBINED), (registers, A), query_rand)
    registers[A : A + field128.RESIDUE] = 0
    for start in range(0, shape.num_checks, CHECKS_AT_ONCE):
        for check in range(start, min(start + CHECKS_AT_ONCE, shape.num_checks)):
            _evaluate_check(width, shape, tables, check, scratch)
            weight = (query_rand, field128.WORDS * (1 + check))
            add_weighted_output(width, (registers, COMBINED), (registers, B), weight)
        field128.reduce_products(width, (registers, B), (registers, COMBINED))
        field128.add(width, (registers, A), (registers, A), (registers, B))
        registers[COMBINED : COMBINED + field128.COLUMNS] = 0
    constants = tables.constants
    field128.multiply_constant(width, (registers, A), (registers, A), (constants, TO_MONTGOMERY))


@kernel
def _evaluate_check(
    width: LaneWidth, shape: Shape, tables: Tables, check: int, scratch: Scratch
) -> None:
    """Set B to a linear check: its constant and its terms, and perhaps the sum of all digits."""
    registers, share, terms = scratch.registers, scratch.share, tables.terms
    registers[B : B + field128.RESIDUE] = 0
    if shape.has_digits_sum:
        copy_words(width, (registers, B), (registers, DIGITS_SUM), field128.RESIDUE)
    constant = (tables.check_constants, field128.RESIDUE * check)
    field128.add_constant(width, (registers, B), (registers, B), constant)
    for term in range(tables.check_terms[check], tables.check_terms[check + 1]):
        row, count = field128.WORDS * terms[term, TERM_FIRST], terms[term, TERM_COUNT]
        weight = terms[term, TERM_WEIGHT]
        if weight < 0:
            step = field128.WORDS * terms[term, TERM_STEP]
            field128.sum_encoded(width, (registers, WEIGHTED), (share, row), step, count)
        else:
            place = field128.RESIDUE * weight
            field128.sum_of_constant_products(
                width, registers, WEIGHTED, tables.weights, place, share, row, count
            )
        field128.add(width, (registers, B), (registers, B), (registers, WEIGHTED))


@operation
def add_weighted_output(code: Code, total: Place, output: Place, weight: Place) -> None:
    """Add an output below 2p, times an encoded weight, to a sum of products."""
    limbs = field128.limbs_of(code)
    factor = field128.load_unmasked(weight)
    output_limbs = field128.load_residue(output)
    total.store_many(limbs.added_product(field128.load_columns(total), output_limbs, factor))


@kernel
def _truncate(
    width: LaneWidth,
    shape: Shape,
    tables: Tables,
    out_shares: Bytes,
    first: int,
    scratch: Scratch,
) -> None:
    """Write the out shares: entries decoded from their digits, or the digits themselves."""
    if shape.is_prefix:
        store(width, out_shares, first, scratch.share, 0, scratch.block)
        return
    row, blocks = 0, tables.blocks
    for block in range(shape.num_blocks):
        entries, digits = blocks[block, BLOCK_ENTRIES], blocks[block, BLOCK_DIGITS]
        share = field128.WORDS * blocks[block, BLOCK_FIRST]
        small, weight = blocks[block, BLOCK_SMALL_WEIGHT], blocks[block, BLOCK_WEIGHT]
        if digits == 0:
            words = field128.WORDS * entries
            copy_words(width, (scratch.result, row), (scratch.share, share), words)
        elif small >= 0:
            decode_digits(
                width,
                (scratch.result, row),
                (tables.small_weights, small),
                (scratch.share, share),
                digits,
                entries,
            )
        else:
            place = field128.RESIDUE * weight
            _decode_large(width, tables, place, row, share, digits, entries, scratch)
        row += field128.WORDS * entries
    store(width, out_shares, first, scratch.result, 0, scratch.block)


@kernel
def _decode_large(
    width: LaneWidth,
    tables: Tables,
    weight: int,
    row: int,
    share: int,
    digits: int,
    entries: int,
    scratch: Scratch,
) -> None:
    """Set `entries` encodings of the result to weighted sums of digits, by any weights."""
    registers, size = scratch.registers, field128.WORDS * digits
    for entry in range(entries):
        start = share + size * entry
        field128.sum_of_constant_products(
            width, registers, SUMS, tables.weights, weight, scratch.share, start, digits
        )
        place = (scratch.result, row + field128.WORDS * entry)
        field128.to_words(width, place, (registers, SUMS))


@operation
def decode_digits(
    code: Code, out: Place, weights: Scalars, words: Place, digits: Integer, count: Integer
) -> None:
    """Set each of `count` encodings to the weighted sum of the next `digits` encodings.

    The sum of the weights is at most `MAX_WEIGHT`. Each but the last is twice the one before, so
    there are at most 29.
    """
    limbs = field128.limbs_of(code)
    for output in code.repeat(count):
        sums = code.variables([code.constant(0)] * limbs.weighted_columns)
        first = words.moved(output * digits * field128.WORDS)
        for digit in code.repeat(digits):
            low, high = field128.encoded_at(first, digit).load_many(field128.WORDS)
            weight = weights.moved(digit).load()
            sums.store_many(limbs.added_weighted(sums.load_many(), low, high, weight))
        residue = limbs.weighted_sum(sums.load_many())
        field128.encoded_at(out, output).store_many(limbs.encoded(residue))
