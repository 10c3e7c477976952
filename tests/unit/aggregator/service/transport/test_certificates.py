"""A party's own certificates: each bad day of their files is named, and so is each that comes."""

import datetime as dt
import json
import os
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization as form

from aggregator.cli.service.health_checks import service_of
from aggregator.errors import ConfigurationError
from aggregator.service.config import HelperSettings
from aggregator.service.telemetry.health import Health
from aggregator.service.transport import certificates
from aggregator.service.transport.certificates import own_certificates, with_certificates
from aggregator.service.transport.tls import tls_of
from tests.support.certificates import DAY, Authority
from tests.support.commands import run_here

HEALTHY = Health([], {}, [])
Break = Callable[[Path, Path], object]


def settings_in(folder: Path, files: dict[str, str]) -> HelperSettings:
    named = {f"tls_{name}": file for name, file in files.items()}
    return HelperSettings.model_validate({"database": str(folder / "store.sqlite"), **named})


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def of_another(certificate: Path, key: Path) -> None:
    other = Authority(certificate.parent, "another").issue("other")
    key.write_bytes(Path(other["key"]).read_bytes())


def behind_its_authority(certificate: Path, _: Path) -> None:
    authority = certificate.with_name("servers.pem").read_bytes()
    certificate.write_bytes(authority + certificate.read_bytes())


def with_a_password(_: Path, key: Path) -> None:
    read = form.load_pem_private_key(key.read_bytes(), None)
    locked = form.BestAvailableEncryption(b"password")
    key.write_bytes(read.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, locked))


BROKEN: dict[str, tuple[Break, str, str]] = {
    "a certificate that is cut": (
        lambda certificate, _: certificate.write_bytes(certificate.read_bytes()[:200]),
        "tls_certificate: {certificate}: no certificate in PEM",
        "write it whole",
    ),
    "an empty certificate": (
        lambda certificate, _: certificate.write_bytes(b""),
        "tls_certificate: {certificate}: no certificate in PEM",
        "write it whole",
    ),
    "a key in the place of a certificate": (
        lambda certificate, key: certificate.write_bytes(key.read_bytes()),
        "tls_certificate: {certificate}: no certificate in PEM",
        "write it whole",
    ),
    "a folder in the place of a certificate": (
        lambda certificate, _: as_folder(certificate),
        "tls_certificate: {certificate}: is a directory",
        "remove the directory",
    ),
    "a certificate that is gone": (
        lambda certificate, _: certificate.unlink(),
        "tls_certificate: {certificate}: No such file or directory",
        "",
    ),
    "a certificate behind its authority's": (
        behind_its_authority,
        "tls_key: {key}: the key of another certificate than the first in {certificate}",
        "comes before those above it",
    ),
    "a key that is cut": (
        lambda _, key: key.write_bytes(key.read_bytes()[:100]),
        "tls_key: {key}: no private key in PEM",
        "write it whole",
    ),
    "another's key": (
        of_another,
        "tls_key: {key}: the key of another certificate than the first in {certificate}",
        "of one renewal",
    ),
    "a key with a password": (with_a_password, "tls_key: {key}: the key has a password", "openssl"),
    "a folder in the place of a key": (
        lambda _, key: as_folder(key),
        "tls_key: {key}: is a directory",
        "remove the directory",
    ),
    "a key that others can read": (
        lambda _, key: key.chmod(0o644),
        "{key}: holds a secret, and its mode 0644 lets others",
        "chmod 600",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_file_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    files = Authority(tmp_path, "servers").issue("helper")
    settings = settings_in(tmp_path, files)
    assert tls_of(settings) is not None
    do, said, remedy = BROKEN[name]
    secret = Path(files["key"]).read_text().splitlines()[1]
    do(Path(files["certificate"]), Path(files["key"]))
    with pytest.raises(ConfigurationError) as refused:
        tls_of(settings)
    assert said.format(**files) in str(refused.value)
    assert remedy in str(refused.value)
    assert secret not in repr(refused.value.__cause__) + str(refused.value)


def test_a_file_that_the_service_may_not_read_is_given_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Authority(tmp_path, "servers").issue("helper")

    def refuse(_: Path) -> bytes:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(certificates, "read_plain", refuse)  # the tests' user may be root
    with pytest.raises(ConfigurationError, match=r"helper\.pem: may not be read .* \(`chown`\)"):
        tls_of(settings_in(tmp_path, files))


@pytest.mark.parametrize(
    ("begins", "life", "fault", "ends_soon"),
    [
        (-DAY, 90 * DAY, None, False),
        (-77 * DAY, 90 * DAY, None, True),
        (-DAY, 6 * DAY, None, False),
        (-5 * DAY, 6 * DAY, None, True),  # of a short life a fifth is left
        (-3 * DAY, 2 * DAY, "has expired", True),
        (DAY, 90 * DAY, "is not valid before", False),
    ],
)
def test_who_runs_a_service_hears_how_long_its_certificate_is_valid(
    tmp_path: Path, begins: dt.timedelta, life: dt.timedelta, fault: str | None, *, ends_soon: bool
) -> None:
    files = Authority(tmp_path, "servers").issue("helper", begins, life)
    found = own_certificates(settings_in(tmp_path, files))
    now = int(dt.datetime.now(dt.UTC).timestamp())
    health = with_certificates(HEALTHY, found, now)
    assert health.obstacles == [], "no other process has a better one"
    assert len(health.faults) == (fault is not None)
    assert all(files["certificate"] in each and str(fault) in each for each in health.faults)
    (each,) = found
    assert each.ends_soon(now) is ends_soon
    assert health.document["certificates"] == [each.document(now)]
    days_left = max(0, round((begins + life) / DAY))
    assert round(int(str(each.document(now)["seconds_left"])) / 86400) == days_left
    assert len(certificates.lines_of(found, now)) == (ends_soon and fault is None)
    (metric,) = health.metrics
    assert metric.name == "prio_certificate_expires_timestamp_seconds"
    assert metric.samples == [({"setting": "tls_certificate"}, each.not_after)]


@pytest.mark.anyio
async def test_a_service_says_of_the_certificate_that_it_shows_and_not_of_the_file(
    tmp_path: Path,
) -> None:
    """Or nobody notices that it was renewed, and the service was never told."""
    authority = Authority(tmp_path, "servers")
    settings = settings_in(tmp_path, authority.issue("helper", -3 * DAY, 2 * DAY))
    settings = settings.model_copy(update={"health_listen": "127.0.0.1:0"})
    service = await service_of(settings, [], [], lambda: HEALTHY)
    authority.issue("helper")
    assert service.health is not None
    transport = httpx.ASGITransport(service.health[0])
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        answered = await http.get("/health")
    assert answered.status_code == 503
    assert "has expired" in answered.json()["faults"][0]
    assert answered.json()["certificates"][0]["seconds_left"] == 0


def test_status_has_the_days_that_are_left_and_outlives_a_broken_file(tmp_path: Path) -> None:
    files = Authority(tmp_path, "servers").issue("helper", -DAY / 2, 90 * DAY)
    config = tmp_path / "helper.toml"
    named = "".join(f'tls.tls_{name} = "{file}"\n' for name, file in files.items())
    config.write_text(
        f'service.role = "helper"\nservice.database = "s.sqlite"\n'
        f'keys.store_key_file = "k"\n{named}'
    )
    assert run_here("hpke", "new", "--config", config).returncode == 0
    told = run_here("status", "--config", config)
    assert "certificate  tls_certificate, 89 days left, until " in told.stdout
    Path(files["certificate"]).write_bytes(b"")
    told = run_here("status", "--json", "--config", config)
    assert told.returncode == 1
    nobody_runs, fault = sorted(json.loads(told.stdout)["faults"])
    assert nobody_runs.startswith("no process of this helper runs")
    assert fault.startswith(f"tls_certificate: {files['certificate']}: no certificate in PEM")
