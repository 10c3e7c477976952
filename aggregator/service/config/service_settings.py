"""The settings of every service; `aggregator_settings` and `collector_settings` add to them.

A setting stands in one of the file's tables (`tables`), under a name that no other table has. The
environment overrides it, as `PRIO_` and the name in capitals. In code, all settings are attributes
of one object. Secrets are masked.
"""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from aggregator.errors import ConfigurationError
from aggregator.service.config.constants import OUTGOING
from aggregator.service.config.kinds import Address, OptionalAddress


def beside(database_url: str, setting: str) -> str:
    """Return the path of a store's file, next to which a setting's file lies by default.

    Raises `ConfigurationError` if the store is no file: then the setting must be given.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(database_url)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        raise ConfigurationError("database: the store's URL cannot be read") from None
    if url.get_backend_name() != "sqlite":
        raise ConfigurationError(
            f"{setting}: missing; only a store in a file has a place for it by default"
        )
    return url.database or ""


def host_names(address: str, given: str) -> frozenset[str]:
    """Return the names of this machine, the address's host and the given names, in lower case."""
    listening = address.rpartition(":")[0].strip("[]")
    named = (name.strip().lower() for name in given.split(","))
    return frozenset({"localhost", "127.0.0.1", "::1", listening.lower(), *named} - {""})


class ServiceSettings(BaseModel):
    """What every service needs."""

    model_config = ConfigDict(
        defer_build=True,  # a party validates its own settings only
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,
    )

    database: str = Field(
        repr=False,  # its URL may have a password
        description="The SQLite file of this party's store, or the URL of an SQLite file or a "
        "PostgreSQL database.",
    )
    store_key_file: Path | None = Field(
        None,
        description="The file with the key that encrypts the store's secrets; needed unless "
        "store_key is given. Keep it on another disk and in other backups than the database: "
        "anyone with both can read everything. A service makes it, readable by its owner only, "
        "together with a new database and never later.",
    )
    store_key: SecretStr | None = Field(
        None,
        description="The key itself, base64url, instead of a file. Several are separated by "
        "commas: the first encrypts, all decrypt. Meant for the environment (PRIO_STORE_KEY).",
    )
    listen: Address = Field(
        "127.0.0.1:8000", description="The address at which the service listens, host:port."
    )
    health_listen: OptionalAddress = Field(
        None,
        description="The address at which GET /health and /metrics are answered, host:port, for "
        "those who run the service. Not answered anywhere if not given or empty.",
    )
    health_hosts: str = Field(
        "",
        description="More host names that the health listener answers to, joined by commas, "
        "besides those of this machine and of health_listen. IP addresses are allowed if "
        "health_listen is no loopback address.",
    )
    max_connections: int = Field(
        512,
        ge=1,
        le=65_536,
        description="The most connections open at once at `listen`, in each process. Above that, "
        "one of the peer that has the most is closed, or else the new one is refused. Each needs "
        "two file descriptors; if the system allows too few, there are fewer connections.",
    )
    tls_certificate: Path | None = Field(
        None,
        description="A PEM file with the certificate that the service shows at `listen`, and its "
        "chain; the service then speaks TLS itself. Read again on SIGHUP. The health listener "
        "stays plain HTTP.",
    )
    tls_key: Path | None = Field(
        None,
        description="A PEM file with the private key of tls_certificate, without a password, "
        "readable by its owner only.",
    )
    peer_ca: Path | None = Field(
        None,
        description="A PEM file with the authorities whose certificates we accept from the "
        "services that we call, instead of the system's authorities.",
    )
    client_certificate: Path | None = Field(
        None,
        description="A PEM file with the certificate that we show to the services that we call, "
        "if they ask for one.",
    )
    client_key: Path | None = Field(
        None, description="A PEM file with the private key of client_certificate; as tls_key."
    )
    insecure_http: bool = Field(
        default=False,
        description="Whether plain http:// to other machines is allowed. Everybody on the way "
        "can then read reports, tokens and results.",
    )
    environment_proxy: bool = Field(
        default=False,
        description="Whether requests go through the proxies that HTTPS_PROXY and similar "
        "variables name. One that HTTP_PROXY names reads plain http:// to this machine as well, "
        "unless NO_PROXY names that.",
    )
    log_format: Literal["json", "console"] = Field(
        "console", description="The format of log lines."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least serious lines that are logged."
    )

    @model_validator(mode="after")
    def _have_keys(self) -> Self:
        for certificate in ("tls_certificate", "client_certificate"):
            key = certificate.replace("certificate", "key")
            if (getattr(self, certificate) is None) != (getattr(self, key) is None):
                raise ValueError(f"{certificate}: give both {certificate} and {key}, or neither")
        return self

    @property
    def database_url(self) -> str:
        """The store's URL; a plain path is quoted, since it may contain any character."""
        if "://" in self.database:
            return self.database
        from sqlalchemy.engine import URL

        return URL.create("sqlite", database=self.database).render_as_string()

    @property
    def outgoing_connections(self) -> int:
        """How many connections to other parties it may have at once."""
        return OUTGOING

    @property
    def health_names(self) -> frozenset[str]:
        """The host names that the health listener answers to, in lower case."""
        return host_names(self.health_listen or "", self.health_hosts)
