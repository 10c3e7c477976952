import pytest

from aggregator.dap.auth import (
    bearer_header,
    bearer_token,
    hash_token,
    new_token,
    presented_token,
    token_matches,
)
from tests.support.entropy import ScriptedEntropy


def test_a_token_is_256_random_bits_fit_for_a_header() -> None:
    token = new_token(ScriptedEntropy(bytes(range(32))))
    assert token == "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"  # noqa: S105 - a test's own
    assert bearer_token(bearer_header(token)) == token


def test_a_token_matches_its_own_hash_only() -> None:
    kept = hash_token("token")
    assert len(kept) == 32
    assert token_matches("token", [kept])
    assert not token_matches("Token", [kept])
    assert not token_matches("", [kept])
    assert not token_matches("token", [b""])
    assert not token_matches("tökén", [kept])


def test_any_of_several_tokens_matches_and_without_one_none_does() -> None:
    kept = [hash_token("old"), hash_token("new")]
    assert token_matches("old", kept)
    assert token_matches("new", kept)
    assert not token_matches("other", kept)
    assert not token_matches("old", [])


@pytest.mark.parametrize("header", ["Bearer abc", "bearer abc", "BEARER   abc", "Bearer abc "])
def test_the_scheme_is_read_in_any_case(header: str) -> None:
    assert bearer_token(header) == "abc"


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearerabc", "Bearer a b", "Bearer é"]
)
def test_any_other_header_is_no_token(header: str | None) -> None:
    assert bearer_token(header) is None


def test_an_empty_header_shows_no_token_even_if_the_empty_token_were_taken() -> None:
    assert presented_token({"dap-auth-token": ""}) is None
    assert presented_token({"authorization": ""}) is None
    assert presented_token({"dap-auth-token": "token"}) == "token"
