"""For whom a connection is, as far as that decides who gets a slot; never logged, never stored.

A proxy that we trust says in `X-Forwarded-For` for whom it asks: uvicorn's `FORWARDED_ALLOW_IPS`
names such proxies, by default those of this machine. What clients write there themselves stands
before what the proxy adds, and is not read.
"""

import ipaddress
from collections.abc import Iterable

_NETWORK = 64
"""An IPv6 customer has a network of so many bits at least, and any address in it."""


def is_trusted_proxy(peer: str, allowed: list[str] | str) -> bool:
    """Return whether the peer at an address may say for whom it asks."""
    names = allowed.split(",") if isinstance(allowed, str) else allowed
    return bool({peer, "*"} & {name.strip() for name in names})


def forwarded_for(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return for whom a trusted proxy asks; nothing if it does not say."""
    said = [value for name, value in headers if name.lower() == b"x-forwarded-for"]
    last = said[-1].rpartition(b",")[2].strip().decode("latin-1") if said else ""
    return sharing(last)


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
