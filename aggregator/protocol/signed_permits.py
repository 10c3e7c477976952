"""Signed permits: an issuer signs the id of a report without seeing it, with one key for a window.

Reports show the signature in public in place of an entry in a list. All keys are made before the
task and bound into it by their digest, so nobody can be given a key of their own by which their
report would be known. The time of a report says which key verifies it.

Source: RFC 9474, RSABSSA-SHA384-PSS-Deterministic. The message needs no random prefix: it has an id
that the client has drawn.
"""

import dataclasses
import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from aggregator.dap.report_errors import ReportError
from aggregator.errors import ParameterError
from aggregator.protocol.permits import TAG, Permits, is_of_window

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.padding import PSS
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.hashes import SHA384

SIGNATURE_SIZE: Final = 256
"""Bytes of a signature, and of a modulus: 2,048 bits are ample for what holds for one window."""

EXPONENT: Final = 65537
SALT_SIZE: Final = 48
"""Bytes of the salt, as the scheme of RFC 9474 has it: those of SHA-384."""

MOST_WINDOWS: Final = 256
"""How many windows may have keys: the last byte of an id tells so many apart."""


@dataclasses.dataclass(frozen=True, slots=True)
class IssuerKeys:
    """The public keys of the windows of signed permits.

    Attributes:
        first: The number of the first window.
        moduli: The modulus of each window from there on, 256 bytes each.
    """

    first: int
    moduli: tuple[bytes, ...] = dataclasses.field(repr=False)

    def __post_init__(self) -> None:
        count = len(self.moduli)
        if not 1 <= count <= MOST_WINDOWS:
            raise ParameterError(f"keys: must be 1 to {MOST_WINDOWS}, not {count}")
        if not 0 <= self.first < 2**63 - MOST_WINDOWS:
            raise ParameterError(f"first_window: must be from 0 to 2^63 - 257, not {self.first}")
        for place, modulus in enumerate(self.moduli, 1):
            if len(modulus) != SIGNATURE_SIZE or modulus[0] < 128 or modulus[-1] % 2 == 0:  # noqa: PLR2004  bits
                bits = 8 * SIGNATURE_SIZE
                raise ParameterError(f"keys: key {place} must be an odd number of {bits} bits")
        if len({*self.moduli}) < count:
            raise ParameterError("keys: two windows have the same key")

    @property
    def digest(self) -> bytes:
        """What binds the keys into the task."""
        hashed = hashlib.sha256(TAG + b"keys" + self.first.to_bytes(8, "big"))
        hashed.update(b"".join(self.moduli))
        return hashed.digest()

    def of_window(self, window: int) -> bytes | None:
        """Return the modulus that verifies reports of a window; None if it has none."""
        place = window - self.first
        return self.moduli[place] if 0 <= place < len(self.moduli) else None


def signed_text(domain: bytes, window: int, report_id: bytes) -> bytes:
    """Return what a permit's signature is of."""
    return TAG + b"signed" + domain + window.to_bytes(8, "big") + report_id


def is_signed(modulus: bytes, text: bytes, signature: bytes) -> bool:
    """Return whether a signature is of a text; all of this is public, and may take any time."""
    from cryptography.exceptions import InvalidSignature

    try:
        _public_key(modulus).verify(signature, text, *scheme())
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=1)
def scheme() -> "tuple[PSS, SHA384]":
    """Return the padding and the hash of signatures, as the library takes them."""
    from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
    from cryptography.hazmat.primitives.hashes import SHA384

    return PSS(MGF1(SHA384()), SALT_SIZE), SHA384()


def fault_of(
    permits: Permits, keys: IssuerKeys, window: int, report_id: bytes, signature: bytes
) -> ReportError | None:
    """Return why a report of a window does not count by its id and signature; None if it may.

    An id that is another window's is refused before a signature is verified, which is dear.
    """
    if not is_of_window(report_id, window):
        return ReportError.PERMIT_OF_ANOTHER_WINDOW
    modulus = keys.of_window(window)
    text = signed_text(permits.domain, window, report_id)
    if modulus is None or not is_signed(modulus, text, signature):
        return ReportError.PERMIT_UNKNOWN
    return None


@lru_cache(maxsize=1024)
def _public_key(modulus: bytes) -> "RSAPublicKey":
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    return RSAPublicNumbers(EXPONENT, int.from_bytes(modulus, "big")).public_key()
