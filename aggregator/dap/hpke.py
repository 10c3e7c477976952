"""HPKE in base mode, single shot: seal to a public key, open with a private one.

We need our own because the library's HPKE takes no associated data, which DAP needs. Its
algorithms are in `hpke_suites`.

Source: RFC 9180, "DH-Based KEM (DHKEM)", "Creating the Encryption Context" and "Single-Shot APIs";
DAP, "HPKE Configuration Request", "Upload Request" and "Aggregate Share Encryption".
"""

import dataclasses
import hmac
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import ClassVar, Self

from typing_extensions import override

from aggregator.codec import DecodeError, Reader, Writer
from aggregator.dap.hpke_suites import PRIVATE_KEY_SIZE, REQUIRED, SUITES, PrivateKey, Suite
from aggregator.dap.profile import Role
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError, ReportRejected

NONCE_SIZE = 12
"""Bytes of a nonce, whatever the AEAD."""

_CIPHERTEXT_HEADER = Struct(">BH")
_CONFIG_HEADER = Struct(">BHHHH")


class DecryptError(ReportRejected):
    """A ciphertext that does not open; the error does not say why."""


@dataclass(frozen=True, slots=True)
class HpkeConfig:
    """A public key and RFC 9180's code points of the algorithms to use it with.

    `id` is 0 to 255, distinct among an aggregator's configurations in use.
    """

    id: int
    kem_id: int
    kdf_id: int
    aead_id: int
    public_key: bytes

    @property
    def is_supported(self) -> bool:
        """Whether we can seal to it."""
        suite = SUITES.get(self.suite_ids)
        return suite is not None and len(self.public_key) == suite.kem.public_key_size

    @property
    def suite_ids(self) -> tuple[int, int, int]:
        """The code points of its algorithms, by which `SUITES` names those we speak."""
        return self.kem_id, self.kdf_id, self.aead_id

    def write(self, writer: Writer) -> None:
        """Append the configuration."""
        writer.u8(self.id, "HpkeConfig.id")
        writer.u16(self.kem_id, "kem_id")
        writer.u16(self.kdf_id, "kdf_id")
        writer.u16(self.aead_id, "aead_id")
        writer.opaque16(self.public_key, 1, name="public_key")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one configuration, of any suite."""
        config_id, kem_id, kdf_id, aead_id, size = reader.unpack(_CONFIG_HEADER)
        if size == 0:
            raise reader.error("public_key must not be empty")
        return cls(config_id, kem_id, kdf_id, aead_id, reader.fixed(size))


@dataclass(frozen=True, slots=True)
class HpkeConfigList:
    """An aggregator's configurations, the one it prefers first; ids are distinct."""

    message: ClassVar[str] = "hpke-config-list"
    configs: tuple[HpkeConfig, ...]

    def preferred(self) -> HpkeConfig:
        """Return the first configuration that we support, or raise `DecodeError`."""
        for config in self.configs:
            if config.is_supported:
                return config
        raise DecodeError(f"none of {len(self.configs)} HPKE configurations has a suite we support")

    def write(self, writer: Writer) -> None:
        """Append the list behind its length."""
        writer.list16(self.configs, 10, "HpkeConfigList")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take the list."""
        configs = reader.list16(HpkeConfig.read, 10)
        if len({config.id for config in configs}) != len(configs):
            raise reader.error("two HPKE configurations have the same id")
        return cls(configs)


@dataclass(frozen=True, slots=True)
class HpkeCiphertext:
    """A sealed message: the encapsulated key `enc`, and the ciphertext with its tag."""

    config_id: int
    enc: bytes
    payload: bytes

    def write(self, writer: Writer) -> None:
        """Append the ciphertext."""
        writer.u8(self.config_id, "config_id")
        writer.opaque16(self.enc, 1, name="enc")
        writer.opaque32(self.payload, 1, name="payload")

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Take one ciphertext."""
        config_id, size = reader.unpack(_CIPHERTEXT_HEADER)
        if size == 0:
            raise reader.error("enc must not be empty")
        return cls(config_id, reader.fixed(size), reader.opaque32(1, name="payload"))


@dataclass(frozen=True, slots=True)
class HpkeKeypair:
    """A configuration and its private key, which is parsed once.

    Raises `ParameterError` if we do not support the suite, or the two keys do not belong together.
    """

    config: HpkeConfig
    private_key: bytes = dataclasses.field(repr=False)
    _key: PrivateKey = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kem = suite_of(self.config).kem
        try:
            key = kem.key(self.private_key)
        except ValueError:  # whose text may reveal the key
            size = len(self.private_key)
            wrong = "is none" if size == PRIVATE_KEY_SIZE else f"must be 32 bytes long, not {size}"
            raise ParameterError(f"HPKE private_key {wrong}") from None
        if key.public_key != self.config.public_key:
            raise ParameterError(f"HPKE private_key is not that of configuration {self.config.id}")
        object.__setattr__(self, "_key", key)

    @override
    def __reduce__(self) -> tuple[type[Self], tuple[HpkeConfig, bytes]]:
        """Pickle without the parsed key, for worker processes."""
        return type(self), (self.config, self.private_key)

    def exchange(self, enc: bytes) -> bytes:
        """Return the Diffie-Hellman secret with the encapsulated key `enc`.

        Raises ValueError if `enc` is no key of the suite's, or leads to no secret.
        """
        return self._key.exchange(enc)


def generate_keypair(config_id: int, entropy: Entropy, suite: Suite = REQUIRED) -> HpkeKeypair:
    """Return a fresh key pair of a suite, under `config_id` (0 to 255)."""
    private_key, key = suite.kem.draw(entropy)
    return HpkeKeypair(HpkeConfig(config_id, *suite.ids, key.public_key), private_key)


def suite_of(config: HpkeConfig) -> Suite:
    """Return the suite of `config`, or raise `ParameterError` if we cannot use it."""
    if not config.is_supported:
        ids = f"kem {config.kem_id:#06x}, kdf {config.kdf_id:#06x}, aead {config.aead_id:#06x}"
        size = len(config.public_key)
        raise ParameterError(
            f"HPKE configuration {config.id} is not supported: {ids}, public key of {size} bytes"
        )
    return SUITES[config.suite_ids]


def seal(
    config: HpkeConfig, info: bytes, aad: bytes, plaintext: bytes, entropy: Entropy
) -> HpkeCiphertext:
    """Seal `plaintext` to `config`.

    Args:
        config: The recipient's.
        info: The message's purpose: `input_share_info` or `aggregate_share_info`.
        aad: What the message is bound to.
        plaintext: The message.
        entropy: Gives the ephemeral private key, 32 bytes, and nothing else (`Kem.draw`).

    Raises:
        ParameterError: The suite is not supported, or the public key leads to no secret.
    """
    _, ephemeral = suite_of(config).kem.draw(entropy)
    try:
        secret = ephemeral.exchange(config.public_key)
    except ValueError as error:
        raise unusable(config) from error
    return sealed_with(config, info, aad, plaintext, ephemeral.public_key, secret)


def sealed_with(
    config: HpkeConfig, info: bytes, aad: bytes, plaintext: bytes, enc: bytes, secret: bytes
) -> HpkeCiphertext:
    """Seal `plaintext` with the secret of an ephemeral key, whose public key is `enc`."""
    suite = suite_of(config)
    key, nonce = key_schedule(suite, secret, enc + config.public_key, info)
    return HpkeCiphertext(config.id, enc, suite.aead.load()(key).encrypt(nonce, plaintext, aad))


def unusable(config: HpkeConfig) -> ParameterError:
    """Return the error of a public key that leads to no secret."""
    return ParameterError(f"public key of HPKE configuration {config.id} is unusable")


def open_(keypair: HpkeKeypair, info: bytes, aad: bytes, ciphertext: HpkeCiphertext) -> bytes:
    """Open a ciphertext from anyone, so possibly malformed, with the key pair of its `config_id`.

    Raises `DecryptError` if it does not open.
    """
    from cryptography.exceptions import InvalidTag

    suite = SUITES[keypair.config.suite_ids]
    enc = ciphertext.enc
    try:
        # A key that is not the suite's raises ValueError, a wrong tag InvalidTag, and a
        # payload shorter than a tag either: all of it is the sender's fault.
        secret = keypair.exchange(enc)
        key, nonce = key_schedule(suite, secret, enc + keypair.config.public_key, info)
        return suite.aead.load()(key).decrypt(nonce, ciphertext.payload, aad)
    except (InvalidTag, ValueError) as error:
        config_id = ciphertext.config_id
        raise DecryptError(f"a ciphertext for configuration {config_id} does not open") from error


def input_share_info(tag: bytes, recipient: Role) -> bytes:
    """Return the info of an input share, from a Client to the Leader or the Helper."""
    return tag + b" input share" + bytes((Role.CLIENT, recipient))


def aggregate_share_info(tag: bytes, sender: Role) -> bytes:
    """Return the info of an aggregate share, from the Leader or the Helper to the Collector."""
    return tag + b" aggregate share" + bytes((sender, Role.COLLECTOR))


@dataclass(frozen=True, slots=True)
class Schedule:
    """The key schedule's parts that do not depend on the message: labels, sizes and the info."""

    eae_prk: bytes
    shared_secret: bytes
    secret: bytes
    key: bytes
    base_nonce: bytes


@lru_cache(maxsize=64)
def fixed_schedule(suite: Suite, info: bytes) -> Schedule:
    """Return what the key schedules of all messages of one purpose have in common."""
    kem, label = suite.kem.label, suite.label
    psk_id_hash = _extract(b"", label + b"psk_id_hash")  # of an empty id
    context = b"\0" + psk_id_hash + _extract(b"", label + b"info_hash" + info)  # 0: base mode
    return Schedule(
        eae_prk=kem + b"eae_prk",
        shared_secret=_size(32) + kem + b"shared_secret",
        secret=label + b"secret",
        key=_size(suite.aead.key_size) + label + b"key" + context + FIRST_BLOCK,
        base_nonce=_size(NONCE_SIZE) + label + b"base_nonce" + context + FIRST_BLOCK,
    )


def key_schedule(
    suite: Suite, secret: bytes, kem_context: bytes, info: bytes
) -> tuple[bytes, bytes]:
    """Return the message's key and nonce; for the first and only message that is the base nonce."""
    fixed = fixed_schedule(suite, info)
    prk = _extract(b"", fixed.eae_prk + secret)
    shared = _extract(prk, fixed.shared_secret + kem_context + FIRST_BLOCK)
    prk = _extract(shared, fixed.secret)  # of an empty pre-shared key
    key = _extract(prk, fixed.key)[: suite.aead.key_size]
    return key, _extract(prk, fixed.base_nonce)[:NONCE_SIZE]


FIRST_BLOCK = b"\x01"
"""HKDF's expansion is one HMAC of this block: no size here exceeds SHA-256's 32 bytes."""


def _size(size: int) -> bytes:
    return size.to_bytes(2, "big")


def _extract(salt: bytes, labelled: bytes) -> bytes:
    """HKDF-Extract, and as one HMAC also HKDF-Expand of one block."""
    return hmac.digest(salt, labelled, "sha256")
