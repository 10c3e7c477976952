"""docker-compose.yml as it stands: up, a batch through it, every container restarted, down."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bounds import assert_near
from tests.support.docker import Project, brought_up
from tests.support.docker_survey import ANSWERS, BUCKETS, HOUR, Collecting, provision, upload
from tests.support.ports import free_ports

pytestmark = [pytest.mark.compose, pytest.mark.slow]

PARTIES = ("leader", "helper", "collector")


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return dict(zip(PARTIES, free_ports(len(PARTIES)), strict=True))


@pytest.fixture(scope="module")
def project(ports: dict[str, int]) -> Iterator[Project]:
    with brought_up("prio-test", ports, "docker-compose.yml") as project:
        yield project


def test_no_container_has_more_rights_than_it_needs(project: Project) -> None:
    containers = project.containers()
    assert sorted(containers) == sorted(PARTIES)
    for container in containers.values():
        config, host = container["Config"], container["HostConfig"]
        assert isinstance(config, dict)
        assert isinstance(host, dict)
        assert config["User"] == "prio"
        assert host["ReadonlyRootfs"] is True
        assert host["CapDrop"] == ["ALL"]
        assert "no-new-privileges:true" in host["SecurityOpt"]
        assert not host["Privileged"]
        published = [each["HostIp"] for ports in host["PortBindings"].values() for each in ports]
        assert published == ["127.0.0.1"]


def test_the_aggregators_share_one_network_and_no_volume_and_no_secret(project: Project) -> None:
    containers = project.containers()
    volumes, networks = {}, {}
    for name, container in containers.items():
        mounts, settings = container["Mounts"], container["NetworkSettings"]
        assert isinstance(mounts, list)
        assert isinstance(settings, dict)
        assert {mount["Destination"] for mount in mounts} == {"/data", "/key", "/cache"}
        volumes[name] = {mount["Name"] for mount in mounts}
        networks[name] = set(settings["Networks"])
    assert len(set.union(*volumes.values())) == 3 * len(PARTIES)
    assert len(networks["leader"] & networks["helper"]) == 1
    assert not networks["helper"] & networks["collector"]
    keys = {project.compose("exec", "-T", name, "cat", f"/key/{name}.key") for name in PARTIES}
    assert len(keys) == len(PARTIES)


def test_a_health_listener_is_reached_in_its_own_container_only(project: Project) -> None:
    asks = (
        "import sys, urllib.request as r\n"
        "try: print(r.urlopen(f'http://{sys.argv[1]}:9000/healthz', timeout=5).status)\n"
        "except OSError: print('not reached')"
    )

    def answer(host: str) -> str:
        return project.compose("exec", "-T", "helper", "python", "-c", asks, host).strip()

    assert answer("127.0.0.1") == "200"
    assert answer("helper") == "not reached"
    assert answer("leader") == "not reached"  # whom it otherwise reaches


def test_the_image_has_its_kernels_compiled(project: Project) -> None:
    asks = (
        "from aggregator.dap.profile import Role\n"
        "from aggregator.service.runtime.kernels import are_compiled\n"
        "from aggregator.vdaf.instances import TYPES\n"
        "kinds = [row.prio3(row.typical()) for row in TYPES.values()]\n"
        "print(all(are_compiled(kind, Role[role]) for kind in kinds for role in ROLES))\n"
    ).replace("ROLES", "('LEADER', 'HELPER')")
    for party in ("leader", "helper"):
        assert project.compose("exec", "-T", party, "python", "-c", asks).strip() == "True"


def test_a_batch_survives_the_restart_of_every_container(
    project: Project, ports: dict[str, int], tmp_path: Path
) -> None:
    start = int(time.time()) // HOUR * HOUR - HOUR
    task_id = provision(project, tmp_path, {party: party for party in PARTIES})
    half = len(ANSWERS) // 2
    upload(project, tmp_path, ANSWERS[:half], start)
    project.compose("restart", "leader")  # as an upgrade would
    project.compose("kill", "helper", "collector")  # as a power cut would
    project.compose("up", "--detach", "--wait")
    upload(project, tmp_path, ANSWERS[half:], start)

    with Collecting(project, ports["collector"]) as collecting:
        asked = collecting.ask(task_id, start)
        project.compose("kill")  # all at once, a collection under way
        project.compose("up", "--detach", "--wait")
        result = collecting.result(asked)
    assert result["report_count"] == len(ANSWERS)
    values = result["values"]
    assert isinstance(values, list)
    counts = Counter(ANSWERS)
    truth = [counts[bucket] for bucket in BUCKETS]
    assert_near(values, truth, (tmp_path / "task" / "task.toml").read_text())

    project.compose("restart")
    project.compose("up", "--detach", "--wait")
    interval = ("--start", str(start), "--end", str(start + HOUR))
    again = json.loads(project.prio("collector", "collect", task_id, *interval, "--json"))
    assert again["result"] == result
    for party in ("leader", "helper"):
        shown = json.loads(project.prio(party, "task", "show", task_id))
        assert shown["reports"]["aggregation"] == {"aggregated": len(ANSWERS)}
        spent = json.loads(project.prio(party, "ledger", "--json"))
        assert [release["state"] for release in spent["tasks"][0]["releases"]] == ["charged"]
