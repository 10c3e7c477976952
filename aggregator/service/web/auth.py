"""Authenticates a request by its token.

Source: DAP, "Request Authentication"; RFC 6750, "Authorization Request Header Field".
"""

from collections.abc import Sequence

from fastapi import Request

from aggregator.dap.auth import presented_token, token_matches
from aggregator.dap.problems import Unauthorized
from aggregator.service.web.connections import CALLER_KNOWN, UNCERTIFIED


def require_token(request: Request, token_hashes: Sequence[bytes]) -> None:
    """Refuse a request as `check_token` does, or note that its caller is known."""
    check_token(request, token_hashes)
    note_known(request)


def note_known(request: Request) -> None:
    """Tell the connection that its caller has shown a valid token; only in the event loop."""
    if CALLER_KNOWN in request.scope:
        request.scope[CALLER_KNOWN]()


def check_token(request: Request, token_hashes: Sequence[bytes]) -> None:
    """Refuse a request that does not carry a token with one of these hashes.

    Args:
        request: The request.
        token_hashes: SHA-256 of each accepted token; if there is none, the answer is the same as
            for a wrong token.

    Raises:
        Unauthorized: The token is missing or wrong, or a required certificate is missing.
    """
    if request.scope.get(UNCERTIFIED):
        raise Unauthorized("it shows no certificate")
    token = presented_token(request.headers)
    if token is None:
        raise Unauthorized("it shows no token")
    if not token_matches(token, token_hashes):
        raise Unauthorized("its token is not one that opens this resource")
