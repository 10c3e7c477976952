"""Secret columns at rest: AES-256-GCM, bound to the table, the row and the column.

A ciphertext moved to another row or column does not decrypt, so somebody who can write to the
database but does not hold the key cannot swap one task's key for another's. Keys come as a list:
the first encrypts and all decrypt, so a key is replaced by putting the new one in front.

A stored value is `fingerprint (4 bytes) || nonce (12 bytes) || ciphertext and tag`. The fingerprint
names the key, so that a missing key can be told from a tampered value.
"""

import base64
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from typing_extensions import override

from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_SIZE = 32
FINGERPRINT_SIZE = 4
_NONCE_SIZE = 12
_TAG_SIZE = 16


class CrypterError(StoreError):
    """A stored secret cannot be decrypted; the message names the column, never the value."""


class OtherStoreKey(CrypterError):
    """A stored secret is under a store key that is not in the list; `fingerprint` names the key."""

    def __init__(self, place: str, fingerprint: bytes, source: str | None = None) -> None:
        """Name the place of the secret, its store key, and where the list is from."""
        where = "" if source is None else f" of {source}"
        super().__init__(
            f"{place} was written under the store key {fingerprint.hex()}, which is not in the "
            f"list{where}"
        )
        self.fingerprint = fingerprint


class Crypter:
    """Encrypts and decrypts secret columns under a list of keys."""

    __slots__ = ("_ciphers", "_entropy", "_first", "_keys", "_source")

    def __init__(
        self, keys: Sequence[bytes], entropy: Entropy | None = None, source: str | None = None
    ) -> None:
        """Hold `keys`, each 32 bytes: the first encrypts, all decrypt.

        Args:
            keys: The keys.
            entropy: Where nonces are from.
            source: The setting, or the file, that a message names which misses a key.
        """
        if not keys:
            raise ConfigurationError("the store needs at least one key")
        if any(len(key) != KEY_SIZE for key in keys):
            raise ConfigurationError(
                f"a store key must be {KEY_SIZE} bytes; `prio keys new` prints one"
            )
        self._keys = {_fingerprint(key): key for key in keys}
        self._ciphers: dict[bytes, AESGCM] = {}
        self._first = _fingerprint(keys[0])
        self._entropy: Entropy = SystemEntropy() if entropy is None else entropy
        self._source = source

    @classmethod
    def parse(
        cls, text: str, entropy: Entropy | None = None, source: str | None = None
    ) -> "Crypter":
        """Return a crypter over the keys in `text`: base64url, separated by commas or white space.

        Raises:
            ConfigurationError: A key is not base64url or not 32 bytes long.
        """
        keys = []
        for word in text.replace(",", " ").split():
            try:
                keys.append(base64.b64decode(word + "=" * (-len(word) % 4), b"-_", validate=True))
            except ValueError:
                # `from None`: the cause would contain the text of a key.
                raise ConfigurationError(
                    "a store key must be base64url, as `prio keys new` prints it"
                ) from None
        return cls(keys, entropy, source)

    @property
    def fingerprints(self) -> frozenset[bytes]:
        """The fingerprints of the keys, with which the ciphertexts that they decrypt begin."""
        return frozenset(self._keys)

    @property
    def first(self) -> bytes:
        """The fingerprint of the first key, with which new ciphertexts begin."""
        return self._first

    @override
    def __repr__(self) -> str:
        return f"Crypter({len(self._keys)} keys)"

    def encrypt(self, table: str, row: bytes, column: str, plaintext: bytes) -> bytes:
        """Return `plaintext` encrypted for `column` of the row of `table` that `row` identifies."""
        nonce = self._entropy.bytes(_NONCE_SIZE)
        place = _associated_data(table, row, column)
        ciphertext = self._cipher(self._first).encrypt(nonce, plaintext, place)
        return self._first + nonce + ciphertext

    def decrypt(self, table: str, row: bytes, column: str, stored: bytes) -> bytes:
        """Return the plaintext of a ciphertext that `encrypt` returned for the same place.

        Raises:
            CrypterError: No key of the list made the ciphertext, or it was changed or moved.
        """
        from cryptography.exceptions import InvalidTag

        if len(stored) < FINGERPRINT_SIZE + _NONCE_SIZE + _TAG_SIZE:
            raise CrypterError(f"{table}.{column} is too short for a ciphertext")
        fingerprint = stored[:FINGERPRINT_SIZE]
        nonce = stored[FINGERPRINT_SIZE : FINGERPRINT_SIZE + _NONCE_SIZE]
        ciphertext = stored[FINGERPRINT_SIZE + _NONCE_SIZE :]
        place = _associated_data(table, row, column)
        is_ours = fingerprint in self._keys
        # If only the fingerprint is damaged, one of our keys still decrypts it.
        for each in [fingerprint] if is_ours else self._keys:
            with suppress(InvalidTag):
                return self._cipher(each).decrypt(nonce, ciphertext, place)
        if not is_ours:
            raise OtherStoreKey(f"{table}.{column}", fingerprint, self._source)
        raise CrypterError(f"{table}.{column} was changed or moved")

    def _cipher(self, fingerprint: bytes) -> "AESGCM":
        """Return a key's cipher; a command that reads no secret never loads OpenSSL."""
        if fingerprint not in self._ciphers:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._ciphers[fingerprint] = AESGCM(self._keys[fingerprint])
        return self._ciphers[fingerprint]


def new_store_key(entropy: Entropy) -> str:
    """Return a fresh store key as unpadded base64url, the form `Crypter.parse` reads."""
    return base64.urlsafe_b64encode(entropy.bytes(KEY_SIZE)).rstrip(b"=").decode()


def _fingerprint(key: bytes) -> bytes:
    return hashlib.sha256(b"prio store key" + key).digest()[:FINGERPRINT_SIZE]


def _associated_data(table: str, row: bytes, column: str) -> bytes:
    # Each part follows its length, so that no two places encode alike.
    parts = (table.encode(), row, column.encode())
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
