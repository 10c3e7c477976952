"""What a URL from outside may be made of, and what it names: the only place that reads one.

It lists what is allowed, not what is forbidden, so that all who read a URL (`urllib`, HTTP clients,
proxies, browsers, a page's content security policy) read the same host, port and path in it.

Percent-encoding is left out: it writes one path in several ways, and some programs read `%2e%2e` as
`..`. Nobody needs it to choose the path of an aggregator.

Source: RFC 3986, "Unreserved Characters" and "Host"; RFC 1035, "Size limits"; WHATWG, URL Standard,
"Host parsing"; RFC 5891, "Domain Name Lookup Protocol".
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from aggregator.errors import ParameterError

ALLOWED: Final = (
    "http:// or https://, a host of letters, digits, -, _ and . or an IPv6 address in brackets, "
    "perhaps a port from 1 to 65535, and perhaps a path of letters, digits, -, ., _, ~ and single /"
)

_PORTS: Final = {"http": 80, "https": 443}
_MAX_PORT: Final = 65_535

_LABEL = "[A-Za-z0-9_-]{1,63}"
_AUTHORITY = (
    rf"(https?)://(?:(?![A-Za-z0-9_.-]{{254}})({_LABEL}(?:\.{_LABEL})*\.?)|\[([0-9a-f:]+)\])"
    r"(?::([1-9][0-9]{0,4}))?"
)
_PATH = r"((?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~-]+)*/?)"
_PCHAR = r"[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}"
_PATH_AND_QUERY = rf"((?:/(?:{_PCHAR}|/)*)?(?:\?(?:{_PCHAR}|[/?])*)?)"
_ENDPOINT = re.compile(_AUTHORITY + _PATH)
_RESOURCE = re.compile(_AUTHORITY + _PATH_AND_QUERY)

_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label that makes browsers read the whole host as an IPv4 address."""

_ENCODED = "xn--"


@dataclass(frozen=True, slots=True)
class Url:
    """A URL that was read.

    Attributes:
        host: In lower case; an IPv6 address is without brackets and as short as can be.
        port: The scheme's own if none is written.
        path: As it is written, perhaps empty.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The host, and the port unless it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """The scheme, host and port, as browsers write an origin; a log may show it."""
        return f"{self.scheme}://{self.authority}"


def read_endpoint(url: str, name: str) -> Url:
    """Read the URL of a service, such as an aggregator's in a task; `name` is the field's.

    Raises `ParameterError`, which does not repeat the URL: it could hold a password.
    """
    return _read(_ENDPOINT, url, name, ALLOWED)


def read_resource(url: str, name: str) -> Url:
    """Read the URL of one resource elsewhere: its path may be encoded, and a query may follow.

    Raises `ParameterError`, which does not repeat the URL: its query could be a secret.
    """
    return _read(_RESOURCE, url, name, f"{ALLOWED}, or what RFC 3986 allows there and in a query")


def origin(endpoint: str) -> str:
    """Return the scheme, host and port of an endpoint, without its path; a log may show them."""
    return read_endpoint(endpoint, "endpoint").origin


def _read(pattern: re.Pattern[str], url: str, name: str, allowed: str) -> Url:
    found = pattern.fullmatch(url)
    if found is None:
        raise ParameterError(f"{name}: must be {allowed}")
    scheme, host, address, digits, path = found.groups()
    port = int(digits or _PORTS[scheme])
    if port > _MAX_PORT:
        raise ParameterError(f"{name}: must be {allowed}")
    return Url(scheme, _name(host, name) if host else _address(address, name), port, path)


def _name(host: str, field: str) -> str:
    host = host.lower()
    labels = host.removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]) and not _is_address(host):
        raise ParameterError(
            f"{field}: must have an IPv4 address in full, such as 192.0.2.1, or a host whose last "
            "part is no number"
        )
    if any(each.startswith(_ENCODED) for each in labels) and not _is_a_name(host):
        raise ParameterError(
            f"{field}: must have a host that is a name as IDNA writes it, if a part of it begins "
            f"with {_ENCODED}"
        )
    return host


def _is_address(host: str) -> bool:
    try:
        IPv4Address(host)
    except ValueError:
        return False
    return True


def _address(address: str, field: str) -> str:
    try:
        shortest = IPv6Address(address).compressed
    except ValueError:
        shortest = None
    if address != shortest:
        raise ParameterError(
            f"{field}: must have an IPv6 address in its brackets, in its shortest form, such as "
            "2001:db8::1"
        )
    return shortest


def _is_a_name(host: str) -> bool:
    """Return whether a host with labels of other scripts is written in the only way there is."""
    import idna  # only here: its tables are large

    try:
        return idna.encode(idna.decode(host)).decode() == host
    except idna.IDNAError:
        return False
