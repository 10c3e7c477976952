"""HMACs of rows are those of the standard library, by whatever code they are computed."""

import hashlib
import os

import numpy as np
import pytest

from aggregator.dap import hmac_rows as module
from aggregator.dap.hmac_rows import hmac_rows, plain_hmac_rows
from field.lanes import SHA256_INITIAL_STATE, Bytes, KernelMissing, compress, has_sha256

AROUND_BLOCKS = [0, 1, 50, 54, 55, 56, 57, 63, 64, 65, 119, 120, 128, 183, 184, 200]


def rows_of(rows: int, size: int) -> Bytes:
    return np.frombuffer(os.urandom(rows * size), np.uint8).reshape(rows, size)


@pytest.mark.parametrize("key_size", [0, 1, 32, 64])
@pytest.mark.parametrize("size", AROUND_BLOCKS)
def test_the_rows_of_a_batch_have_the_hmacs_that_each_has_alone(key_size: int, size: int) -> None:
    keys, messages = rows_of(3, key_size), rows_of(3, size)
    assert np.array_equal(hmac_rows(keys, messages), plain_hmac_rows(keys, messages))


@pytest.mark.parametrize("size", [0, 55, 56, 64])
def test_the_kernel_says_the_same_uncompiled(size: int) -> None:
    keys, messages, out = rows_of(2, 32), rows_of(2, size), np.empty((2, 32), np.uint8)
    function = getattr(module._hmac_rows, "dispatcher", None)
    uncompiled = function.py_func if function is not None else module._hmac_rows
    uncompiled(keys, messages, out, np.empty(8, np.uint32), np.empty(64, np.uint8))
    assert np.array_equal(out, plain_hmac_rows(keys, messages))


def test_a_block_is_compressed_as_sha_256_does() -> None:
    message = os.urandom(55)
    block = np.frombuffer(message + b"\x80" + (8 * 55).to_bytes(8, "big"), np.uint8)
    state = np.array(SHA256_INITIAL_STATE, np.uint32)
    compress(state, block)
    assert state.astype(">u4").tobytes() == hashlib.sha256(message).digest()


def test_no_rows_have_no_hmacs() -> None:
    assert hmac_rows(rows_of(0, 32), rows_of(0, 9)).shape == (0, 32)


def test_without_a_compiled_kernel_the_library_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise KernelMissing

    monkeypatch.setattr(module, "_hmac_rows", missing)
    monkeypatch.setattr(module, "has_sha256", lambda: True)
    keys, messages = rows_of(2, 32), rows_of(2, 9)
    assert np.array_equal(hmac_rows(keys, messages), plain_hmac_rows(keys, messages))


@pytest.mark.slow
@pytest.mark.skipif(not has_sha256(), reason="this processor has no instructions for SHA-256")
def test_a_processor_with_the_instructions_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, messages = rows_of(2, 32), rows_of(2, 9)
    expected = plain_hmac_rows(keys, messages)
    monkeypatch.setattr(module, "plain_hmac_rows", None)
    assert np.array_equal(hmac_rows(keys, messages), expected)
