"""Which URLs a task may name: two, and plain HTTP only on this machine unless it is allowed.

A task whose answers are made up may name this machine only.
"""

import ipaddress
from typing import TYPE_CHECKING
from urllib.request import getproxies

from aggregator.dap.urls import read_endpoint
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.protocol.task import Task

_PROXIES = ("http", "https", "all")
_SCHEMES_OF_PROXIES = ("", "http", "https", "socks5", "socks5h")


def check_scheme(url: str, name: str, *, insecure_http: bool) -> None:
    """Refuse a URL if a token or a report would travel to it in the clear.

    Args:
        url: The URL.
        name: What the message calls it.
        insecure_http: Whether the operator allows it.

    Raises:
        ParameterError: It is not what `read_endpoint` reads, or is plain HTTP to another machine,
            and that is not allowed.
    """
    read = read_endpoint(url, name)
    if read.scheme == "https" or insecure_http or is_loopback(read.host):
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
    both = (read_endpoint(leader, "leader"), read_endpoint(helper, "helper"))
    places = {(each.origin, each.path.rstrip("/")) for each in both}
    if len(places) == 1:
        raise ParameterError(f"helper: {helper} is the leader's URL; name the other aggregator's")


def check_made_up(task: "Task", *, rehearses: bool) -> None:
    """Refuse made-up answers, except where one machine `rehearses`, and there all others.

    Raises:
        ParameterError: It is not what the party does; or an aggregator of a rehearsal is at another
            machine's address.
    """
    if task.is_made_up is not rehearses:
        raise ParameterError(
            "task_info: its answers are made up, and only `prio survey rehearse` adds such a task, "
            "on one machine"
            if task.is_made_up
            else "task_info: a rehearsal has no other tasks than those whose answers are made up"
        )
    if not rehearses:
        return
    configuration = task.configuration
    for name, url in (
        ("leader", configuration.leader_aggregator_endpoint),
        ("helper", configuration.helper_aggregator_endpoint),
    ):
        if not is_loopback(read_endpoint(url, name).host):
            raise ParameterError(
                f"{name}: {url} is not an address of this machine alone, such as 127.0.0.1, and "
                "made-up answers go nowhere else"
            )


def check_proxies() -> None:
    """Refuse a proxy in the environment whose URL our HTTP client would read in its own way.

    It may have a user and a password, and leave out its scheme.
    """
    for kind, url in getproxies().items():
        if kind not in _PROXIES or not url:
            continue
        scheme, _, rest = url.rpartition("://")
        scheme = "http" if scheme.lower() in _SCHEMES_OF_PROXIES else scheme
        read_endpoint(f"{scheme}://{rest.rpartition('@')[2]}", f"{kind.upper()}_PROXY")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
