"""Tokens, by which a Leader authenticates to a Helper and a Collector to a Leader.

The receiver keeps only a token's hash. A token is 256 random bits, so a plain hash reveals nothing
about it, and neither does the duration of a constant-time comparison.

Source: DAP, "Request Authentication"; RFC 6750, "Authorization Request Header Field".
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from enum import Enum
from re import ASCII, IGNORECASE
from re import compile as compile_pattern

from aggregator.dap.ids import encode_base64url
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError


class TokenHeader(Enum):
    """The header that carries a token; servers accept either."""

    AUTHORIZATION = "Authorization"
    DAP_AUTH_TOKEN = "DAP-Auth-Token"  # noqa: S105  a header's name
    """The header of early drafts, which some aggregators have kept."""

    def shows(self, token: str) -> dict[str, str]:
        """Return the header that shows `token`, its name in lower case."""
        is_bearer = self is TokenHeader.AUTHORIZATION
        return {self.value.lower(): bearer_header(token) if is_bearer else token}


def token_header_named(name: str) -> TokenHeader:
    """Return the header of this name, or raise `ParameterError`."""
    for header in TokenHeader:
        if header.value.lower() == name.lower():
            return header
    names = " or ".join(header.value for header in TokenHeader)
    raise ParameterError(f"token_header: must be {names}, not {name!r}")


TOKEN_SIZE = 32
"""Random bytes in a token."""
LEAST_CHARACTERS = 22
"""The shortest token that others may make: 128 random bits in base64url."""

_BEARER = compile_pattern(r"bearer +([A-Za-z0-9._~+/-]+=*) *", ASCII | IGNORECASE)


def new_token(entropy: Entropy) -> str:
    """Return a fresh token, 43 characters fit for a header."""
    return encode_base64url(entropy.bytes(TOKEN_SIZE))


def check_token(token: str, name: str) -> None:
    """Refuse, as `ParameterError` without the token, one that can be guessed or fits no header."""
    if len(token) < LEAST_CHARACTERS:
        raise ParameterError(
            f"{name}: must have at least {LEAST_CHARACTERS} characters, or it could be guessed"
        )
    if bearer_token(bearer_header(token)) != token:
        raise ParameterError(f"{name}: must be letters, digits and -._~+/ alone, then perhaps =")


def hash_token(token: str) -> bytes:
    """Return a token's SHA-256, which is all that is kept of it."""
    return hashlib.sha256(token.encode("utf-8")).digest()


def token_matches(token: str, token_hashes: Iterable[bytes]) -> bool:
    """Return whether the hash of `token` is among `token_hashes`.

    The duration depends only on how many hashes there are.
    """
    shown = hash_token(token)
    return any([hmac.compare_digest(shown, each) for each in token_hashes])  # noqa: C419  all of them


def presented_token(headers: Mapping[str, str]) -> str | None:
    """Return the token that a request shows, if any; `headers` have names in lower case."""
    authorization = headers.get("authorization")
    if authorization is None:
        return headers.get(TokenHeader.DAP_AUTH_TOKEN.value.lower()) or None  # none is empty
    return bearer_token(authorization)


def bearer_header(token: str) -> str:
    """Return the value of an `Authorization` header that shows `token`."""
    return f"Bearer {token}"


def bearer_token(authorization: str | None) -> str | None:
    """Return the token in the value of an `Authorization` header, if any."""
    match = _BEARER.fullmatch(authorization or "")
    return None if match is None else match[1]
