"""X25519 by lanes has RFC 7748's results, and the library's for every kind of key.

Source: RFC 7748, "Test Vectors" and "Security Considerations".
"""

import os

import numpy as np
import pytest

from aggregator.dap.x25519 import BASE_POINT, by_library
from aggregator.dap.x25519_lanes import KEY_SIZE, exchange_rows, has_lanes
from field.lanes import LaneWidth, compile_here, has_multiply_add

MODULUS = 2**255 - 19

PUBLISHED = [
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ),
]
"""A private key, a public key and their secret."""

ORDER_8 = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
"""The published points of small order; both are of order 8."""

SMALL_ORDER = [0, 1, *ORDER_8, MODULUS - 1, MODULUS, MODULUS + 1]

EDGES = [2, 4, 9, MODULUS - 2, MODULUS + 2, MODULUS + 18, 2**255 - 1, 2**254, 2**51, 2**102 - 1]

WIDTHS = [
    LaneWidth(32, has_multiply_add=True, is_interpreted=True),
    *(LaneWidth(lanes, has_multiply_add=True) for lanes in (4, 8) if has_multiply_add(lanes)),
]


def encoded(number: int) -> bytes:
    return number.to_bytes(KEY_SIZE, "little")


def exchanged(width: LaneWidth, private_keys: list[bytes], public_keys: list[bytes]) -> list[bytes]:
    compile_here()
    rows = [
        np.frombuffer(b"".join(keys), np.uint8).reshape(-1, KEY_SIZE)
        for keys in (private_keys, public_keys)
    ]
    return [row.tobytes() for row in exchange_rows(*rows, width)]


@pytest.fixture(params=WIDTHS, ids=lambda w: f"{w.lanes}{' interpreted' * w.is_interpreted}")
def width(request: pytest.FixtureRequest) -> LaneWidth:
    found: LaneWidth = request.param
    return found


def test_the_published_secrets_are_found(width: LaneWidth) -> None:
    private_keys, public_keys, secrets = (
        [bytes.fromhex(each) for each in column] for column in zip(*PUBLISHED, strict=True)
    )
    assert exchanged(width, private_keys, public_keys) == secrets


def test_the_published_iteration_comes_out_in_every_lane() -> None:
    """A thousand exchanges, each with what the one before gave."""
    if not has_lanes():
        pytest.skip("this processor has no 52-bit multiply-add")
    once = "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
    finally_ = "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"
    private, public = [BASE_POINT] * 8, [BASE_POINT] * 8
    for turn in range(1000):
        private, public = exchanged(WIDTHS[-1], private, public), private
        if turn == 0:
            assert private == [bytes.fromhex(once)] * 8
    assert private == [bytes.fromhex(finally_)] * 8


def test_points_of_small_order_lead_to_zeros(width: LaneWidth) -> None:
    points = [encoded(number) for number in SMALL_ORDER]
    private_keys = [os.urandom(KEY_SIZE) for _ in points]
    assert exchanged(width, private_keys, points) == [bytes(KEY_SIZE)] * len(points)


def test_edges_and_any_bytes_have_the_librarys_secret(width: LaneWidth) -> None:
    """Numbers beyond the modulus, the highest bit, points of the twist, all bits of a key."""
    points = [encoded(number | top << 255) for number in EDGES for top in (0, 1)]
    points += [os.urandom(KEY_SIZE) for _ in range(11)]
    scalars = [os.urandom(KEY_SIZE) for _ in points]
    scalars[:4] = [bytes(KEY_SIZE), b"\xff" * KEY_SIZE, b"\x55" * KEY_SIZE, b"\xaa" * KEY_SIZE]
    expected = [by_library(*pair) for pair in zip(scalars, points, strict=True)]
    assert exchanged(width, scalars, points) == expected


@pytest.mark.slow
@pytest.mark.skipif(not has_lanes(), reason="this processor has no 52-bit multiply-add")
def test_many_pairs_have_the_librarys_secrets() -> None:
    points = [os.urandom(KEY_SIZE) for _ in range(4099)]
    scalars = [os.urandom(KEY_SIZE) for _ in points]
    expected = [by_library(*pair) for pair in zip(scalars, points, strict=True)]
    assert exchanged(WIDTHS[-1], scalars, points) == expected
