"""Blind signatures: whoever signs a permit sees neither it nor, later, which one it was.

    the client   blinds a message, and keeps what unblinds the answer
    the issuer   signs what it cannot read
    the client   makes a signature of the answer, and verifies it before it is kept

No library that we have blinds, so this is our own; what verifies (`signed_permits`) is a library's.
Python's integers take a time that depends on them. The client blinds on its own machine, for nobody
who can measure it so finely. The issuer answers strangers, so it signs what it has blinded by a
number of its own once more: what its time tells is of a number that nobody knows.

Source: RFC 9474, "Blind", "BlindSign" and "Finalize", variant RSABSSA-SHA384-PSS-Deterministic; RFC
8017, "EMSA-PSS-ENCODE" and "MGF1".
"""

import dataclasses
import hashlib
from math import gcd
from typing import TYPE_CHECKING

from aggregator.entropy import Entropy
from aggregator.errors import LocalError, ParameterError
from aggregator.protocol.signed_permits import EXPONENT, SALT_SIZE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_HASH_SIZE = 48


@dataclasses.dataclass(frozen=True, slots=True)
class Blinded:
    """A message that is blinded for a key.

    Attributes:
        sent: What the issuer signs, of the size of the modulus.
        inverse: What unblinds its answer; as secret as the message until a report shows that.
    """

    sent: bytes
    inverse: bytes = dataclasses.field(repr=False)


def blind(modulus: bytes, message: bytes, entropy: Entropy) -> Blinded:
    """Blind a message for the key of a modulus.

    Raises `ParameterError` if the key and the message have a factor in common, which happens to no
    key that was made honestly.
    """
    n, size = int.from_bytes(modulus, "big"), len(modulus)
    encoded = _encoded(message, entropy.bytes(SALT_SIZE), n.bit_length())
    if gcd(encoded, n) != 1:
        raise ParameterError("keys: a key has a factor in common with a message")
    r = _unit_below(n, size, entropy)
    sent = encoded * pow(r, EXPONENT, n) % n
    return Blinded(sent.to_bytes(size, "big"), pow(r, -1, n).to_bytes(size, "big"))


def unblind(modulus: bytes, answer: bytes, inverse: bytes) -> bytes:
    """Return the signature that an issuer's answer hides; whoever keeps it verifies it."""
    n = int.from_bytes(modulus, "big")
    signature = int.from_bytes(answer, "big") * int.from_bytes(inverse, "big") % n
    return signature.to_bytes(len(modulus), "big")


def blind_sign(key: "RSAPrivateKey", message: bytes, entropy: Entropy) -> bytes:
    """Sign a blinded message.

    Raises:
        ParameterError: The message is not of the key's size, or not below its modulus.
        LocalError: The signature came out wrong. It is never given out: a fault in one half of the
            computation would give the key away.
    """
    numbers = key.private_numbers()
    n, p, q = numbers.public_numbers.n, numbers.p, numbers.q
    e, size = numbers.public_numbers.e, (n.bit_length() + 7) // 8
    if len(message) != size:
        raise ParameterError(f"a blinded message must be {size} bytes, not {len(message)}")
    m = int.from_bytes(message, "big")
    if m >= n:
        raise ParameterError("a blinded message must be below the key's modulus")
    r = _unit_below(n, size, entropy)
    hidden = m * pow(r, e, n) % n
    of_p, of_q = pow(hidden, numbers.dmp1, p), pow(hidden, numbers.dmq1, q)
    root = of_q + (of_p - of_q) * numbers.iqmp % p * q
    signature = root * pow(r, -1, n) % n
    if pow(signature, e, n) != m:
        raise LocalError("a blind signature came out wrong")
    return signature.to_bytes(size, "big")


def _unit_below(n: int, size: int, entropy: Entropy) -> int:
    """Draw a number below n that has an inverse."""
    while True:
        r = int.from_bytes(entropy.bytes(size), "big")
        if 1 < r < n and gcd(r, n) == 1:
            return r


def _encoded(message: bytes, salt: bytes, modulus_bits: int) -> int:
    """Return the number that a signature of a message is a root of (EMSA-PSS)."""
    bits = modulus_bits - 1
    size = (bits + 7) // 8
    digest = hashlib.sha384(message).digest()
    h = hashlib.sha384(bytes(8) + digest + salt).digest()
    room = size - _HASH_SIZE - 1
    data = bytes(room - len(salt) - 1) + b"\x01" + salt
    mask = _mask(h, room)
    masked = int.from_bytes(data, "big") ^ int.from_bytes(mask, "big")
    masked &= (1 << (8 * room - (8 * size - bits))) - 1
    return int.from_bytes(masked.to_bytes(room, "big") + h + b"\xbc", "big")


def _mask(seed: bytes, size: int) -> bytes:
    """Return MGF1 of a seed."""
    counts = range(-(-size // _HASH_SIZE))
    hashes = [hashlib.sha384(seed + count.to_bytes(4, "big")).digest() for count in counts]
    return b"".join(hashes)[:size]
