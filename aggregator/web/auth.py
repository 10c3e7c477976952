"""Who is asking: a bearer token to the role that it was given to.

Source: DAP, "Request Authentication"; RFC 6750, "Authorization Request Header Field".
"""

from fastapi import Request

from aggregator.dap.auth import HASH_SIZE, bearer_token, token_matches
from aggregator.dap.problems import Unauthorized


def require_token(request: Request, token_hash: bytes | None) -> None:
    """Refuse a request that does not carry the token with this hash.

    Args:
        request: The request.
        token_hash: SHA-256 of the token; None where there is none, so none fits. The work is the
            same, and so is the answer.

    Raises:
        Unauthorized: There is no token, or another one.
    """
    token = bearer_token(request.headers.get("authorization"))
    if token is None:
        raise Unauthorized("a bearer token is required")
    # No hash is all zeros, as far as anybody can tell.
    if not token_matches(token, bytes(HASH_SIZE) if token_hash is None else token_hash):
        raise Unauthorized("the bearer token is not the one for this resource")
