"""Polynomials in Field64 at a point of the report's own, from their values at roots of unity.

A step of `kernels.digits.query`, in the notation of `kernels.chunks.query`. Let F be
a polynomial of degree below p with the values F_k = F(alpha^k), and h = p/2. The sum over i < p of
x^i is p at x = 1 and 0 at all other p-th roots of unity, so that, with y = x / alpha^k,

    L_k(x) = 1/p * (sum over i < p of y^i) = 1/p * (product over b < log p of (1 + y^(2^b))).

The factor of b depends on k modulo p / 2^b only. Let A_k be 1/p times all factors but that of
b = 0: it is the same for k and k + h, where y has the other sign, and

    L_k(x) = A_k * (1 + x / alpha^k),    L_(k+h)(x) = A_k * (1 - x / alpha^k)

    F(x) = sum over k < h of A_k * (F_k + F_(k+h))
           + x * (sum over k < h of A_k / alpha^k * (F_k - F_(k+h))).                            (1)

A *half basis* is the A_k and then the A_k / alpha^k, for k < h. It takes half of the
multiplications by secrets that the L_k take, and to add and to subtract values costs little.

Source:
    VDAF, "Lagrange Basis".
"""

from collections.abc import Sequence

from field.lanes import Code, Integer, Place, Scalars, Variables, Word, field64, operation


@operation
def half_bases(
    code: Code,
    basis: Place,
    odd_basis: Place,
    powers: Place,
    points: Place,
    inverse_p: Scalars,
    roots: Scalars,
    log_p: Integer,
) -> None:
    """Evaluate half bases at two points, and the points' powers x^(2^i) for i from 0 to log p.

    A list of products begins with 1/p and doubles, from the factor of the last b to that of b = 1:
    if `size` of them are known, y^(2^b) in the next factor is x^(2^b) times the root
    1/alpha^(k * 2^b) for k < size, and the negative of that for k + size. The first root of each
    factor is 1 and is not multiplied by. The points take turns: one's products are computed while
    the other's are waited for.

    Args:
        code: Where the instructions go.
        basis: p words, the half basis at the first point.
        odd_basis: The same at the second.
        powers: log p + 1 words for the first point, canonical, then as many for the second.
        points: Two words.
        inverse_p: 1/p.
        roots: See `basis_roots`.
        log_p: 1 at least.
    """
    odd_powers = powers.moved(log_p + 1)
    streams = ((basis, powers), (odd_basis, odd_powers))
    for point, (values, place) in enumerate(streams):
        place.store(field64.canonical(points.load(point)))
        values.store(inverse_p.load())
    _square_often([place for _, place in streams], log_p)
    last = log_p - 1
    half = 1 << last
    for level in code.repeat(last):
        size = 1 << level
        step = last - level
        factors = [place.moved(step).load() for _, place in streams]
        for (values, _), factor in zip(streams, factors, strict=True):
            _multiply_pair(values, values.moved(size), factor)
        for before in code.repeat(size - 1):
            index = before + 1
            root = _roots_of(roots, size).moved(index).load()
            for (values, _), factor in zip(streams, factors, strict=True):
                low = values.moved(index)
                _multiply_pair(low, low.moved(size), field64.product(factor, root))
    for values, _ in streams:
        values.moved(half).store(values.load())
    for before in code.repeat(half - 1):
        index = before + 1
        root = _roots_of(roots, half).moved(index).load()
        for values, _ in streams:
            place = values.moved(index)
            place.moved(half).store(field64.product(place.load(), root))


def _square_often(powers: Sequence[Place], times: Integer) -> None:
    """Follow each word by its square, that one's square, and so on."""
    for index in powers[0].code.repeat(times):
        for place in powers:
            word = place.moved(index).load()
            place.moved(index).store(field64.canonical(field64.product(word, word)), 1)


def _roots_of(roots: Scalars, size: Integer) -> Scalars:
    """Return the roots of the factor that doubles a list of `size` products."""
    return roots.moved(size - 1)


def _multiply_pair(low: Place, high: Place, factor: Word) -> None:
    """Multiply the word at `low` by 1 + factor into `low` and by 1 - factor into `high`."""
    word = low.load()
    term = field64.canonical(field64.product(word, factor))
    low.store(field64.plus(word, term))
    high.store(field64.minus(word, term))


class _HalfSums:
    """The two sums of (1), while code is generated."""

    def __init__(self, code: Code, basis: Place, half: Integer) -> None:
        self._weights = basis, basis.moved(half)
        self._sums: list[Variables] = [code.variables(field64.sum_of_none(code)) for _ in range(2)]

    def add(self, k: Integer | int, total: Word, difference: Word) -> None:
        """Add the terms of k, for F_k + F_(k+h) and F_k - F_(k+h)."""
        for sums, weights, value in zip(
            self._sums, self._weights, (total, difference), strict=True
        ):
            weight = weights.moved(k).load()
            sums.store_many(field64.with_product(sums.load_many(), weight, value))

    def at(self, x: Word) -> Word:
        """Return F(x), canonical."""
        total, difference = (sums.load_many() for sums in self._sums)
        return field64.reduced_sum(field64.with_product(total, x, field64.reduced_sum(difference)))


@operation
def wire_value(
    code: Code,
    out: Place,
    basis: Place,
    points: Place,
    seed: Place,
    digits: Place,
    half: Integer,
    num_calls: Integer,
) -> None:
    """Set `out` to a wire polynomial at the first point, canonical, for canonical digits.

    Its values are the seed, then the digits, h at least and below p, then zeros.
    """
    sums = _HalfSums(code, basis, half)
    opposite = digits.moved(half - 1)
    first, other = seed.load(), opposite.load()
    sums.add(0, field64.plus(first, other), field64.minus(first, other))
    # From k = 1 on, F_k is digit k - 1, and F_(k+h) is a digit as long as there are some.
    pairs = num_calls - half
    for before in code.repeat(pairs):
        index = before + 1
        value, other = digits.moved(before).load(), opposite.moved(index).load()
        sums.add(index, field64.plus(value, other), field64.minus(value, other))
    alone = half - 1 - pairs
    for after in code.repeat(alone):
        before = pairs + after
        value = digits.moved(before).load()
        sums.add(before + 1, value, value)
    out.store(sums.at(points.load()))


@operation
def gadget_value(
    code: Code,
    out: Place,
    basis: Place,
    odd_basis: Place,
    points: Place,
    power: Place,
    values: Place,
    last_difference: Scalars,
    one_half: Scalars,
    half: Integer,
) -> None:
    """Set `out` to the gadget polynomial G at the first point t, canonical.

    The proof has G's values G_i at beta^i for i < 2p - 1. G has a degree below 2p - 1, so that its
    coefficient of x^(2p-1) is zero. That is 1/2p * (sum over i < 2p of G_i * beta^i), for
    beta^(-i*(2p-1)) = beta^i. With D_i = G_i - G_(i+p) and beta^p = -1 the sum over i < p of
    D_i * beta^i is zero too, and, as beta^-(p-1) = -beta,

        D_(p-1) = sum over i < p - 1 of D_i * beta^(i+1).                                       (2)

    The value that is missing is G_(2p-1) = G_(p-1) - D_(p-1).

    The even powers of beta are alpha's, the odd ones beta times alpha's. Let E be the polynomial of
    degree below p with E(alpha^k) = G(beta^(2k)), and O that with O(alpha^k) = G(beta^(2k+1)). As
    x^p is 1 at even and -1 at odd powers of beta,

        G(t) = (1 + t^p)/2 * E(t) + (1 - t^p)/2 * O(t/beta):

    both sides have a degree below 2p and agree at all 2p powers of beta. In (1) for E and O are the
    sums and the differences of G_i and G_(i+p), for even and odd i.

    Args:
        code: Where the instructions go.
        out: One word.
        basis: The half basis at t.
        odd_basis: The half basis at t/beta.
        points: t and t/beta.
        power: t^p, canonical.
        values: G_i, canonical.
        last_difference: beta^(i+1) for i < p - 1.
        one_half: 1/2.
        half: h.
    """
    p = half << 1
    last = code.variables(field64.sum_of_none(code))
    even, odd = _HalfSums(code, basis, half), _HalfSums(code, odd_basis, half)

    def add_pair(sums: _HalfSums, k: Integer, i: Integer) -> None:
        low = values.moved(i)
        value, other = low.load(), low.moved(p).load()
        difference = field64.minus(value, other)
        sums.add(k, field64.plus(value, other), difference)
        weight = last_difference.moved(i).load()
        last.store_many(field64.with_product(last.load_many(), difference, weight))

    for k in code.repeat(half):
        add_pair(even, k, k << 1)
    before_last = half - 1
    for k in code.repeat(before_last):
        add_pair(odd, k, (k << 1) + 1)
    value, difference = (
        values.moved(p - 1).load(),
        field64.reduced_sum(last.load_many()),
    )
    odd.add(before_last, field64.minus(field64.plus(value, value), difference), difference)
    e, o, t_p = even.at(points.load(0)), odd.at(points.load(1)), power.load()
    total = field64.plus(
        field64.product(t_p, field64.minus(e, o)), field64.canonical(field64.plus(e, o))
    )
    out.store(field64.canonical(field64.product(total, one_half.load())))
