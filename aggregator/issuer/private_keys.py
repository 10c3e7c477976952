"""The keys by which an issuer signs, one for each window, and the file that holds them."""

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from aggregator.errors import ParameterError
from aggregator.protocol.signed_permits import EXPONENT, SIGNATURE_SIZE, IssuerKeys

_OWNER_ONLY = 0o600
_HEAD = re.compile(rb"prio issuer keys 1, first window ([0-9]{1,19})\n")
_KEY = re.compile(rb"-----BEGIN PRIVATE KEY-----\n[A-Za-z0-9+/=\n]+-----END PRIVATE KEY-----\n")


@dataclasses.dataclass(frozen=True, slots=True)
class PrivateKeys:
    """An issuer's keys; whoever has one can make any number of permits of its window.

    Attributes:
        public: What tasks are made with.
        keys: One for each window, in order.
    """

    public: IssuerKeys
    keys: Sequence[RSAPrivateKey] = dataclasses.field(repr=False)

    def of_window(self, window: int) -> RSAPrivateKey | None:
        """Return the key of a window; None if it has none."""
        place = window - self.public.first
        return self.keys[place] if 0 <= place < len(self.keys) else None

    def write(self, file: Path) -> None:
        """Write a new file, for its owner only; raises `FileExistsError`."""
        pems = [
            each.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            for each in self.keys
        ]
        descriptor = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(b"prio issuer keys 1, first window %d\n" % self.public.first)
            stream.write(b"".join(pems))


def new_keys(first: int, windows: int) -> PrivateKeys:
    """Make keys for some windows from the one of number `first` on; each takes some 0.05 s."""
    return _private_keys(first, [generate_private_key(EXPONENT, 2048) for _ in range(windows)])


def read_keys(file: Path) -> PrivateKeys:
    """Read a file of keys.

    Raises `ParameterError` if it holds anything else; the message has nothing of what it holds.
    """
    data = file.read_bytes()
    head = _HEAD.match(data)
    pems = _KEY.findall(data)
    if head is None or head[0] + b"".join(pems) != data:
        raise ParameterError(f"{file}: is no file of an issuer's keys")
    try:
        keys = [load_pem_private_key(each, None) for each in pems]
    except ValueError:
        raise ParameterError(f"{file}: holds a key that cannot be read") from None
    rsa = [each for each in keys if isinstance(each, RSAPrivateKey)]
    if len(rsa) < len(keys) or any(
        each.public_key().public_numbers().e != EXPONENT for each in rsa
    ):
        raise ParameterError(f"{file}: holds a key that is no RSA key with e = {EXPONENT}")
    return _private_keys(int(head[1]), rsa)


def _private_keys(first: int, keys: Sequence[RSAPrivateKey]) -> PrivateKeys:
    numbers = [each.public_key().public_numbers().n for each in keys]
    if any(each.bit_length() != 8 * SIGNATURE_SIZE for each in numbers):
        raise ParameterError(f"keys: must have {8 * SIGNATURE_SIZE} bits each")
    moduli = tuple(each.to_bytes(SIGNATURE_SIZE, "big") for each in numbers)
    return PrivateKeys(IssuerKeys(first, moduli), keys)
