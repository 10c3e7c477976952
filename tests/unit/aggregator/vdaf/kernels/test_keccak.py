"""TurboSHAKE128 side by side, at 1, 4 and 8 lanes, against another implementation."""

import numpy as np
import pytest
from Crypto.Hash import TurboSHAKE128

from aggregator.vdaf.kernels.keccak import turboshake128
from aggregator.vdaf.kernels.sponge import RATE_SIZE
from field.lanes import LaneWidth
from tests.support.lane_widths import ONE_LAYOUT, QUICKEST, width_of

SIZES = [0, 7, 8, RATE_SIZE - 1, RATE_SIZE, RATE_SIZE + 1, 500]
OUTPUTS = [(1, 1), (1, RATE_SIZE), (1, 3 * RATE_SIZE - 1), (9, 32), (9, RATE_SIZE + 1)]
"""How many messages, and how many bytes each."""


width = width_of(*ONE_LAYOUT, *QUICKEST)


def reference(message: bytes, domain: int, size: int) -> bytes:
    return bytes(TurboSHAKE128.new(domain=domain, data=message).read(size))


@pytest.mark.parametrize("message_size", SIZES)
def test_each_message_of_a_batch_has_its_own_hash(width: LaneWidth, message_size: int) -> None:
    rng = np.random.default_rng(message_size)
    for num_messages, output_size in OUTPUTS:
        messages = rng.integers(0, 256, (num_messages, message_size), np.uint8)
        hashes = turboshake128(messages, 0x01, output_size, width=width)
        assert [row.tobytes() for row in hashes] == [
            reference(row.tobytes(), 0x01, output_size) for row in messages
        ]


@pytest.mark.parametrize("fill", [0x00, 0xFF])
@pytest.mark.parametrize("domain", [0x01, 0x07, 0x7F])
def test_every_domain_is_hashed_correctly(width: LaneWidth, fill: int, domain: int) -> None:
    messages = np.full((3, RATE_SIZE - 1), fill, np.uint8)
    expected = reference(messages[0].tobytes(), domain, 64)
    hashes = turboshake128(messages, domain, 64, width=width)
    assert [row.tobytes() for row in hashes] == [expected] * 3


def test_no_messages_and_empty_outputs_are_accepted(width: LaneWidth) -> None:
    assert turboshake128(np.zeros((0, 5), np.uint8), 0x01, 32, width=width).shape == (0, 32)
    assert turboshake128(np.zeros((3, 5), np.uint8), 0x01, 0, width=width).shape == (3, 0)


def test_messages_need_not_be_contiguous(width: LaneWidth) -> None:
    wide = np.random.default_rng(0).integers(0, 256, (10, 90), np.uint8)
    apart = turboshake128(wide[::2, 3:70], 0x01, 32, width=width)
    assert apart[1].tobytes() == reference(wide[2, 3:70].tobytes(), 0x01, 32)
