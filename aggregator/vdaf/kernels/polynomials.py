"""Polynomials at a report's test point, from their values at roots of unity, in either field.

The notation is that of `kernels.chunks.query`. Let F be a polynomial of degree below p with the
values F_k = F(alpha^k), and h = p/2. The sum over i < p of x^i is p at x = 1 and 0 at all other
p-th roots of unity, so that, with y = x / alpha^k,

    L_k(x) = 1/p * (sum over i < p of y^i) = 1/p * (product over b < log p of (1 + y^(2^b))).

The factor of b depends only on k modulo p / 2^b. Let A_k be 1/p times all factors except that of
b = 0: it is the same for k and k + h, whose y have opposite signs, and

    L_k(x) = A_k * (1 + x / alpha^k),    L_(k+h)(x) = A_k * (1 - x / alpha^k)

    F(x) = sum over k < h of A_k * (F_k + F_(k+h))
           + x * (sum over k < h of A_k / alpha^k * (F_k - F_(k+h))).                            (1)

A *half basis* is the A_k and then the A_k / alpha^k, for k < h. It takes half as many
multiplications by secrets as the L_k, and adding and subtracting values costs little.

Source:
    VDAF, "Lagrange Basis" and "Querying the Proof".
"""

from collections.abc import Sequence

from field.lanes import Integer, Place, Residues, Scalars, Word

PAIRS_AT_ONCE = 128
"""Values of k whose products are summed before they are reduced.

`even` gets two products for each, `last` one in each of two loops: with what they begin with, 257
at most, fewer than `MAX_PRODUCTS` of either field.
"""


def lagrange_bases(
    residues: Residues,
    basis: Place,
    odd_basis: Place,
    powers: Place,
    points: Place,
    inverse_p: Scalars,
    roots: Scalars,
    log_p: Integer,
) -> None:
    """Evaluate the Lagrange basis at one point, the half basis at another, and the points' powers.

    A list of products begins with 1/p and doubles, from the factor of the last b to that of b = 1:
    if `size` of them are known, y^(2^b) in the next factor is x^(2^b) times the root
    1/alpha^(k * 2^b) for k < size, and the negative of that for k + size. The first root of each
    factor is 1 and needs no multiplication. The Lagrange basis takes one step more. The points take
    turns, so that one's products are computed while the other's are pending.

    Args:
        residues: Those of the field. All other arguments are in limbs.
        basis: L_k at the first point, for all k < p.
        odd_basis: The half basis at the second point.
        powers: x^(2^i) for i from 0 to log p, of the first point and then of the second.
        points: Both points.
        inverse_p: 1/p.
        roots: See `basis_roots`.
        log_p: At least 1.
    """
    code, arithmetic = residues.code, residues.arithmetic
    streams = ((basis, powers), (odd_basis, residues.at(powers, log_p + 1)))
    start = residues.load_constant(inverse_p)
    for point, (values, place) in enumerate(streams):
        place.store_many(residues.load(points, point))
        values.store_many(start)
    for index in code.repeat(log_p):
        for _, place in streams:
            power = residues.load(place, index)
            residues.at(place, index + 1).store_many(arithmetic.product(power, power))
    last = log_p - 1
    for level in code.repeat(last):
        size = 1 << level
        factors = [residues.load(place, last - level) for _, place in streams]
        for (values, _), factor in zip(streams, factors, strict=True):
            _multiply_pair(residues, values, residues.at(values, size), factor)
        for before in code.repeat(size - 1):
            index = before + 1
            # The roots of the factor that doubles `size` products begin at `size` - 1.
            root = residues.load_constant(roots, size - 1 + index)
            for (values, _), factor in zip(streams, factors, strict=True):
                low = residues.at(values, index)
                product = arithmetic.product(factor, root)
                _multiply_pair(residues, low, residues.at(low, size), product)
    half = 1 << last
    first = residues.load(powers)
    _multiply_pair(residues, basis, residues.at(basis, half), first)
    residues.at(odd_basis, half).store_many(residues.load(odd_basis))
    for before in code.repeat(half - 1):
        index = before + 1
        root = residues.load_constant(roots, half - 1 + index)
        low, odd = residues.at(basis, index), residues.at(odd_basis, index)
        product = arithmetic.product(first, root)
        _multiply_pair(residues, low, residues.at(low, half), product)
        residues.at(odd, half).store_many(arithmetic.product(residues.load(odd), root))


def _multiply_pair(residues: Residues, low: Place, high: Place, factor: Sequence[Word]) -> None:
    """Multiply the residue at `low` by 1 + factor into `low` and by 1 - factor into `high`."""
    residue, arithmetic = residues.load(low), residues.arithmetic
    plus, minus = arithmetic.plus_and_minus(residue, arithmetic.product(residue, factor))
    low.store_many(plus)
    high.store_many(minus)


def gadget_value(
    residues: Residues,
    out: Place,
    basis: Place,
    odd_basis: Place,
    odd_point: Place,
    power: Place,
    values: Place,
    last_difference: Scalars,
    one: Scalars,
    half: Scalars,
    h: Integer,
) -> None:
    """Set `out` to the encoding of the gadget polynomial G at the test point t.

    The proof has G's values G_i at beta^i for i < 2p - 1. G has a degree below 2p - 1, so its
    coefficient of x^(2p-1) is zero. That is 1/2p * (sum over i < 2p of G_i * beta^i), since
    beta^(-i*(2p-1)) = beta^i. With D_i = G_i - G_(i+p) and beta^p = -1 the sum over i < p of
    D_i * beta^i is zero too, and, as beta^-(p-1) = -beta,

        D_(p-1) = sum over i < p - 1 of D_i * beta^(i+1).                                       (2)

    The missing value is G_(2p-1) = G_(p-1) - D_(p-1).

    The even powers of beta are alpha's, the odd ones beta times alpha's. Let E be the polynomial of
    degree below p with E(alpha^k) = G(beta^(2k)), and O that with O(alpha^k) = G(beta^(2k+1)). As
    x^p is 1 at even and -1 at odd powers of beta,

        G(t) = (1 + t^p)/2 * E(t) + (1 - t^p)/2 * O(t/beta):

    both sides have a degree below 2p and agree at all 2p powers of beta. E is evaluated in the
    Lagrange basis, which the wires need anyway, and O in the half basis: (1) for O takes the sums
    and the differences of G_i and G_(i+p), for odd i.

    Args:
        residues: Those of the field.
        out: Where the encoding goes.
        basis: L_k(t).
        odd_basis: The half basis at t/beta.
        odd_point: t/beta.
        power: t^p.
        values: G_i, encoded.
        last_difference: beta^(i+1) for i < p - 1.
        one: 1.
        half: 1/2.
        h: p/2.
    """
    code, arithmetic = residues.code, residues.arithmetic
    p = h << 1
    even, last, totals, differences = (residues.empty_sum() for _ in range(4))
    for first, count in code.parts(h, PAIRS_AT_ONCE):
        residues.reduce_unless_zero(first, (even, last), one)
        for index in code.repeat(count):
            k = first + index
            i = k << 1
            value, other = residues.load_encoded(values, i), residues.load_encoded(values, i + p)
            residues.add_product(even, residues.load(basis, k), value)
            residues.add_product(even, residues.load(basis, k + h), other)
            weight = residues.load_constant(last_difference, i)
            residues.add_product(last, arithmetic.minus(value, other), weight)
    for first, count in code.parts(h - 1, PAIRS_AT_ONCE):
        residues.reduce_unless_zero(first, (totals, differences, last), one)
        for index in code.repeat(count):
            k = first + index
            i = (k << 1) + 1
            value, other = residues.load_encoded(values, i), residues.load_encoded(values, i + p)
            total, difference = arithmetic.sum(value, other), arithmetic.minus(value, other)
            residues.add_product(totals, residues.load(odd_basis, k), total)
            residues.add_product(differences, residues.load(odd_basis, k + h), difference)
            residues.add_product(last, difference, residues.load_constant(last_difference, i))
    # One value of the last pair is missing: the sum is 2 * G_(p-1) - D_(p-1), where
    # 2 * G_(p-1) < 2p if G_(p-1) is a residue.
    value, difference = residues.load_encoded(values, p - 1), residues.reduced(last)
    total = arithmetic.minus(arithmetic.sum(value, value), difference)
    residues.add_product(totals, residues.load(odd_basis, h - 1), total)
    residues.add_product(differences, residues.load(odd_basis, p - 1), difference)
    residues.add_product(totals, residues.load(odd_point), residues.reduced(differences))
    e, o = residues.reduced(even), residues.reduced(totals)
    halves, result = residues.load_constant(half), residues.empty_sum()
    residues.add_product(result, halves, arithmetic.sum(e, o))
    scaled = arithmetic.product(residues.load(power), halves)
    residues.add_product(result, scaled, arithmetic.minus(e, o))
    out.store_many(arithmetic.encoded(residues.reduced(result)))
