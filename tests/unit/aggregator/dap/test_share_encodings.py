"""A report of a job is the same bytes, whatever sizes the keys of the job's others have."""

import numpy as np

from aggregator.dap.messages.byte_rows import ENC_START, U32
from aggregator.dap.messages.columns import ShareColumns

HEAD, PAYLOAD = b"an id, a time and a public share", b"sealed"


def sealed(enc: int, key: bytes) -> bytes:
    """Return a ciphertext with `enc` bytes of room for its encapsulated key."""
    room = bytes(enc - len(key))
    size = len(PAYLOAD).to_bytes(U32, "big")
    return b"\7" + len(key).to_bytes(2, "big") + key + room + size + PAYLOAD


def columns(enc: int, *keys: bytes) -> ShareColumns:
    rows = np.frombuffer(b"".join(sealed(enc, key) for key in keys), np.uint8)
    heads = np.frombuffer(HEAD * len(keys), np.uint8)
    return ShareColumns(heads.reshape(len(keys), -1), rows.reshape(len(keys), -1), enc)


def test_a_report_is_encoded_without_the_room_for_others_keys() -> None:
    short, long = b"k" * 32, b"K" * 65
    (alone,) = columns(32, short).encodings
    assert alone == HEAD + sealed(32, short)
    assert columns(65, long, short).encodings == [HEAD + sealed(65, long), alone]
    assert alone[len(HEAD) + ENC_START :].startswith(short)
