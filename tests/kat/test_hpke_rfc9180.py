"""RFC 9180's vectors for our suites, and the library's own HPKE as a second opinion."""

import json
from functools import lru_cache
from importlib.resources import files
from typing import TypedDict

import cryptography_vectors
import pytest
from cryptography.hazmat.primitives import hpke as library
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from aggregator.dap.hpke import (
    HpkeCiphertext,
    HpkeConfig,
    HpkeKeypair,
    generate_keypair,
    open_,
    seal,
)
from aggregator.dap.hpke_batch import open_many
from aggregator.dap.hpke_suites import SUITES, Suite
from tests.support.entropy import ScriptedEntropy

BASE_MODE = 0
NAMES = pytest.mark.parametrize("suite", SUITES.values(), ids=lambda suite: suite.name)


class Encryption(TypedDict):
    aad: str
    ct: str
    pt: str


class Vector(TypedDict):
    mode: int
    kem_id: int
    kdf_id: int
    aead_id: int
    info: str
    skRm: str
    skEm: str
    pkRm: str
    enc: str
    encryptions: list[Encryption]


@lru_cache
def vectors() -> dict[tuple[int, int, int], Vector]:
    text = (files(cryptography_vectors) / "HPKE" / "test-vectors.json").read_text("utf-8")
    return {
        (vector["kem_id"], vector["kdf_id"], vector["aead_id"]): vector
        for vector in json.loads(text)
        if vector["mode"] == BASE_MODE
    }


def recipient(vector: Vector) -> HpkeKeypair:
    ids = vector["kem_id"], vector["kdf_id"], vector["aead_id"]
    config = HpkeConfig(1, *ids, bytes.fromhex(vector["pkRm"]))
    return HpkeKeypair(config, bytes.fromhex(vector["skRm"]))


@NAMES
def test_the_published_message_is_sealed_bit_for_bit_with_its_ephemeral_key(suite: Suite) -> None:
    vector = vectors()[suite.ids]
    first = vector["encryptions"][0]
    sealed = seal(
        recipient(vector).config,
        bytes.fromhex(vector["info"]),
        bytes.fromhex(first["aad"]),
        bytes.fromhex(first["pt"]),
        ScriptedEntropy(bytes.fromhex(vector["skEm"])),
    )
    assert sealed.enc.hex() == vector["enc"]
    assert sealed.payload.hex() == first["ct"]


@NAMES
def test_the_published_ciphertext_opens(suite: Suite) -> None:
    vector = vectors()[suite.ids]
    first = vector["encryptions"][0]
    ciphertext = HpkeCiphertext(1, bytes.fromhex(vector["enc"]), bytes.fromhex(first["ct"]))
    info, aad = bytes.fromhex(vector["info"]), bytes.fromhex(first["aad"])
    assert open_(recipient(vector), info, aad, ciphertext).hex() == first["pt"]


def library_functions() -> tuple[object, object, object]:
    """Return the library's suite and its two functions that take associated data."""
    internals = pytest.importorskip("cryptography.hazmat.bindings._rust").openssl.hpke
    names = ("_encrypt_with_aad", "_decrypt_with_aad")
    if missing := [name for name in names if not hasattr(internals, name)]:
        pytest.skip(f"this version of cryptography has no {' and no '.join(missing)}")
    suite = library.Suite(library.KEM.X25519, library.KDF.HKDF_SHA256, library.AEAD.AES_128_GCM)
    return suite, internals._encrypt_with_aad, internals._decrypt_with_aad


@pytest.mark.parametrize("size", [0, 1, 48, 3000])
def test_the_library_opens_what_we_seal_and_we_open_what_it_seals(size: int) -> None:
    suite, encrypt, decrypt = library_functions()
    assert callable(encrypt)
    assert callable(decrypt)
    keypair = generate_keypair(1, ScriptedEntropy(bytes(range(32))))
    private = X25519PrivateKey.from_private_bytes(keypair.private_key)
    public = X25519PublicKey.from_public_bytes(keypair.config.public_key)
    plaintext, info, aad = b"p" * size, b"info", b"aad"

    sealed = seal(keypair.config, info, aad, plaintext, ScriptedEntropy(b"\x42" * 32))
    assert decrypt(suite, sealed.enc + sealed.payload, private, info, aad) == plaintext

    theirs = encrypt(suite, plaintext, public, info, aad)
    ciphertext = HpkeCiphertext(1, theirs[:32], theirs[32:])
    assert open_(keypair, info, aad, ciphertext) == plaintext


@NAMES
@pytest.mark.parametrize("copies", [1, 9])
def test_the_published_ciphertext_opens_among_others(suite: Suite, copies: int) -> None:
    vector = vectors()[suite.ids]
    first = vector["encryptions"][0]
    opened = open_many(
        {1: recipient(vector)},
        bytes.fromhex(vector["info"]),
        [1] * copies,
        [bytes.fromhex(vector["enc"])] * copies,
        [bytes.fromhex(first["ct"])] * copies,
        [bytes.fromhex(first["aad"])] * copies,
    )
    assert opened == [bytes.fromhex(first["pt"])] * copies
