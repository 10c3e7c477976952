"""deploy/: memory for the number of processes, and fronts that name clients and limit them."""

import configparser
import http.client
import http.server
import ipaddress
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from aggregator.cli.service.machine import COMPILING_MIB, PROCESS_MIB, memory_of
from aggregator.cli.service.processes import MOST_BY_DEFAULT
from aggregator.service.web.addresses import is_trusted_proxy
from tests.support.compose_files import ARRANGEMENTS, SCALED, composed
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.ports import free_ports

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
ENTRY = DEPLOY / "compose" / "entry" / "haproxy.cfg"
MEBIBYTES = {"k": 2**-10, "m": 1, "g": 2**10}
STRANGERS = ("192.0.2.1", "198.51.100.7", "8.8.8.8", "2001:db8::1", "2a00::1")


def mebibytes(said: str) -> float:
    """Return a size as systemd, Compose and Kubernetes write it."""
    found = re.fullmatch(r"([0-9]+)([KMGkmg])i?", said)
    assert found, said
    return int(found[1]) * MEBIBYTES[found[2].lower()]


def processes_of(words: Sequence[str]) -> int:
    """Return how many processes a command of a service runs at most."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--processes"):
            return int(word.partition("=")[2] or after)
    return 1 if "collector" in words else MOST_BY_DEFAULT


def services() -> Iterator[tuple[str, list[str], str]]:
    """Yield every service that a file of ours starts: where, its command, its limit of memory."""
    for path in sorted((DEPLOY / "systemd").glob("*.service")):
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.read_string(path.read_text(encoding="utf-8"))
        service = unit["Service"]
        yield path.name, service["ExecStart"].split(), service["MemoryMax"]
    for files in ARRANGEMENTS:
        for name, service in composed(files)["services"].items():
            words = [str(each) for each in service.get("command", [])]
            if {"serve", "work"} & {*words}:
                yield f"{files[-1]}: {name}", words, str(service["mem_limit"])
    for path in sorted(KUBERNETES.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document["kind"] in {"Deployment", "StatefulSet", "DaemonSet", "Job"}:
                for container in document["spec"]["template"]["spec"]["containers"]:
                    limit = container["resources"]["limits"]["memory"]
                    yield f"{path.name}: {container['name']}", container["args"], limit


def test_each_service_may_take_the_memory_that_its_processes_need() -> None:
    found = list(services())
    assert len(found) == 5 + 3 + 3 + 5 + 2, [name for name, _, _ in found]
    for name, words, limit in found:
        assert mebibytes(limit) >= memory_of(processes_of(words)), name


def test_a_pods_number_of_processes_does_not_depend_on_its_nodes_cores() -> None:
    for name, words, _ in services():
        if ".yaml:" in name:
            assert any(word.startswith("--processes=") for word in words), name


def test_the_figures_are_those_of_the_documents() -> None:
    def says(page: str, pattern: str) -> float:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        (value,) = {*re.findall(pattern, text)}
        return float(value)

    assert int(says("sizing.md", r"of which a process takes up to ([0-9.]+)") * 1024) + 1 == (
        PROCESS_MIB
    )
    assert says("sizing.md", r"and ([0-9.]+) once while kernels") * 1024 >= COMPILING_MIB
    assert says("operations/watch.md", r"about ([0-9]+) MiB of memory") == COMPILING_MIB
    edge = (ROOT / "docs" / "operations" / "edge.md").read_text(encoding="utf-8")
    rows = edge.partition("## Memory")[2].partition("##")[0]
    assert max(int(each) for each in re.findall(r"([0-9]+) MiB(?! of reports)", rows)) <= (
        PROCESS_MIB
    )


def trusted_in_compose(party: str) -> tuple[str, str]:
    """Return whom a party's containers behind an entry trust, and the network of the entry."""
    whole = composed(SCALED)
    trusted = whole["services"][f"{party}-http"]["environment"]["FORWARDED_ALLOW_IPS"]
    (pool,) = whole["networks"][f"{party}-inside"]["ipam"]["config"]
    return by_default(trusted), by_default(pool["subnet"])


def by_default(said: str) -> str:
    """Return what a variable of Compose is if nobody sets it."""
    found = re.fullmatch(r"\$\{\w+:-(.*)\}", said)
    assert found, said
    return found[1]


@pytest.mark.parametrize("party", ["leader", "helper"])
def test_behind_the_entry_its_network_is_trusted_and_nobody_else(party: str) -> None:
    trusted, network = trusted_in_compose(party)
    assert trusted == network
    assert ipaddress.ip_network(network).is_private
    services = composed(SCALED)["services"]
    inside = {name for name, each in services.items() if f"{party}-inside" in each["networks"]}
    assert inside == {f"{party}-http", f"{party}-entry"}
    assert not any(is_trusted_proxy(each, trusted) for each in (*STRANGERS, "127.0.0.1"))
    assert composed(SCALED)["networks"][f"{party}-inside"]["internal"] is True
    assert "FORWARDED_ALLOW_IPS" not in str(services["collector"])


@pytest.mark.parametrize("party", ["leader", "helper"])
def test_behind_the_ingress_a_clusters_own_addresses_are_trusted_and_nobody_else(
    party: str,
) -> None:
    text = (KUBERNETES / party / "kustomization.yaml").read_text(encoding="utf-8")
    (generated,) = yaml.safe_load(text)["configMapGenerator"]
    given = dict(literal.split("=", 1) for literal in generated["literals"])
    trusted = given["FORWARDED_ALLOW_IPS"]
    assert is_trusted_proxy("10.42.0.7", trusted)
    assert not any(is_trusted_proxy(each, trusted) for each in STRANGERS)
    network = yaml.safe_load_all((KUBERNETES / "base/network.yaml").read_text(encoding="utf-8"))
    (policy,) = [each for each in network if each["kind"] == "NetworkPolicy"]
    (who,) = [
        rule["from"] for rule in policy["spec"]["ingress"] if rule["ports"] == [{"port": "dap"}]
    ]
    labels = {"kubernetes.io/metadata.name": "ingress-nginx"}
    assert who == [{"namespaceSelector": {"matchLabels": labels}}]


def test_every_front_limits_an_address_at_the_leader_or_says_who_does() -> None:
    proxy = (DEPLOY / "nginx" / "prio.conf").read_text(encoding="utf-8")
    (rate,) = re.findall(r"rate=([0-9]+)r/s", proxy)
    (burst,) = re.findall(r"limit_req .*burst=([0-9]+)", proxy)
    (connections,) = re.findall(r"limit_conn prio_connections ([0-9]+);", proxy)
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in proxy  # whatever the client says
    overlays = {
        party: (KUBERNETES / party / "kustomization.yaml").read_text(encoding="utf-8")
        for party in ("leader", "helper")
    }
    found = re.findall(
        r'ingress\.kubernetes\.io~1(limit-\S+), value: "([0-9]+)"', overlays["leader"]
    )
    limits = dict(found)
    assert limits["limit-rps"] == rate
    assert int(limits["limit-rps"]) * int(limits["limit-burst-multiplier"]) == int(burst)
    assert limits["limit-connections"] == connections
    # All of the helper's requests come from one address.
    base = (KUBERNETES / "base" / "network.yaml").read_text(encoding="utf-8")
    assert "limit-" not in overlays["helper"] + base
    entry = ENTRY.read_text(encoding="utf-8")
    assert not re.search(r"stick-table|rate-limit|sc_", entry)
    page = (ROOT / "docs/operations/docker.md").read_text(encoding="utf-8")
    assert "limits no address" in page
    assert "limit on the requests or connections of an address" in entry


def test_the_entry_says_who_asks_whatever_the_client_says(tmp_path: Path) -> None:
    if shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed")
    seen: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/x":
                seen.append(",".join(self.headers.get_all("x-forwarded-for", [])))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    def asked(address: tuple[str, int], said: str) -> bool:
        connection = http.client.HTTPConnection(*address, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", "/x", headers={"x-forwarded-for": said})
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = re.sub(
            r"server-template .*", f"server one 127.0.0.1:{server.server_port}", ENTRY.read_text()
        )
        (tmp_path / "haproxy.cfg").write_text(text)
        named = {"192.0.2.9": "127.0.0.1", "192.0.2.9 127.0.0.0/8": "203.0.113.5"}
        for proxy, expected in named.items():
            (port,) = free_ports(1)
            entry = subprocess.Popen(  # noqa: S603  our own command
                ["haproxy", "-db", "-f", tmp_path / "haproxy.cfg"],  # noqa: S607  as installed
                env=os.environ
                | {"ENTRY_PORT": str(port), "ENTRY_SERVICE": "x", "ENTRY_PROXY": proxy},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                wait_until(lambda port=port: asked(("127.0.0.1", port), "203.0.113.5"))
                assert seen[-1] == expected
            finally:
                entry.terminate()
                entry.wait(PATIENCE_SECONDS)
        server.shutdown()
