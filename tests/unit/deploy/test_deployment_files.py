"""deploy/: units, a proxy's configuration and manifests agree with the program and their tools."""

import configparser
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from aggregator.cli import faults
from aggregator.cli.commands import COMMANDS
from aggregator.errors import ConfigurationError
from aggregator.service.config import ANSWER_SECONDS, HelperSettings, LeaderSettings
from aggregator.service.storage.engine.backends import Damaged
from aggregator.service.storage.ledger.journal import JournalError
from aggregator.service.storage.secrets.crypter import CrypterError
from aggregator.service.web.app import MONITORING_PATHS
from aggregator.service.web.connections import HEADER_SECONDS, MAX_HEADER_BYTES, UNREAD_SECONDS
from tests.support.patience import PATIENCE_SECONDS
from tests.support.settings import setting_names

DEPLOY = Path(__file__).parents[3] / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = ("leader", "helper")
KUBERNETES_VERSION = "1.30"
MEBIBYTE = 2**20
PROXY = (DEPLOY / "nginx" / "prio.conf").read_text(encoding="utf-8")


def run(*command: str | Path) -> str:
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(  # noqa: S603  our own command
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, (command, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


@pytest.mark.slow
def test_every_image_of_others_is_named_with_its_whole_version() -> None:
    """Or the next push decides what is built, and runs with the keys."""
    root = DEPLOY.parent
    files = [*root.rglob("deploy/**/*.yml"), *root.rglob("deploy/**/*.yaml")]
    named = [
        image
        for file in (root / "docker-compose.yml", *files)
        for image in re.findall(r"\bimage: *([^\s,}#]+)", file.read_text(encoding="utf-8"))
    ]
    named += [
        image
        for file in (root / "Dockerfile", *DEPLOY.rglob("Dockerfile"))
        for image in re.findall(r"^FROM (\S+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    others = {image for image in named if not image.startswith("prio-")}
    assert {image.partition(":")[0] for image in others} >= {"python", "postgres"}
    version = re.compile(r":v?[0-9]+\.[0-9]+(\.[0-9]+)?(-[^@]+)?(@sha256:[0-9a-f]{64})?$")
    assert {image for image in others if not version.search(image)} == set()


ENGINE = """\
#!/bin/sh
for image; do :; done
case $1 in
  pull) echo "$image" >> {pulled} ;;
  image) echo "mirror.example/${{image%%:*}}@sha256:{foreign}"
         echo "${{image%%:*}}@sha256:$(cat {digest})" ;;
esac
"""
"""What an engine says of an image that it has pulled."""


def test_the_images_of_others_are_pinned_to_what_a_registry_has_by_one_command(
    tmp_path: Path,
) -> None:
    """Another image pushed under the same version then changes nothing."""
    root, engine, digest = tmp_path / "checkout", tmp_path / "docker", tmp_path / "digest"
    root.mkdir()
    for name in ("Dockerfile", "docker-compose.yml"):
        shutil.copy(DEPLOY.parent / name, root / name)
    shutil.copytree(DEPLOY, root / "deploy")
    places = {"pulled": tmp_path / "pulled", "digest": digest, "foreign": "f" * 64}
    engine.write_text(ENGINE.format(**places))
    engine.chmod(0o700)

    def pin() -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603  our own script
            ["/bin/sh", root / "deploy" / "pin-images.sh"],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )

    for each in ("a" * 64, "b" * 64):
        digest.write_text(each)
        done = pin()
        assert done.returncode == 0, done
        pinned = done.stdout.split()
        assert {image.partition(":")[0] for image in pinned} >= {"python", "postgres"}
        files = [root / "Dockerfile", *root.rglob("*.yml"), *root.rglob("compose/*/Dockerfile")]
        text = "\n".join(file.read_text(encoding="utf-8") for file in files)
        for image in pinned:
            name, _, found = image.partition("@")
            assert found == f"sha256:{each}"
            assert re.findall(rf"{name}(?!@sha256:{each}(?![0-9a-f@]))", text) == [], name
        assert "prio-aggregator@" not in text
    assert len(places["pulled"].read_text().split()) == 2 * len(pinned)
    digest.write_text("")
    assert pin().returncode != 0


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_a_command_that_exists_as_the_user_of_its_party(path: Path) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]  # names as they are written
    unit.read_string(path.read_text(encoding="utf-8"))
    service = unit["Service"]
    program, party, verb, option, config = service["ExecStart"].split()
    assert (program, option, config) == (
        "/opt/prio/bin/prio",
        "--config",
        f"/etc/prio/{party}.toml",
    )
    (entry,) = [entry for entry in COMMANDS if entry.name == party]
    assert verb in getattr(entry.load(), "commands", {verb: None})
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    # Starting again mends nothing for which a person is needed.
    assert service["RestartPreventExitStatus"] == str(faults.BAD_INPUT)
    for error in (JournalError("x"), CrypterError("x"), Damaged("x"), ConfigurationError("x")):
        assert faults.status_of(error) == faults.BAD_INPUT
    assert service["User"] == service["Group"] == f"prio-{party}"
    accounts = (DEPLOY / "systemd" / "prio.sysusers").read_text(encoding="utf-8")
    assert f"u prio-{party} " in accounts


def test_units_are_correct_and_as_closed_as_they_are_said_to_be(tmp_path: Path) -> None:
    assert len(UNITS) == 5
    for path in UNITS:
        # A unit is verified with the program that it runs, which is not where tests are.
        text = path.read_text(encoding="utf-8").replace("/opt/prio/bin/prio", "/bin/true")
        (tmp_path / path.name).write_text(text)
        run("systemd-analyze", "verify", tmp_path / path.name)
        run("systemd-analyze", "security", "--offline=true", "--threshold=15", path)


def directive(name: str) -> str:
    (value,) = re.findall(rf"^\s+{name}\s+([^;]+);", PROXY, re.MULTILINE)
    return str(value)


def test_the_proxys_limits_are_those_of_the_aggregators() -> None:
    def default(name: str) -> int:
        (value,) = {kind.model_fields[name].default for kind in (LeaderSettings, HelperSettings)}
        assert isinstance(value, int)
        return value

    assert directive("client_max_body_size") == f"{default('max_body_size') // MEBIBYTE}m"
    assert directive("client_header_timeout") == f"{HEADER_SECONDS:.0f}s"
    assert directive("large_client_header_buffers").split()[1] == f"{MAX_HEADER_BYTES // 1024}k"
    assert directive("send_timeout") == f"{UNREAD_SECONDS:.0f}s"
    assert int(directive("proxy_read_timeout")[:-1]) > ANSWER_SECONDS
    assert int(directive("limit_conn").split()[1]) < default("max_connections")
    annotations = documents("base/network.yaml")["Ingress"]["metadata"]["annotations"]
    for name in (
        "body-size client_max_body_size",
        "request-buffering proxy_request_buffering",
        "connect-timeout proxy_connect_timeout",
        "read-timeout proxy_read_timeout",
        "send-timeout proxy_send_timeout",
    ):
        annotation, there = name.split()
        value = annotations[f"nginx.ingress.kubernetes.io/proxy-{annotation}"]
        assert value == directive(there).removesuffix("s"), name


def test_the_proxy_takes_its_configuration(tmp_path: Path) -> None:
    run("nginx", "-v")
    run(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
        *("-nodes", "-subj", "/CN=leader.example", "-days", "2"),
        *("-keyout", tmp_path / "privkey.pem", "-out", tmp_path / "fullchain.pem"),
    )
    text = PROXY.replace("/etc/letsencrypt/live/leader.example", str(tmp_path))
    text = text.replace("/var/log/nginx", str(tmp_path))
    (tmp_path / "prio.conf").write_text(text)
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{ include {tmp_path}/prio.conf; }}\n"
    )
    run("nginx", "-t", "-q", "-e", tmp_path / "log", "-c", tmp_path / "nginx.conf")


def documents(name: str) -> dict[str, Any]:
    """Return the documents of a file by their kinds."""
    text = (KUBERNETES / name).read_text(encoding="utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def pods() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in ("base/http.yaml", "leader/work.yaml"):
        yield name, documents(name)["Deployment"]["spec"]["template"]["spec"]


def test_no_container_of_a_cluster_has_more_rights_than_it_needs() -> None:
    for name, pod in pods():
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for container in (*pod["initContainers"], *pod["containers"]):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, name
            assert {"requests", "limits"} <= set(container["resources"]), name
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted <= {volume["name"] for volume in pod["volumes"]}, name


def test_pods_are_asked_at_paths_that_are_served_and_given_settings_that_exist() -> None:
    for name, pod in pods():
        (container,) = pod["containers"]
        ports = {port["name"] for port in container["ports"]}
        probes = [container[key]["httpGet"] for key in container if key.endswith("Probe")]
        assert len(probes) >= 2
        assert {probe["path"] for probe in probes} <= set(MONITORING_PATHS), name
        assert {probe["port"] for probe in probes} <= ports, name
        named = {each["name"] for each in container["env"]}
        assert {"PRIO_DATABASE", "PRIO_STORE_KEY"} <= named
        assert {each.removeprefix("PRIO_").lower() for each in named} <= setting_names(), name
        assert all("secretKeyRef" in each["valueFrom"] for each in container["env"]), name
    for overlay in OVERLAYS:
        text = (KUBERNETES / overlay / "kustomization.yaml").read_text(encoding="utf-8")
        (literals,) = [each["literals"] for each in yaml.safe_load(text)["configMapGenerator"]]
        given = dict(literal.split("=", 1) for literal in literals)
        assert given["PRIO_ROLE"] == overlay
        given.pop("FORWARDED_ALLOW_IPS")  # the server's, test_bounds_of_deployments.py
        assert {name.removeprefix("PRIO_").lower() for name in given} <= setting_names()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_yields_manifests_of_the_published_schema(overlay: str) -> None:
    manifests = list(yaml.safe_load_all(run("kubectl", "kustomize", KUBERNETES / overlay)))
    kinds = [each["kind"] for each in manifests]
    assert kinds.count("Deployment") == {"leader": 2, "helper": 1}[overlay]
    assert "Secret" not in kinds
    for manifest in manifests:
        kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)
        assert manifest["metadata"]["namespace"] == f"prio-{overlay}"
    text = yaml.safe_dump_all(manifests)
    assert not {"ROLE", "HOST"} & set(re.findall(r"\w+", text)), "left for an overlay to say"
