"""The client's address, used only to share out connection slots; never logged, never stored.

A trusted proxy names its client in `X-Forwarded-For`. uvicorn's `FORWARDED_ALLOW_IPS` lists trusted
proxies by address, by network (10.0.0.0/8) or, if they have no address, by name; by default, those
of this machine. What clients write into the header themselves stands before what the proxy adds,
and is ignored.
"""

import dataclasses
import ipaddress
from collections.abc import Iterable
from functools import lru_cache

_NETWORK = 64
"""The prefix length by which IPv6 addresses are grouped: a customer has a whole /64 or more."""

_MAPPED = 96
"""The prefix length before an IPv4 address that is written as an IPv6 address."""


def is_trusted_proxy(peer: str, allowed: list[str] | str) -> bool:
    """Return whether the peer at an address is trusted to name its client."""
    names = allowed.split(",") if isinstance(allowed, str) else allowed
    proxies = _proxies(tuple(name.strip() for name in names))
    address = _network(peer)
    if proxies.everybody or address is None:
        return proxies.everybody or peer in proxies.names
    return any(
        each.version == address.version and address.subnet_of(each)  # type: ignore[arg-type]  # same version
        for each in proxies.networks
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Proxies:
    everybody: bool
    networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network]
    names: set[str]


@lru_cache
def _proxies(names: tuple[str, ...]) -> _Proxies:
    found = {name: _network(name) for name in names}
    networks = [each for each in found.values() if each is not None]
    return _Proxies(
        "*" in found, networks, {name for name, each in found.items() if name and each is None}
    )


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Parse an address or a network; return None if it is neither.

    An IPv4 client of a dual-stack listener has an IPv6 address, in `::ffff:0:0/96`.
    """
    try:
        found = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    mapped = getattr(found.network_address, "ipv4_mapped", None)
    if mapped is None or found.prefixlen < _MAPPED:
        return found
    return ipaddress.ip_network((mapped, found.prefixlen - _MAPPED))


def forwarded_for(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the client that a trusted proxy names; empty if it names none."""
    said = [value for name, value in headers if name.lower() == b"x-forwarded-for"]
    if not said:
        return ""
    return sharing(_without_port(said[-1].rpartition(b",")[2].strip().decode("latin-1")))


def _without_port(said: str) -> str:
    """Return an address without the port that some proxies add, which differs at each request."""
    if said.startswith("["):
        return said[1:].partition("]")[0]
    return said.partition(":")[0] if said.count(":") == 1 else said


def sharing(address: str) -> str:
    """Return the key of the group of addresses that share their slots."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped:  # an IPv4 client of a dual-stack listener: all of these are in one /64
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _NETWORK), strict=False))
