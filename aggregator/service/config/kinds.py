"""The kinds of values that settings have: what each accepts, and why it refuses the rest."""

import os
import re
from collections.abc import Callable
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, HttpUrl, SecretStr, ValidationInfo

from aggregator.dap.auth import LEAST_CHARACTERS
from aggregator.dap.hpke_suites import NAMED
from aggregator.dap.urls import Url, read_endpoint, read_resource
from aggregator.dp.rationals import parse_rational
from aggregator.errors import ParameterError
from aggregator.protocol.requirements import parse_max_delta, parse_populations
from aggregator.written_times import zone_named

BUCKETS = frozenset({"s3", "gs", "az"})
"""The URL schemes of buckets."""

_FOLDER = re.compile(r"file:///(?:[A-Za-z0-9._~/-]|%[0-9A-Fa-f]{2})*")
_BUCKET = re.compile(
    rf"(?:{'|'.join(sorted(BUCKETS))})://[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9._~-]*)*"
)

_ENDPOINTS: Final = MappingProxyType(
    {
        "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    }
)
"""The variables with a bucket's address, by the scheme of its URL, as `obstore` reads them."""

_NUMBER = re.compile(r"[-+0-9.,/eE ]*")
"""What a number could be meant by."""

MAX_SECONDS = 365 * 86_400
"""The greatest value of a setting in seconds."""


def _address(value: object) -> object:
    """Check `host:port`; an IPv6 host is in brackets."""
    if isinstance(value, str):
        host, _, port = value.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 - the largest port
            raise ValueError("must be host:port, such as 127.0.0.1:8001")
    return value


def _url(read: Callable[[str, str], Url]) -> BeforeValidator:
    """Check what is written, before pydantic writes it in another way; empty text is no URL."""

    def check(value: object) -> object:
        if isinstance(value, str) and value:
            try:
                read(value, "")
            except ParameterError as error:
                raise ValueError(str(error).removeprefix(": ")) from None
        return value or None

    return BeforeValidator(check)


def _rational(parse: Callable[[object, str], Fraction]) -> BeforeValidator:
    """Read an exact rational from text; a float is refused."""

    def read(value: object, info: ValidationInfo) -> object:
        if value is None or isinstance(value, Fraction):
            return value
        if isinstance(value, str) and not _NUMBER.fullmatch(value):  # could be a secret (`faults`)
            raise ValueError('must be a rational as text, such as "1/10" or "0.1"')
        try:
            return parse(value, str(info.field_name))
        except ParameterError as error:
            raise ValueError(str(error)) from error

    return BeforeValidator(read)


def _not_guessed(token: SecretStr) -> SecretStr:
    if len(token.get_secret_value()) < LEAST_CHARACTERS:
        raise ValueError(
            f"must have at least {LEAST_CHARACTERS} characters, or it could be guessed"
        )
    return token


def _suites(value: str) -> str:
    names = [name.strip() for name in value.split(",")]
    for place, name in enumerate(names, 1):
        if name not in NAMED:  # not repeated: it could be a secret (`faults`)
            raise ValueError(
                f"must be suites joined by commas, and suite {place} is none of {', '.join(NAMED)}"
            )
    if len({*names}) < len(names):
        raise ValueError("names a suite twice; keep one")
    return value


def _each_named(text: str) -> str:
    try:
        parse_populations(text, "")
    except ParameterError as error:
        raise ValueError(str(error).removeprefix(": ")) from None
    return text


def _object_storage(url: str) -> str:
    if {*"@?#"} & {*url}:
        raise ValueError("must have no user, password, ? or #: credentials are in the environment")
    if not (_FOLDER.fullmatch(url) or _BUCKET.fullmatch(url)):
        raise ValueError(
            "must be file:///folder, or s3://, gs:// or az://bucket/folder, of letters, digits, "
            "-, ., _, ~ and /; what else the name of a folder on this machine has is "
            "percent-encoded"
        )
    for name in _ENDPOINTS.get(url.partition(":")[0], ()):
        if os.environ.get(name):
            try:
                read_endpoint(os.environ[name], name)
            except ParameterError as error:
                raise ValueError(f"needs another {error}") from None
    return url


def _time_zone(name: str) -> str:
    try:
        zone_named(name, "")
    except ParameterError:  # not repeated: it could be a secret (`faults`)
        raise ValueError(
            "must be the name of a time zone that this machine knows, such as Europe/Berlin"
        ) from None
    return name


Address = Annotated[str, BeforeValidator(_address)]
ObjectStorage = Annotated[str, AfterValidator(_object_storage)]
Suites = Annotated[str, AfterValidator(_suites)]
OptionalAddress = Annotated[Address | None, BeforeValidator(lambda value: value or None)]
OptionalUrl = Annotated[HttpUrl | None, _url(read_endpoint)]
OptionalResource = Annotated[HttpUrl | None, _url(read_resource)]
Rational = Annotated[Fraction, _rational(parse_rational)]
TimeZone = Annotated[str, AfterValidator(_time_zone)]
Token = Annotated[SecretStr, AfterValidator(_not_guessed)]
MaxDelta = Annotated[Fraction, _rational(parse_max_delta)]
Populations = Annotated[str, AfterValidator(_each_named)]
Seconds = Annotated[int, Field(ge=0, le=MAX_SECONDS)]
PositiveSeconds = Annotated[int, Field(ge=1, le=86_400)]
