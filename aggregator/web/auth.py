"""Authenticates a request by its bearer token.

Source: DAP, "Request Authentication"; RFC 6750, "Authorization Request Header Field".
"""

from fastapi import Request

from aggregator.dap.auth import HASH_SIZE, bearer_token, token_matches
from aggregator.dap.problems import Unauthorized


def require_token(request: Request, token_hash: bytes | None) -> None:
    """Refuse a request that does not carry the token with this hash.

    Args:
        request: The request.
        token_hash: SHA-256 of the token; None accepts no token, with the same work and the same
            answer as for a wrong one.

    Raises:
        Unauthorized: The token is missing or wrong.
    """
    token = bearer_token(request.headers.get("authorization"))
    if token is None:
        raise Unauthorized("a bearer token is required")
    # As far as anybody knows, no token has the hash zero.
    if not token_matches(token, bytes(HASH_SIZE) if token_hash is None else token_hash):
        raise Unauthorized("the bearer token is not the one for this resource")
