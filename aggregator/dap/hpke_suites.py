"""The algorithms that HPKE is composed of, and the suites that we support.

All algorithms are OpenSSL's, which is loaded when the first is used. Key encapsulations differ in
how keys are written and drawn; in all of them the Diffie-Hellman secret, the KEM's secret and
HKDF's blocks are 32 bytes.

Source: RFC 9180, "Algorithm Identifiers" and "DH-Based KEM (DHKEM)"; DAP, "Compliance
Requirements".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, Union

from aggregator.entropy import Entropy

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

PRIVATE_KEY_SIZE = 32
"""Bytes of a private key, whatever the KEM."""

TAG_SIZE = 16
"""Bytes that sealing adds to a plaintext, whatever the AEAD."""

HKDF_SHA256 = 0x0001


class PrivateKey(Protocol):
    """A private key that is parsed once."""

    @property
    def public_key(self) -> bytes:
        """The public key, as the KEM serializes it."""

    def exchange(self, public_key: bytes) -> bytes:
        """Return the Diffie-Hellman secret; raises ValueError if there is none."""


class X25519Key:
    """A private key of DHKEM(X25519, HKDF-SHA256)."""

    __slots__ = ("_key", "_parse")

    def __init__(self, private_key: bytes) -> None:
        """Parse 32 bytes, of which any are a key; raises ValueError for another size."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import (
            X25519PrivateKey,
            X25519PublicKey,
        )

        self._key = X25519PrivateKey.from_private_bytes(private_key)
        self._parse = X25519PublicKey.from_public_bytes

    @property
    def public_key(self) -> bytes:
        """32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def exchange(self, public_key: bytes) -> bytes:
        """Return the secret; raises ValueError for another size or a point of small order."""
        return self._key.exchange(self._parse(public_key))


class P256Key:
    """A private key of DHKEM(P-256, HKDF-SHA256)."""

    __slots__ = ("_key",)

    def __init__(self, private_key: bytes) -> None:
        """Parse 32 bytes; raises ValueError for another size, zero, or the order and above."""
        from cryptography.hazmat.primitives.asymmetric import ec

        if len(private_key) != PRIVATE_KEY_SIZE:
            raise ValueError("a private key has 32 bytes")
        self._key = ec.derive_private_key(int.from_bytes(private_key, "big"), ec.SECP256R1())

    @property
    def public_key(self) -> bytes:
        """The point without compression, 65 bytes."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def exchange(self, public_key: bytes) -> bytes:
        """Return the secret point's x; raises ValueError for bytes that encode no point."""
        from cryptography.hazmat.primitives.asymmetric import ec

        if len(public_key) != P256.public_key_size:  # RFC 9180 knows no compressed points
            raise ValueError("a public key has 65 bytes")
        point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), public_key)
        return self._key.exchange(ec.ECDH(), point)


@dataclass(frozen=True, slots=True)
class Kem:
    """A key encapsulation.

    Attributes:
        name: Its name in settings.
        id: RFC 9180's code point.
        public_key_size: Bytes of a public key, and so of an encapsulated key.
        key: Parses a private key.
    """

    name: str
    id: int
    public_key_size: int
    key: type[X25519Key] | type[P256Key]

    @property
    def label(self) -> bytes:
        """Domain separation of the KEM's derivations."""
        return b"HPKE-v1KEM" + self.id.to_bytes(2, "big")

    def draw_bytes(self, entropy: Entropy) -> bytes:
        """Return a fresh private key as `draw` does, as bytes only; parsing may take long."""
        return entropy.bytes(PRIVATE_KEY_SIZE) if self.key is X25519Key else self.draw(entropy)[0]

    def draw(self, entropy: Entropy) -> tuple[bytes, PrivateKey]:
        """Return a fresh private key, as bytes and parsed.

        All private keys are equally likely. For P-256, one draw in 2³² is not a private key and is
        repeated.
        """
        while True:
            drawn = entropy.bytes(PRIVATE_KEY_SIZE)
            try:
                return drawn, self.key(drawn)
            except ValueError:
                continue


X25519 = Kem("X25519", 0x0020, 32, X25519Key)
P256 = Kem("P-256", 0x0010, 65, P256Key)

ENC_SIZES = tuple(kem.public_key_size for kem in (X25519, P256))
"""How many bytes an encapsulated key may have, the usual ones first."""

Cipher: TypeAlias = Union["AESGCM", "ChaCha20Poly1305"]


def _aes_gcm() -> type[Cipher]:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM


def _chacha20_poly1305() -> type[Cipher]:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305


@dataclass(frozen=True, slots=True)
class Aead:
    """An AEAD; nonces have 12 bytes.

    `load` imports the class that makes a cipher from a key. The import statement takes as long as
    making one, so for many messages call it once.
    """

    name: str
    id: int
    key_size: int
    load: Callable[[], type[Cipher]]


AEADS = (
    Aead("AES-128-GCM", 0x0001, 16, _aes_gcm),
    Aead("AES-256-GCM", 0x0002, 32, _aes_gcm),
    Aead("ChaCha20-Poly1305", 0x0003, 32, _chacha20_poly1305),
)


@dataclass(frozen=True, slots=True)
class Suite:
    """A key encapsulation and an AEAD; the key derivation is HKDF-SHA256."""

    kem: Kem
    aead: Aead

    @property
    def name(self) -> str:
        """Its name in settings, such as `X25519/AES-128-GCM`."""
        return f"{self.kem.name}/{self.aead.name}"

    @property
    def ids(self) -> tuple[int, int, int]:
        """RFC 9180's code points of the KEM, the key derivation and the AEAD."""
        return self.kem.id, HKDF_SHA256, self.aead.id

    @property
    def label(self) -> bytes:
        """Domain separation of the key schedule's derivations."""
        return b"HPKE-v1HPKE" + b"".join(code.to_bytes(2, "big") for code in self.ids)


SUITES: Mapping[tuple[int, int, int], Suite] = {
    suite.ids: suite for suite in (Suite(kem, aead) for kem in (X25519, P256) for aead in AEADS)
}
"""The suites that we support, by (kem_id, kdf_id, aead_id)."""

REQUIRED = Suite(X25519, AEADS[0])
"""The suite that DAP requires of everyone."""

NAMED: Mapping[str, Suite] = {suite.name: suite for suite in SUITES.values()}
