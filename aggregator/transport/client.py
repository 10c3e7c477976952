"""The HTTP client that our processes speak to others with: whom it reaches, and by which way.

Tokens travel in its requests, so it sends nothing over plain HTTP but to this machine, and it uses
no proxy that merely stands in the environment, unless the operator says so.
"""

import ipaddress

import httpx

from aggregator.errors import ParameterError

CONNECT_SECONDS = 10


def open_client(
    timeout_seconds: float, *, insecure_http: bool = False, environment_proxy: bool = False
) -> httpx.AsyncClient:
    """Return a client.

    Args:
        timeout_seconds: How long one answer may take.
        insecure_http: Whether it may speak plain HTTP to other machines.
        environment_proxy: Whether it uses the proxies of `HTTPS_PROXY` and the like.
    """

    async def refuse(request: httpx.Request) -> None:
        check_scheme(str(request.url), "endpoint", insecure_http=insecure_http)

    return httpx.AsyncClient(
        timeout=httpx.Timeout(timeout_seconds, connect=CONNECT_SECONDS),
        # Certificate authorities of the operator's own (SSL_CERT_FILE) are no proxy.
        verify=httpx.create_ssl_context(trust_env=True),
        trust_env=environment_proxy,
        event_hooks={"request": [refuse]},
    )


def check_scheme(url: str, name: str, *, insecure_http: bool) -> None:
    """Refuse a URL that a token or a report would travel to in the clear.

    Args:
        url: Where it would travel to.
        name: What the message calls it.
        insecure_http: Whether the operator allows it.

    Raises:
        ParameterError: It is plain HTTP to another machine, and that is not allowed.
    """
    parsed = httpx.URL(url)
    if parsed.scheme == "https" or insecure_http or is_loopback(parsed.host):
        return
    raise ParameterError(
        f"{name}: {url} is plain HTTP to another machine; name an https:// URL, or allow it by "
        "insecure_http (--insecure-http, PRIO_INSECURE_HTTP)"
    )


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
