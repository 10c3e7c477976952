"""Which URLs a task may name: two, and plain HTTP only on this machine unless it is allowed."""

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aggregator.dap.resources import names_host, origin
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.protocol.task import Task


def check_scheme(url: str, name: str, *, insecure_http: bool) -> None:
    """Refuse a URL if a token or a report would travel to it in the clear.

    Args:
        url: The URL.
        name: What the message calls it.
        insecure_http: Whether the operator allows it.

    Raises:
        ParameterError: It names no host, or is plain HTTP to another machine, and that is
            not allowed.
    """
    if not (url.isprintable() and names_host(url)):
        raise ParameterError(f"{name}: {url} must name a host, and a port up to 65535 if any")
    parts = urlsplit(url)
    if parts.scheme == "https" or insecure_http or is_loopback(parts.hostname or ""):
        return
    raise ParameterError(
        f"{name}: {url} is plain HTTP to another machine; name an https:// URL, or allow it by "
        "insecure_http (--insecure-http, PRIO_INSECURE_HTTP)"
    )


def check_endpoints(task: "Task", *, insecure_http: bool) -> None:
    """Refuse a task of one aggregator, or whose reports and tokens would travel in the clear.

    Raises:
        ParameterError: Leader and helper have one URL; or see `check_scheme`.
    """
    leader = task.configuration.leader_aggregator_endpoint
    helper = task.configuration.helper_aggregator_endpoint
    check_scheme(leader, "leader", insecure_http=insecure_http)
    check_scheme(helper, "helper", insecure_http=insecure_http)
    places = {(origin(url), urlsplit(url).path.rstrip("/")) for url in (leader, helper)}
    if len(places) == 1:
        raise ParameterError(f"helper: {helper} is the leader's URL; name the other aggregator's")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
