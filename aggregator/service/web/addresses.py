"""For whom a connection is, as far as that decides who gets a slot; never logged, never stored.

A proxy that we trust says in `X-Forwarded-For` for whom it asks: uvicorn's `FORWARDED_ALLOW_IPS`
names such proxies by their addresses, networks (10.0.0.0/8) or, where they have no address, their
names; by default those of this machine. What clients write there themselves stands
before what the proxy adds, and is not read.
"""

import dataclasses
import ipaddress
from collections.abc import Iterable
from functools import lru_cache

_NETWORK = 64
"""An IPv6 customer has a network of so many bits at least, and any address in it."""

_MAPPED = 96
"""So many bits stand before an IPv4 address that is written as an IPv6 address."""


def is_trusted_proxy(peer: str, allowed: list[str] | str) -> bool:
    """Return whether the peer at an address may say for whom it asks."""
    names = allowed.split(",") if isinstance(allowed, str) else allowed
    proxies = _proxies(tuple(name.strip() for name in names))
    address = _network(peer)
    if proxies.everybody or address is None:
        return proxies.everybody or peer in proxies.names
    return any(
        each.version == address.version and address.subnet_of(each)  # type: ignore[arg-type]  # alike
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
    """Return an address or a network; None if it is neither.

    An IPv4 client of a listener for both kinds has an IPv6 address, from `::ffff:0:0/96`.
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
    """Return for whom a trusted proxy asks; nothing if it does not say."""
    said = [value for name, value in headers if name.lower() == b"x-forwarded-for"]
    last = said[-1].rpartition(b",")[2].strip().decode("latin-1") if said else ""
    return sharing(_without_port(last))


def _without_port(said: str) -> str:
    """Return an address without the port that some proxies add: it would be new at each request."""
    if said.startswith("["):
        return said[1:].partition("]")[0]
    return said.partition(":")[0] if said.count(":") == 1 else said


def sharing(address: str) -> str:
    """Return what all addresses have in common that share their slots."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped:  # an IPv4 client of a listener for both: all of them are in one /64
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _NETWORK), strict=False))
