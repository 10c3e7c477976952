"""Checks which site a request is for, and which site's page it comes from.

A page in somebody's browser can give our address a name of its own site, and then read what we
answer under that name (DNS rebinding). It cannot do so with an IP address, and a browser always
sends the `Host`.
"""

import ipaddress
from collections.abc import Set as AbstractSet
from urllib.parse import urlsplit

from fastapi import Request, status
from starlette.exceptions import HTTPException

_PORTS = {"http": 80, "https": 443}


def check_site(request: Request, hosts: AbstractSet[str], *, any_address: bool = False) -> None:
    """Refuse a request for a host that is not ours, or from a page of another origin.

    Args:
        request: The request.
        hosts: The names that we answer to, lower case.
        any_address: Whether we also answer to any IP address and, as in HTTP/1.0, without a name:
            that is how a network's probes and monitors call us.

    Raises:
        HTTPException: 421 for a foreign `Host`, 403 for a foreign `Origin`.
    """
    header = request.headers.get("host")
    host = _host_of(f"//{header or ''}")
    if host not in hosts and not (any_address and (header is None or _is_address(host))):
        raise HTTPException(status.HTTP_421_MISDIRECTED_REQUEST, "This host is not served here")
    origin = request.headers.get("origin")
    if origin is not None and not (
        _host_of(origin) in {*hosts, host} - {None}
        and _port_of(origin, origin) == _port_of(f"//{header or ''}", origin)
    ):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Pages of this origin are not answered")


def _host_of(url: str) -> str | None:
    """Return the host in a header's URL; None if it is no URL."""
    try:
        return urlsplit(url).hostname
    except ValueError:  # such as for an unclosed bracket
        return None


def _port_of(url: str, origin: str) -> int | None:
    """Return the port in a URL, or else the default port of the origin's scheme."""
    try:
        return urlsplit(url).port or _PORTS.get(urlsplit(origin).scheme)
    except ValueError:  # such as for a port above 65535
        return None


def is_of_another_site(request: Request) -> bool:
    """Return whether a browser says that a page of another site made this request.

    It does not count an address that was typed; old browsers and programs say nothing.
    """
    return request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}


def _is_address(host: str | None) -> bool:
    try:
        ipaddress.ip_address(host or "")
    except ValueError:
        return False
    return True
