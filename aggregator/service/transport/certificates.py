"""The certificates that a party shows: whether they can be used, and how long they are valid.

OpenSSL says of a wrong file only that it is wrong. It shows an expired certificate without a word,
and then the others refuse us.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.errors import ConfigurationError
from aggregator.service.config import ServiceSettings, check_private, read_plain
from aggregator.service.telemetry.health import Health, Metric
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from cryptography import x509

SOON_SECONDS = 14 * 24 * 3600
"""How long before its end a certificate is said to end soon."""

SOON_SHARE = 1 / 5
"""The fraction of its life that is its end, where that is less: of one of six days, a day."""

_DAY = 24 * 3600


@dataclasses.dataclass(frozen=True, slots=True)
class Certificate:
    """One that we show.

    Attributes:
        setting: The setting that names its file.
        file: The file, whose first certificate it is.
        not_before: Since when it is valid, in seconds.
        not_after: Until when.
    """

    setting: str
    file: Path
    not_before: int
    not_after: int

    def fault(self, now: int) -> str | None:
        """Return why nobody accepts it now, if so."""
        place = f"{self.setting}: {self.file}"
        if now > self.not_after:
            return (
                f"{place}: the certificate has expired, at {utc_text(self.not_after)}, and whoever "
                "checks it refuses us: renew it, then `kill -HUP` the service"
            )
        if now < self.not_before:
            return (
                f"{place}: the certificate is not valid before {utc_text(self.not_before)}, and "
                "whoever checks it refuses us: is this machine's clock right?"
            )
        return None

    def ends_soon(self, now: int) -> bool:
        """Return whether it is time to renew it."""
        life = self.not_after - self.not_before
        return self.not_after - now < min(SOON_SECONDS, SOON_SHARE * life)

    def document(self, now: int) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "setting": self.setting,
            "file": str(self.file),
            "not_after": utc_text(self.not_after),
            "seconds_left": max(0, self.not_after - now),
            "ends_soon": self.ends_soon(now),
        }


def own_certificates(settings: ServiceSettings) -> list[Certificate]:
    """Return the certificates that a party with these settings shows.

    Raises:
        ConfigurationError: A file cannot be read or used.
    """
    named = {
        "tls_certificate": settings.tls_certificate,
        "client_certificate": settings.client_certificate,
    }
    return [_certificate(name, file) for name, file in named.items() if file is not None]


def check_pair(names: tuple[str, str], certificate: Path, key: Path) -> None:
    """Check that a certificate and its key can be used together.

    Args:
        names: The settings that name the two files.
        certificate: The first file.
        key: The second.

    Raises:
        ConfigurationError: They cannot, or others can read the key; it says which file is wrong.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    shown = _first(names[0], certificate)
    content = read_pem(names[1], key)
    check_private(key)
    try:
        # With an empty password, an encrypted key fails where it is not needed, too.
        public = load_pem_private_key(content, password=None).public_key()
    except TypeError:
        raise ConfigurationError(
            f"{names[1]}: {key}: the key has a password, which nobody could give at a start: take "
            f"it off with `openssl pkey -in {key} -out FILE`"
        ) from None
    except (ValueError, UnsupportedAlgorithm):  # `from None`: the cause may quote the file
        raise ConfigurationError(
            f"{names[1]}: {key}: no private key in PEM, or one that is cut or damaged: write it "
            "whole, as it was made with the certificate"
        ) from None
    if public != shown.public_key():
        raise ConfigurationError(
            f"{names[1]}: {key}: the key of another certificate than the first in {certificate} "
            f"({names[0]}): both files must be of one renewal, and a service's own certificate "
            "comes before those above it"
        )


def read_pem(name: str, path: Path) -> bytes:
    """Return what a file has that a setting names.

    Raises:
        ConfigurationError: It cannot be read.
    """
    try:
        return read_plain(path)
    except PermissionError:
        raise ConfigurationError(
            f"{name}: {path}: may not be read by the service's user: give it the file (`chown`)"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{name}: {path}: {error.strerror}") from error


def with_files(health: Health, settings: ServiceSettings, now: int) -> Health:
    """Return a party's health with what is to be said of the certificates in its files now."""
    try:
        return with_certificates(health, own_certificates(settings), now)
    except ConfigurationError as error:
        return dataclasses.replace(health, faults=[*health.faults, str(error)])


def with_certificates(health: Health, certificates: Sequence[Certificate], now: int) -> Health:
    """Return a party's health with what is to be said of its certificates.

    One that nobody accepts is a fault, but no reason to send requests elsewhere: it is the same
    everywhere, and a caller that all processes refuse learns less than one that gets an answer.
    """
    if not certificates:
        return health
    faults = [fault for each in certificates if (fault := each.fault(now)) is not None]
    metric = Metric(
        "prio_certificate_expires_timestamp_seconds",
        "When a certificate of ours expires, by the setting that names its file.",
        "gauge",
        [({"setting": each.setting}, each.not_after) for each in certificates],
    )
    return dataclasses.replace(
        health,
        faults=[*health.faults, *faults],
        stalls=[*health.stalls, *faults],
        document={
            **health.document,
            "certificates": [each.document(now) for each in certificates],
        },
        metrics=[*health.metrics, metric],
    )


def lines_of(certificates: Sequence[Certificate], now: int) -> list[str]:
    """Return what the log has to say of certificates that end soon; faults are said anyway."""
    return [
        f"{each.setting}: {each.file}: {(each.not_after - now) // _DAY} days left, until "
        f"{utc_text(each.not_after)}"
        for each in certificates
        if each.fault(now) is None and each.ends_soon(now)
    ]


def _certificate(name: str, file: Path) -> Certificate:
    found = _first(name, file)
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    return Certificate(name, file, int(begins.timestamp()), int(ends.timestamp()))


def _first(name: str, file: Path) -> "x509.Certificate":
    from cryptography import x509  # here, since `prio status` of a party without one needs none

    try:
        return x509.load_pem_x509_certificates(read_pem(name, file))[0]
    except ValueError:
        raise ConfigurationError(
            f"{name}: {file}: no certificate in PEM, or one that is cut or damaged: write it "
            "whole, as its authority gave it, with those above it behind it"
        ) from None
