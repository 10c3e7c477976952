"""Authorities and certificates for this machine, made when a test asks for them."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = dt.timedelta(days=1)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Authority:
    """One that signs certificates of 127.0.0.1.

    Attributes:
        certificate: The file with its own.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = folder / f"{name}.pem"
        made = self._builder(name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate.write_bytes(
            made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        )

    def issue(
        self, name: str, begins: dt.timedelta = -DAY, life: dt.timedelta = 2 * DAY
    ) -> dict[str, str]:
        """Write a certificate and its key to files; return their paths, by what settings add.

        Args:
            name: The name of both files.
            begins: When it begins to be valid, from now.
            life: How long it is.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, its_key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        made = (
            self._builder(name, key.public_key(), begins, life)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        )
        certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        its_key.touch(mode=0o600)
        its_key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return {"certificate": str(certificate), "key": str(its_key)}

    def _builder(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        begins: dt.timedelta = -DAY,
        life: dt.timedelta = 2 * DAY,
    ) -> x509.CertificateBuilder:
        begin = dt.datetime.now(dt.UTC) + begins
        return (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named(self._name))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + life)
        )
