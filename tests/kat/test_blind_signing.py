"""Our blinding and signing give the bytes of RFC 9474's vectors, and a library verifies them."""

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPrivateNumbers,
    RSAPublicNumbers,
    rsa_crt_dmp1,
    rsa_crt_dmq1,
    rsa_crt_iqmp,
)

from aggregator.entropy import SystemEntropy
from aggregator.errors import LocalError, ParameterError
from aggregator.protocol.blind_signing import blind, blind_sign, unblind
from aggregator.protocol.signed_permits import IssuerKeys, is_signed, signed_text
from tests.support.entropy import ScriptedEntropy

VECTOR: dict[str, str] = json.loads(
    (Path(__file__).parent / "data" / "permits" / "rfc9474.json").read_text("utf-8")
)
MODULUS = bytes.fromhex(VECTOR["n"])
MESSAGE, SALT = bytes.fromhex(VECTOR["msg"]), bytes.fromhex(VECTOR["salt"])


def key_of() -> RSAPrivateKey:
    p, q, n, e, d = (int(VECTOR[name], 16) for name in "pqned")
    crt = rsa_crt_dmp1(d, p), rsa_crt_dmq1(d, q), rsa_crt_iqmp(p, q)
    return RSAPrivateNumbers(p, q, d, *crt, RSAPublicNumbers(e, n)).private_key()


def test_a_message_is_blinded_signed_and_unblinded_as_in_the_rfc() -> None:
    n, inverse = int(VECTOR["n"], 16), int(VECTOR["inv"], 16)
    factor = pow(inverse, -1, n).to_bytes(512, "big")
    blinded = blind(MODULUS, MESSAGE, ScriptedEntropy(SALT + factor))
    assert blinded.sent.hex() == VECTOR["blinded_msg"]
    assert blinded.inverse.hex() == VECTOR["inv"].zfill(1024)
    answer = blind_sign(key_of(), blinded.sent, SystemEntropy())
    assert answer.hex() == VECTOR["blind_sig"]
    signature = unblind(MODULUS, answer, blinded.inverse)
    assert signature.hex() == VECTOR["sig"]
    assert is_signed(MODULUS, MESSAGE, signature)
    assert not is_signed(MODULUS, MESSAGE + b"?", signature)
    assert not is_signed(MODULUS, MESSAGE, signature[:-1] + bytes([signature[-1] ^ 1]))


def test_what_is_no_blinded_message_is_not_signed() -> None:
    with pytest.raises(ParameterError, match="must be 512 bytes, not 511"):
        blind_sign(key_of(), bytes(511), SystemEntropy())
    with pytest.raises(ParameterError, match="below the key's modulus"):
        blind_sign(key_of(), MODULUS, SystemEntropy())


def test_a_signature_that_came_out_wrong_is_not_given_out() -> None:
    p, q, n, e, d = (int(VECTOR[name], 16) for name in "pqned")

    class Faulty:
        """A key in whose one half a bit has changed."""

        def private_numbers(self) -> RSAPrivateNumbers:
            crt = rsa_crt_dmp1(d, p) ^ 2, rsa_crt_dmq1(d, q), rsa_crt_iqmp(p, q)
            return RSAPrivateNumbers(p, q, d, *crt, RSAPublicNumbers(e, n))

    faulty: RSAPrivateKey = Faulty()  # type: ignore[assignment]  # all that is asked of it
    with pytest.raises(LocalError, match="came out wrong"):
        blind_sign(faulty, bytes.fromhex(VECTOR["blinded_msg"]), SystemEntropy())


def test_a_key_that_shares_a_factor_with_a_message_is_refused() -> None:
    even = b"\x80" + bytes(254) + b"\x02"  # as is every encoding of a message
    with pytest.raises(ParameterError, match="factor in common"):
        blind(even, MESSAGE, SystemEntropy())


def test_the_digest_of_keys_and_the_text_that_is_signed() -> None:
    """Ours, as `permits.json` has the rest of a permit."""
    moduli = b"\xc0" + bytes(254) + b"\x01", b"\xd0" + bytes(254) + b"\x03"
    digest = "1df2ce2ff2516664f99d20648cf9ec2fa597f2b2e19f5b66dfb0356eb36b6a3b"
    assert IssuerKeys(21, moduli).digest.hex() == digest
    domain, report_id = bytes(range(32)), bytes.fromhex("9f3f98e7004ad6542d464f8d9f616da2")
    text = "7072696f207065726d6974207369676e6564" + domain.hex() + "0000000000000015"
    assert signed_text(domain, 21, report_id).hex() == text + report_id.hex()
