"""Which site a request is for, and from pages of which site it comes."""

from collections.abc import Set as AbstractSet
from urllib.parse import urlsplit

from fastapi import Request, status
from starlette.exceptions import HTTPException


def check_site(request: Request, hosts: AbstractSet[str]) -> None:
    """Refuse a request for a host that is not ours, or from a page of another origin.

    Raises:
        HTTPException: 421 for a foreign `Host`, 403 for a foreign `Origin`.
    """
    host = request.headers.get("host", "")
    if _host_of(f"//{host}") not in hosts:
        raise HTTPException(status.HTTP_421_MISDIRECTED_REQUEST, "This host is not served here")
    origin = request.headers.get("origin")
    if origin is not None and _host_of(origin) not in hosts:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Pages of this origin are not answered")


def _host_of(url: str) -> str | None:
    """Return the host that a header's URL names, if it is one."""
    try:
        return urlsplit(url).hostname
    except ValueError:  # as of a bracket that is not closed
        return None
