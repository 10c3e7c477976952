"""No branch and no address of an exchange by lanes depends on a private key or on a public one."""

import numpy as np
import pytest

from aggregator.dap import x25519_lanes
from aggregator.dap.x25519_lanes import KEY_SIZE, exchange_rows, has_lanes
from tests.constant_time.instruction_trace import Call, captured, differences, why_not

pytestmark = pytest.mark.slow

_PAIRS = 8


def call_of(private_keys: bytes, public_keys: bytes) -> Call:
    rows = [
        np.frombuffer(keys, np.uint8).reshape(_PAIRS, KEY_SIZE)
        for keys in (private_keys, public_keys)
    ]
    (call,) = captured([(x25519_lanes, "_exchange_groups")], lambda: exchange_rows(*rows))
    return call


def test_an_exchange_has_the_same_trace_for_all_keys() -> None:
    reason = why_not() or (None if has_lanes() else "this processor has no 52-bit multiply-add")
    if reason is not None:
        pytest.skip(reason)
    rng, size = np.random.default_rng(1), _PAIRS * KEY_SIZE
    base = ((9).to_bytes(KEY_SIZE, "little")) * _PAIRS
    others = {
        "random": call_of(rng.bytes(size), base),
        "a key of zeros": call_of(bytes(size), base),
        "a key of ones": call_of(b"\xff" * size, base),
        "a point of small order": call_of(rng.bytes(size), bytes(size)),
        "points beyond the modulus": call_of(rng.bytes(size), b"\xff" * size),
    }
    assert differences(call_of(rng.bytes(size), rng.bytes(size)), others) == []
