import dataclasses
import pickle
from contextlib import suppress

import pytest

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.hpke import (
    DecryptError,
    HpkeCiphertext,
    HpkeConfig,
    HpkeConfigList,
    HpkeKeypair,
    aggregate_share_info,
    generate_keypair,
    input_share_info,
    open_,
    seal,
)
from aggregator.dap.hpke_suites import NAMED, SUITES, Suite
from aggregator.dap.profile import DAP_18, Role
from aggregator.errors import ParameterError
from tests.support.entropy import ScriptedEntropy

KEYPAIR = generate_keypair(7, ScriptedEntropy(b"\x11" * 32))
OTHER_KEYPAIR = generate_keypair(8, ScriptedEntropy(b"\x22" * 32))
INFO = input_share_info(DAP_18.tag, Role.HELPER)
SEALED = seal(KEYPAIR.config, INFO, b"aad", b"plaintext", ScriptedEntropy(b"\x33" * 32))


def test_info_strings_name_the_draft_the_use_the_sender_and_the_recipient() -> None:
    assert input_share_info(DAP_18.tag, Role.LEADER) == b"dap-18 input share\x01\x02"
    assert input_share_info(DAP_18.tag, Role.HELPER) == b"dap-18 input share\x01\x03"
    assert aggregate_share_info(DAP_18.tag, Role.LEADER) == b"dap-18 aggregate share\x02\x00"
    assert aggregate_share_info(DAP_18.tag, Role.HELPER) == b"dap-18 aggregate share\x03\x00"


def test_what_is_sealed_opens() -> None:
    assert SEALED.config_id == 7
    assert len(SEALED.enc) == 32
    assert len(SEALED.payload) == len(b"plaintext") + 16
    assert open_(KEYPAIR, INFO, b"aad", SEALED) == b"plaintext"


@pytest.mark.parametrize(
    ("keypair", "info", "aad", "ciphertext"),
    [
        (OTHER_KEYPAIR, INFO, b"aad", SEALED),
        (KEYPAIR, input_share_info(DAP_18.tag, Role.LEADER), b"aad", SEALED),
        (KEYPAIR, INFO, b"bad", SEALED),
        (KEYPAIR, INFO, b"aad", HpkeCiphertext(7, SEALED.enc, SEALED.payload[:-1])),
        (KEYPAIR, INFO, b"aad", HpkeCiphertext(7, SEALED.enc, SEALED.payload + b"\0")),
        (KEYPAIR, INFO, b"aad", HpkeCiphertext(7, SEALED.enc, b"short")),
        (KEYPAIR, INFO, b"aad", HpkeCiphertext(7, SEALED.enc[:-1], SEALED.payload)),
        (KEYPAIR, INFO, b"aad", HpkeCiphertext(7, SEALED.enc + b"\0", SEALED.payload)),
        (KEYPAIR, INFO, b"aad", HpkeCiphertext(7, bytes(32), SEALED.payload)),
        (KEYPAIR, INFO, b"aad", HpkeCiphertext(7, b"\1" + bytes(31), SEALED.payload)),
    ],
    ids=[
        "another key",
        "another info",
        "another aad",
        "payload cut",
        "payload longer",
        "payload shorter than a tag",
        "enc cut",
        "enc longer",
        "enc zero",
        "enc of small order",
    ],
)
def test_anything_else_is_rejected_as_one_report(
    keypair: HpkeKeypair, info: bytes, aad: bytes, ciphertext: HpkeCiphertext
) -> None:
    with pytest.raises(DecryptError):
        open_(keypair, info, aad, ciphertext)


P256_KEYPAIR = generate_keypair(9, ScriptedEntropy(b"\x44" * 32), NAMED["P-256/AES-256-GCM"])
P256_SEALED = seal(P256_KEYPAIR.config, INFO, b"aad", b"plaintext", ScriptedEntropy(b"\x55" * 32))
POINT = P256_SEALED.enc


@pytest.mark.parametrize(
    "enc",
    [
        bytes((2 + POINT[64] % 2,)) + POINT[1:33],
        bytes((6 + POINT[64] % 2,)) + POINT[1:],
        b"\0",
        bytes(65),
        b"\4" + bytes(64),
        POINT[:64] + bytes((POINT[64] ^ 1,)),
        SEALED.enc,
    ],
    ids=["compressed", "hybrid", "infinity", "zeros", "zero point", "off the curve", "X25519's"],
)
def test_only_a_point_in_its_one_form_is_an_encapsulated_key_of_p256(enc: bytes) -> None:
    assert open_(P256_KEYPAIR, INFO, b"aad", P256_SEALED) == b"plaintext"
    with pytest.raises(DecryptError):
        open_(P256_KEYPAIR, INFO, b"aad", HpkeCiphertext(9, enc, P256_SEALED.payload))


@pytest.mark.parametrize("drawn", [bytes(32), b"\xff" * 32])
def test_what_is_no_private_key_of_p256_is_drawn_again(drawn: bytes) -> None:
    suite = P256_KEYPAIR.config.suite_ids
    made = generate_keypair(9, ScriptedEntropy(drawn + b"\x44" * 32), SUITES[suite])
    assert made == P256_KEYPAIR
    with pytest.raises(ParameterError, match="HPKE private_key is none"):
        HpkeKeypair(P256_KEYPAIR.config, drawn)


@pytest.mark.parametrize("index", range(len(SEALED.payload)))
def test_a_flipped_bit_anywhere_in_the_payload_is_found(index: int) -> None:
    payload = bytearray(SEALED.payload)
    payload[index] ^= 1
    with pytest.raises(DecryptError):
        open_(KEYPAIR, INFO, b"aad", HpkeCiphertext(7, SEALED.enc, bytes(payload)))


def test_a_private_key_is_not_in_the_repr() -> None:
    shown = repr(KEYPAIR)
    assert "public_key" in shown
    assert "private" not in shown
    assert repr(KEYPAIR.private_key) not in shown


def test_a_keypair_survives_pickling_for_a_worker_process() -> None:
    copy = pickle.loads(pickle.dumps(KEYPAIR))  # noqa: S301 - our own bytes
    assert copy == KEYPAIR
    assert open_(copy, INFO, b"aad", SEALED) == b"plaintext"


def test_keys_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ParameterError, match="not that of configuration 8"):
        HpkeKeypair(OTHER_KEYPAIR.config, KEYPAIR.private_key)
    with pytest.raises(ParameterError, match="private_key must be 32 bytes long, not 31"):
        HpkeKeypair(KEYPAIR.config, bytes(31))


@pytest.mark.parametrize(
    "changes", [{"kem_id": 0x0010}, {"kdf_id": 2}, {"aead_id": 4}, {"public_key": bytes(31)}]
)
def test_a_configuration_we_do_not_support_is_refused(changes: dict[str, int | bytes]) -> None:
    config = dataclasses.replace(KEYPAIR.config, **changes)  # type: ignore[arg-type]  # any field
    assert not config.is_supported
    with pytest.raises(ParameterError, match="HPKE configuration 7 is not supported"):
        seal(config, INFO, b"", b"", ScriptedEntropy(b"\x33" * 32))


def test_sealing_to_a_point_of_small_order_is_refused() -> None:
    config = dataclasses.replace(KEYPAIR.config, public_key=bytes(32))
    with pytest.raises(ParameterError, match="public key of HPKE configuration 7 is unusable"):
        seal(config, INFO, b"", b"", ScriptedEntropy(b"\x33" * 32))


def test_the_first_supported_configuration_is_preferred() -> None:
    unknown = HpkeConfig(1, 0x0012, 1, 3, b"point")
    configs = HpkeConfigList((unknown, OTHER_KEYPAIR.config, KEYPAIR.config))
    assert decode(HpkeConfigList, encode(configs)).preferred() == OTHER_KEYPAIR.config
    with pytest.raises(DecodeError, match="none of 1 HPKE configurations"):
        HpkeConfigList((unknown,)).preferred()


@pytest.mark.parametrize("sealed_by", SUITES.values(), ids=lambda suite: suite.name)
def test_what_is_sealed_under_one_suite_opens_under_no_other_with_the_same_key(
    sealed_by: Suite,
) -> None:
    """Or somebody on the way, who can change the label, chooses how it is read."""
    made = generate_keypair(7, ScriptedEntropy(b"\x11" * 32), sealed_by)
    sealed = seal(made.config, INFO, b"aad", b"plaintext", ScriptedEntropy(b"\x33" * 32))
    opened = []
    for suite in SUITES.values():
        keypair = generate_keypair(7, ScriptedEntropy(b"\x11" * 32), suite)
        assert keypair.private_key == made.private_key
        with suppress(DecryptError):
            open_(keypair, INFO, b"aad", sealed)
            opened.append(suite)
    assert opened == [sealed_by]


def test_a_key_that_is_listed_under_another_kem_is_passed_over_and_not_sealed_to() -> None:
    """Or a wrong entry before a good one would have a client send nothing."""
    x25519, p256 = KEYPAIR.config, P256_KEYPAIR.config
    wrong = (
        dataclasses.replace(x25519, id=1, kem_id=p256.kem_id),
        dataclasses.replace(p256, id=2, kem_id=x25519.kem_id),
    )
    configs = HpkeConfigList((*wrong, x25519))
    assert decode(HpkeConfigList, encode(configs)).preferred() == x25519


def test_a_list_with_an_id_twice_is_refused() -> None:
    twice = HpkeConfigList((KEYPAIR.config, KEYPAIR.config))
    with pytest.raises(DecodeError, match="the same id"):
        decode(HpkeConfigList, encode(twice))


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(DecodeError, match="at least 10 bytes expected, 0 given"):
        decode(HpkeConfigList, b"\0\0")
