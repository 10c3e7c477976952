"""The field of Curve25519, modulo p = 2^255 - 19, in five limbs of 51 bits.

One instruction multiplies and adds numbers of 52 bits (`Word.plus_low_product`). Limbs are *near*
51 bits: below 2^51 + 2^15, so that each is a factor of that instruction as it stands. Every result
here has such limbs, and every operand needs them. Which number they stand for is only known
modulo p; `encoded` finds the one below p.

Source: RFC 7748, "Curve25519".
"""

import itertools
from collections.abc import Sequence

from field.lanes.words import Word

BITS = 51
COUNT = 5
_MASK = (1 << BITS) - 1
_FOLD = 19
"""2^255 = 19 (mod p)."""

_FOUR_MODULI = ((1 << BITS + 2) - 4 * _FOLD, *[(1 << BITS + 2) - 4] * (COUNT - 1))
"""4p, in limbs above every near limb: added before a subtraction, so that no limb is negative."""

Limbs = Sequence[Word]


def split(words: Limbs) -> list[Word]:
    """Return the limbs of an encoding in four words, whose highest bit does not count."""
    a, b, c, d = words
    return [
        a & _MASK,
        (a.logical_right(51) | b << 13) & _MASK,
        (b.logical_right(38) | c << 26) & _MASK,
        (c.logical_right(25) | d << 39) & _MASK,
        d.logical_right(12) & _MASK,
    ]


def constant(word: Word, value: int) -> list[Word]:
    """Return a number below 2^51, beside a word that says where."""
    return [word.filled(value), *[word.filled(0)] * (COUNT - 1)]


def plus(x: Limbs, y: Limbs) -> list[Word]:
    """Return x + y."""
    return _carried([a + b for a, b in zip(x, y, strict=True)])


def minus(x: Limbs, y: Limbs) -> list[Word]:
    """Return x - y."""
    return _carried([a + four - b for a, b, four in zip(x, y, _FOUR_MODULI, strict=True)])


def product(x: Limbs, y: Limbs) -> list[Word]:
    """Return x * y.

    The low 52 bits of x_i * y_j weigh 2^(51 * (i + j)), and the high ones twice as much as
    2^(51 * (i + j + 1)). Five products of numbers below 2^52 at most add up in a column.
    """
    zero = x[0].filled(0)
    low, high = [zero] * (2 * COUNT - 1), [zero] * (2 * COUNT - 1)
    for i, j in itertools.product(range(COUNT), repeat=2):
        low[i + j] = low[i + j].plus_low_product(x[i], y[j])
        high[i + j] = high[i + j].plus_high_product(x[i], y[j])
    return _reduced(low, high)


def square(x: Limbs) -> list[Word]:
    """Return x * x, where x_i * x_j with i below j is multiplied once and doubled."""
    zero = x[0].filled(0)
    low, high = [zero] * (2 * COUNT - 1), [zero] * (2 * COUNT - 1)
    for i, j in itertools.combinations(range(COUNT), 2):
        low[i + j] = low[i + j].plus_low_product(x[i], x[j])
        high[i + j] = high[i + j].plus_high_product(x[i], x[j])
    low, high = [column << 1 for column in low], [column << 1 for column in high]
    for i in range(COUNT):
        low[2 * i] = low[2 * i].plus_low_product(x[i], x[i])
        high[2 * i] = high[2 * i].plus_high_product(x[i], x[i])
    return _reduced(low, high)


def plus_multiple(x: Limbs, y: Limbs, factor: int) -> list[Word]:
    """Return x + y * factor, for a factor below 2^17."""
    times = x[0].filled(factor)
    columns = [a.plus_low_product(b, times) for a, b in zip(x, y, strict=True)]
    high = [times.filled(0).plus_high_product(limb, times) << 1 for limb in y]
    raised = [_times_fold(high[-1]), *high[:-1]]
    return _carried([a + b for a, b in zip(columns, raised, strict=True)])


def encoded(x: Limbs) -> list[Word]:
    """Return the encoding in four words of the number below p that is x modulo p."""
    x = _carried_in_turn(_carried_in_turn(x))  # now below 2^255, so below 2p
    over = x[0] + _FOLD
    for limb in x[1:]:
        over = limb + over.logical_right(BITS)
    is_over = over.logical_right(BITS)  # 1 where x is p or more, for then x + 19 reaches 2^255
    a, b, c, d, e = _carried_upwards([x[0] + _times_fold(is_over), *x[1:]])
    e = e & _MASK
    return [
        a | b << 51,
        b.logical_right(13) | c << 38,
        c.logical_right(26) | d << 25,
        d.logical_right(39) | e << 12,
    ]


def _reduced(low: Sequence[Word], high: Sequence[Word]) -> list[Word]:
    """Return the number with columns of low and high halves.

    A column is below 5 * 2^52 + 2 * 5 * 2^52 < 2^56, so with what is folded onto it below
    20 * 2^56 < 2^61.
    """
    columns = [
        low[0],
        *(a + (b << 1) for a, b in zip(low[1:], high[:-1], strict=True)),
        high[-1] << 1,
    ]
    return _carried(
        [a + _times_fold(b) for a, b in zip(columns[:COUNT], columns[COUNT:], strict=True)]
    )


def _carried(columns: Sequence[Word]) -> list[Word]:
    """Return near limbs for columns below 2^61: each hands on what lies above 51 bits, at once.

    That is below 2^10, and below 2^15 where it comes round.
    """
    above = [column.logical_right(BITS) for column in columns]
    into = [_times_fold(above[-1]), *above[:-1]]
    return [(column & _MASK) + carry for column, carry in zip(columns, into, strict=True)]


def _carried_in_turn(x: Limbs) -> list[Word]:
    """Return the limbs, each with the carry of the one before, the last one's in the first."""
    carried = _carried_upwards(x)
    above = carried[-1].logical_right(BITS)
    return [carried[0] + _times_fold(above), *carried[1:-1], carried[-1] & _MASK]


def _carried_upwards(x: Limbs) -> list[Word]:
    """Return the limbs, each with the carry of the one before; the last keeps its own."""
    carried, carry = [], x[0].filled(0)
    for limb in x[:-1]:
        total = limb + carry
        carried.append(total & _MASK)
        carry = total.logical_right(BITS)
    return [*carried, x[-1] + carry]


def _times_fold(word: Word) -> Word:
    """Return 19 times a word below 2^59."""
    return (word << 4) + (word << 1) + word
