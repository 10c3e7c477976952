"""TLS from the files that settings name: which certificates are shown, and which are trusted.

Without such files, a proxy speaks TLS for the service, and its own requests trust the system's
authorities.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx

from aggregator.errors import ConfigurationError
from aggregator.service.config import AggregatorSettings, ServiceSettings
from aggregator.service.transport.certificates import check_pair, read_pem


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key.

    Attributes:
        certificate: A PEM file with the certificate and its chain up to a root that others know.
        key: A PEM file with its private key.
        names: The settings that name the two files, for error messages.
    """

    certificate: Path
    key: Path
    names: tuple[str, str]

    @classmethod
    def served(cls, settings: ServiceSettings) -> Self | None:
        """Return what a service shows to its callers, or None if it speaks no TLS itself."""
        if settings.tls_certificate is None or settings.tls_key is None:
            return None
        return cls(settings.tls_certificate, settings.tls_key, ("tls_certificate", "tls_key"))

    @classmethod
    def asking(cls, settings: ServiceSettings) -> Self | None:
        """Return what we show to the parties that we call, if anything."""
        if settings.client_certificate is None or settings.client_key is None:
            return None
        names = ("client_certificate", "client_key")
        return cls(settings.client_certificate, settings.client_key, names)

    def show(self, context: ssl.SSLContext) -> None:
        """Make the context show the certificate on its connections from now on.

        Raises:
            ConfigurationError: A file cannot be read or used, the two do not belong together, or
                others can read the key.
        """
        check_pair(self.names, self.certificate, self.key)
        try:
            # With an empty password, an encrypted key fails instead of prompting at the terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"{self.names[0]}: {self.certificate}: OpenSSL does not take it with the key in "
                f"{self.key}: {_reason(error)}"
            ) from None


def serving_context(identity: Identity, client_ca: Path | None) -> ssl.SSLContext:
    """Return the TLS context with which a service serves its callers.

    Args:
        identity: What it shows.
        client_ca: A PEM file of authorities. Callers may show a certificate of theirs, but of no
            others; `web.auth` decides about callers that show none.

    Raises:
        ConfigurationError: A file cannot be read or used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    identity.show(context)
    if client_ca is not None:
        _trust(context, "client_ca", client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def tls_of(settings: ServiceSettings) -> ssl.SSLContext | None:
    """Return the TLS context of a service with these settings; None if it speaks no TLS itself.

    Raises:
        ConfigurationError: A file cannot be read or used.
    """
    identity = Identity.served(settings)
    if identity is None:
        return None
    client_ca = settings.client_ca if isinstance(settings, AggregatorSettings) else None
    return serving_context(identity, client_ca)


def asking_context(peer_ca: Path | None = None, identity: Identity | None = None) -> ssl.SSLContext:
    """Return the TLS context for our own requests.

    Args:
        peer_ca: A PEM file of the only authorities to trust; by default those of the system, or of
            SSL_CERT_FILE.
        identity: What we show to peers that ask for a client certificate.

    Raises:
        ConfigurationError: A file cannot be read or used.
    """
    if peer_ca is None:
        context = httpx.create_ssl_context(trust_env=True)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _trust(context, "peer_ca", peer_ca)
    if identity is not None:
        identity.show(context)
    return context


def _trust(context: ssl.SSLContext, name: str, path: Path) -> None:
    read_pem(name, path)
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(
            f"{name}: {path}: no certificates in PEM, or one that is cut or damaged: "
            f"{_reason(error)}"
        ) from None


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or type(error).__name__
