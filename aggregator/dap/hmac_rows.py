"""HMAC-SHA256 of many messages of one size.

Source: RFC 2104; FIPS 180-4, "Preprocessing".
"""

import hmac

import numpy as np
import numpy.typing as npt

from field.lanes import SHA256_INITIAL_STATE as INITIAL_STATE
from field.lanes import Bytes, KernelMissing, compress, has_sha256, is_looking, kernel

DIGEST_SIZE = 32
_BLOCK_SIZE = 64
_INNER, _OUTER = 0x36, 0x5C
_INITIAL = np.array(INITIAL_STATE, np.uint32)


def hmac_rows(keys: Bytes, messages: Bytes) -> Bytes:
    """Return the HMAC of each row.

    Args:
        keys: Shape `(rows, key_size)`, of 64 bytes at most; none may be a key.
        messages: Shape `(rows, message_size)`.

    Returns:
        Shape `(rows, 32)`.
    """
    if has_sha256():
        out = np.empty((len(messages), DIGEST_SIZE), np.uint8)
        scratch = np.empty(8, np.uint32), np.empty(_BLOCK_SIZE, np.uint8)
        try:
            _hmac_rows(np.ascontiguousarray(keys), np.ascontiguousarray(messages), out, *scratch)
        except KernelMissing:
            if is_looking():
                raise
        else:
            return out
    return plain_hmac_rows(keys, messages)


def plain_hmac_rows(keys: Bytes, messages: Bytes) -> Bytes:
    """Return what `hmac_rows` does, by the standard library one row at a time."""
    digests = [
        hmac.digest(key.tobytes(), message.tobytes(), "sha256")
        for key, message in zip(keys, messages, strict=True)
    ]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(len(digests), DIGEST_SIZE)


@kernel
def _hmac_rows(
    keys: Bytes, messages: Bytes, out: Bytes, state: npt.NDArray[np.uint32], block: Bytes
) -> None:
    rows, size = messages.shape
    for row in range(rows):
        _begin(state, block, keys, row, np.uint8(_INNER))
        start = 0
        while size - start >= _BLOCK_SIZE:
            for at in range(_BLOCK_SIZE):
                block[at] = messages[row, start + at]
            compress(state, block)
            start += _BLOCK_SIZE
        for at in range(size - start):
            block[at] = messages[row, start + at]
        _end(state, block, size - start, _BLOCK_SIZE + size, out, row)
        _begin(state, block, keys, row, np.uint8(_OUTER))
        for at in range(DIGEST_SIZE):
            block[at] = out[row, at]
        _end(state, block, DIGEST_SIZE, _BLOCK_SIZE + DIGEST_SIZE, out, row)


@kernel
def _begin(
    state: npt.NDArray[np.uint32], block: Bytes, keys: Bytes, row: int, pad: np.uint8
) -> None:
    """Hash the padded key of a row, as every HMAC begins."""
    for at in range(8):
        state[at] = _INITIAL[at]
    for at in range(keys.shape[1]):
        block[at] = keys[row, at] ^ pad
    for at in range(keys.shape[1], _BLOCK_SIZE):
        block[at] = pad
    compress(state, block)


@kernel
def _end(
    state: npt.NDArray[np.uint32], block: Bytes, filled: int, size: int, out: Bytes, row: int
) -> None:
    """Hash the last `filled` bytes, which lie in the block, with the padding; write the digest."""
    block[filled] = 0x80
    if filled >= _BLOCK_SIZE - 8:
        for at in range(filled + 1, _BLOCK_SIZE):
            block[at] = 0
        compress(state, block)
        for at in range(_BLOCK_SIZE - 8):
            block[at] = 0
    else:
        for at in range(filled + 1, _BLOCK_SIZE - 8):
            block[at] = 0
    for at in range(8):
        block[_BLOCK_SIZE - 8 + at] = (8 * size) >> (8 * (7 - at)) & 0xFF
    compress(state, block)
    for at in range(DIGEST_SIZE):
        out[row, at] = state[at >> 2] >> (8 * (3 - (at & 3))) & 0xFF
