"""X25519 of many pairs of keys at once, one pair in each lane of the processor.

An exchange takes a sixth of the time that one by the library takes. It needs the instruction that
multiplies and adds numbers of 52 bits. No branch and no address depends on a key.

`aggregator.dap.x25519` decides when these exchanges are used, and how far they are trusted.

Source: RFC 7748, "The X25519 and X448 Functions".
"""

from collections.abc import Sequence

import numpy as np

from aggregator.dap.messages.byte_rows import ByteRows
from field.lanes import (
    WORD_SIZE,
    Code,
    LaneArray,
    LaneWidth,
    Place,
    Word,
    kernel,
    lane_width,
    limbs51,
    new_lane_array,
    operation,
)

KEY_SIZE = 32
"""Bytes of a private key, of a public one, and of what two agree on."""

_WORDS = KEY_SIZE // WORD_SIZE
_A24 = 121665

_Number = Sequence[Word]
"""A number modulo 2^255 - 19, in limbs."""


def has_lanes() -> bool:
    """Return whether this processor has what these exchanges need."""
    return lane_width().has_multiply_add


def exchange_rows(
    private_keys: ByteRows, public_keys: ByteRows, width: LaneWidth | None = None
) -> ByteRows:
    """Return what each private key and the public key beside it agree on.

    Args:
        private_keys: Shape `(rows, 32)`; any bytes are a key.
        public_keys: Shape `(rows, 32)`; any bytes are a key.
        width: The lanes; by default all that the processor has.

    Returns:
        Shape `(rows, 32)`: zeros where a public key leads to no secret, which is to be refused.

    Raises:
        KernelMissing: The kernel is not compiled here.
    """
    width = lane_width() if width is None else width
    scalars = private_keys.copy()
    scalars[:, 0] &= 0xF8
    scalars[:, -1] = scalars[:, -1] & 0x7F | 0x40
    lanes, rows = len(width), len(public_keys)
    groups = -(-rows // lanes)
    out = new_lane_array(groups * _WORDS, lanes)
    _exchange_groups(width, out, _in_lanes(scalars, lanes), _in_lanes(public_keys, lanes))
    words = out.reshape(groups, _WORDS, lanes).transpose(0, 2, 1)
    return np.ascontiguousarray(words).view(np.uint8).reshape(-1, KEY_SIZE)[:rows]


def _in_lanes(rows: ByteRows, lanes: int) -> LaneArray:
    """Return rows of 32 bytes as groups of lanes, the last one filled up with zeros."""
    groups = -(-len(rows) // lanes)
    full = np.zeros((groups * lanes, KEY_SIZE), np.uint8)
    full[: len(rows)] = rows
    words = new_lane_array(groups * _WORDS, lanes)
    by_group = full.view(np.uint64).reshape(groups, lanes, _WORDS)
    words.reshape(groups, _WORDS, lanes)[:] = by_group.transpose(0, 2, 1)
    return words


@kernel
def _exchange_groups(
    width: LaneWidth, out: LaneArray, scalars: LaneArray, points: LaneArray
) -> None:
    for row in range(0, len(out), _WORDS):
        _exchange(width, (out, row), (scalars, row), (points, row))


@operation
def _exchange(code: Code, out: Place, scalar: Place, point: Place) -> None:
    """Set `out` to the encoded u of a point times a scalar, whose bits 255, 2, 1 and 0 are not set.

    The ladder begins one bit early, which changes nothing: bit 255 is not set. After the last step
    nothing is left to swap, since bit 0 is not set.
    """
    u = limbs51.split(point.load_many(_WORDS))
    one, zero = limbs51.constant(u[0], 1), limbs51.constant(u[0], 0)
    state = code.variables([*one, *zero, *u, *one, code.constant(0)])
    for place in code.repeat(_WORDS):
        word = scalar.moved(_WORDS - 1 - place).load()
        for index in code.repeat(8 * WORD_SIZE):
            bit = (word << code.in_every_lane(index)) >> 63  # all ones where it is set
            *numbers, before = state.load_many()
            first, second = _swapped(bit ^ before, numbers[:10], numbers[10:])
            state.store_many([*_ladder_step(u, first, second), bit])
    numbers = state.load_many()
    x, z = numbers[:5], numbers[5:10]
    out.store_many(limbs51.encoded(limbs51.product(x, _inverse(code, z))))


def _swapped(mask: Word, first: _Number, second: _Number) -> tuple[list[Word], list[Word]]:
    """Return both, exchanged in lanes where the mask is set."""
    changes = [mask & (a ^ b) for a, b in zip(first, second, strict=True)]
    return (
        [a ^ change for a, change in zip(first, changes, strict=True)],
        [b ^ change for b, change in zip(second, changes, strict=True)],
    )


def _ladder_step(u: _Number, first: _Number, second: _Number) -> list[Word]:
    """Double the first point and add both; a point is two numbers, x and z, with u = x / z."""
    a, b = limbs51.plus(first[:5], first[5:]), limbs51.minus(first[:5], first[5:])
    c, d = limbs51.plus(second[:5], second[5:]), limbs51.minus(second[:5], second[5:])
    aa, bb = limbs51.square(a), limbs51.square(b)
    e = limbs51.minus(aa, bb)
    da, cb = limbs51.product(d, a), limbs51.product(c, b)
    return [
        *limbs51.product(aa, bb),
        *limbs51.product(e, limbs51.plus_multiple(aa, e, _A24)),
        *limbs51.square(limbs51.plus(da, cb)),
        *limbs51.product(u, limbs51.square(limbs51.minus(da, cb))),
    ]


def _inverse(code: Code, z: _Number) -> list[Word]:
    """Return z^(p - 2), which is 1 / z, and 0 for 0; p - 2 = 2^255 - 21.

    `ones[n]` is z to the power 2^n - 1, n ones in a row.
    """

    def squared(x: _Number, times: int) -> list[Word]:
        power = code.variables(x)
        for _ in code.repeat(times):
            power.store_many(limbs51.square(power.load_many()))
        return power.load_many()

    two = limbs51.square(z)
    nine = limbs51.product(z, squared(two, 2))
    eleven = limbs51.product(two, nine)
    ones = {5: limbs51.product(nine, limbs51.square(eleven))}
    for size, more in ((5, 5), (10, 10), (20, 20), (40, 10), (50, 50), (100, 100), (200, 50)):
        ones[size + more] = limbs51.product(squared(ones[size], more), ones[more])
    return limbs51.product(squared(ones[250], 5), eleven)
