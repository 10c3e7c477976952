import pytest

from aggregator.entropy import SystemEntropy
from aggregator.errors import ConfigurationError
from aggregator.service.storage.secrets.crypter import Crypter, CrypterError, new_store_key

KEY, OTHER = bytes(32), b"\1" * 32


def test_what_was_encrypted_decrypts_in_its_place() -> None:
    stored = Crypter([KEY]).encrypt("tasks", b"row", "verify_key", b"secret")
    assert b"secret" not in stored
    assert Crypter([KEY]).decrypt("tasks", b"row", "verify_key", stored) == b"secret"


@pytest.mark.parametrize(
    "place",
    [
        ("hpke_keys", b"row", "verify_key"),
        ("tasks", b"raw", "verify_key"),
        ("tasks", b"row", "peer_token"),
        ("tasksr", b"ow", "verify_key"),
    ],
)
def test_a_ciphertext_moved_elsewhere_does_not_decrypt(place: tuple[str, bytes, str]) -> None:
    stored = Crypter([KEY]).encrypt("tasks", b"row", "verify_key", b"secret")
    with pytest.raises(CrypterError, match="changed or moved"):
        Crypter([KEY]).decrypt(*place, stored)


@pytest.mark.parametrize("index", [4, 16, -1])
def test_a_flipped_bit_of_nonce_ciphertext_or_tag_is_found(index: int) -> None:
    stored = bytearray(Crypter([KEY]).encrypt("tasks", b"row", "verify_key", b"secret"))
    stored[index] ^= 1
    with pytest.raises(CrypterError):
        Crypter([KEY]).decrypt("tasks", b"row", "verify_key", bytes(stored))


def test_the_first_key_encrypts_and_all_decrypt() -> None:
    old = Crypter([KEY]).encrypt("tasks", b"row", "verify_key", b"secret")
    both = Crypter([OTHER, KEY])
    new = both.encrypt("tasks", b"row", "verify_key", b"secret")
    assert both.decrypt("tasks", b"row", "verify_key", old) == b"secret"
    assert Crypter([OTHER]).decrypt("tasks", b"row", "verify_key", new) == b"secret"


def test_a_missing_key_is_told_from_a_changed_value() -> None:
    stored = Crypter([KEY]).encrypt("tasks", b"row", "verify_key", b"secret")
    with pytest.raises(CrypterError, match="not in the list"):
        Crypter([OTHER]).decrypt("tasks", b"row", "verify_key", stored)


def test_a_truncated_value_is_refused() -> None:
    with pytest.raises(CrypterError, match="too short"):
        Crypter([KEY]).decrypt("tasks", b"row", "verify_key", bytes(31))


def test_keys_are_parsed_from_text_and_never_shown() -> None:
    text = new_store_key(SystemEntropy())
    crypter = Crypter.parse(f"{text}, {new_store_key(SystemEntropy())}")
    stored = Crypter.parse(text).encrypt("tasks", b"row", "verify_key", b"secret")
    assert crypter.decrypt("tasks", b"row", "verify_key", stored) == b"secret"
    assert repr(crypter) == "Crypter(2 keys)"


@pytest.mark.parametrize("text", ["", "AAAA", "not!base64", "é"])
def test_bad_store_keys_are_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Crypter.parse(text)
    assert not text or text not in str(caught.value)
