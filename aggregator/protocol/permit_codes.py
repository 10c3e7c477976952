"""A person's secret as people type it, or as a link carries it.

28 letters and digits in groups of four: 128 bits of the secret, and 12 by which a slip is noticed.
"""

import hashlib
from typing import Final

from aggregator.errors import ParameterError
from aggregator.protocol.permits import SIZE, TAG

LINKED: Final = "#p="
"""What a link has between the address of a page and a code; browsers send nothing behind # on."""

_LETTERS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_COUNT: Final = 28
_GROUP: Final = 4
_CHECK_BITS: Final = 12
_BITS_OF_LETTER: Final = 5
_VALUES: Final = {letter: value for value, letter in enumerate(_LETTERS)} | {"o": 0, "i": 1, "l": 1}


def code_of(secret: bytes) -> str:
    """Return the code of a secret of 16 bytes."""
    value = int.from_bytes(secret, "big") << _CHECK_BITS | _check_of(secret)
    places = range(_BITS_OF_LETTER * (_COUNT - 1), -1, -_BITS_OF_LETTER)
    text = "".join(_LETTERS[value >> place & 31] for place in places)
    return "-".join(text[start : start + _GROUP] for start in range(0, _COUNT, _GROUP))


def secret_of(code: str) -> bytes:
    """Return the secret of a code: in any case, with o for 0, i or l for 1, and any signs between.

    Or of the link that ends with it.

    Raises `ParameterError` if it is none; the message does not have it.
    """
    code = code.lower().rpartition(LINKED)[2]
    known = [_VALUES[letter] for letter in code if letter in _VALUES]
    others = [letter for letter in code if letter.isalnum() and letter not in _VALUES]
    if len(known) != _COUNT or others:
        found = f"{len(known)} that are" + (f", and {len(others)} others" if others else "")
        raise ParameterError(f"permit: a code has {_COUNT} of the letters {_LETTERS}, not {found}")
    value = 0
    for each in known:
        value = value << _BITS_OF_LETTER | each
    secret = (value >> _CHECK_BITS).to_bytes(SIZE, "big")
    if value & (1 << _CHECK_BITS) - 1 != _check_of(secret):
        raise ParameterError("permit: the code has a slip in it")
    return secret


def name_of(secret: bytes) -> str:
    """Return 16 hexadecimal digits by which a device remembers whose answers it has sent."""
    return hashlib.sha256(TAG + b"name" + secret).digest()[:8].hex()


def _check_of(secret: bytes) -> int:
    return int.from_bytes(hashlib.sha256(TAG + b"code" + secret).digest()[:2], "big") >> 4
