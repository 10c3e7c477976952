"""docker-compose.yml as it stands: up, a batch through it, every container restarted, down."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.bounds import assert_near
from tests.support.docker import NoEngine, Project, engine_environment
from tests.support.processes import free_ports

pytestmark = [pytest.mark.compose, pytest.mark.slow]

HOUR = 3600
BUCKETS = ("excellent", "good", "fair", "poor")
ANSWERS = [BUCKETS[index * index * index % 4] for index in range(600)]
PARTIES = ("leader", "helper", "collector")
COLLECT_SECONDS = 180.0


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return dict(zip(PARTIES, free_ports(len(PARTIES)), strict=True))


@pytest.fixture(scope="module")
def project(ports: dict[str, int]) -> Iterator[Project]:
    try:
        environment = engine_environment()
    except NoEngine as reason:
        pytest.skip(str(reason))
    environment |= {f"{name.upper()}_PORT": str(port) for name, port in ports.items()}
    project = Project(f"prio-test-{os.getpid()}", environment)
    try:
        project.compose("up", "--build", "--detach", "--wait")
        yield project
    finally:
        project.compose("--profile", "tools", "down", "--volumes", "--timeout", "20")
        assert project.left() == []


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


def test_the_image_has_its_kernels_compiled(project: Project) -> None:
    for party in ("leader", "helper"):
        assert "kernels are cached" in project.compose("logs", party)


def test_a_batch_survives_the_restart_of_every_container(
    project: Project, ports: dict[str, int], tmp_path: Path
) -> None:
    start = int(time.time()) // HOUR * HOUR - HOUR
    task_id = _provision(project, tmp_path)
    half = len(ANSWERS) // 2
    _upload(project, tmp_path, ANSWERS[:half], start)
    project.compose("restart", "leader")  # as an upgrade would
    project.compose("kill", "helper", "collector")  # as a power cut would
    project.compose("up", "--detach", "--wait")
    _upload(project, tmp_path, ANSWERS[half:], start)

    api = f"http://127.0.0.1:{ports['collector']}/api"
    token = project.compose("exec", "-T", "collector", "cat", "/data/token").strip()
    assert httpx.get(f"{api}/tasks").status_code == 401
    with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        asked = http.post(
            f"{api}/tasks/{task_id}/collections", json={"start": start, "end": start + HOUR}
        ).raise_for_status()
        project.compose("kill")  # all at once, a collection under way
        project.compose("up", "--detach", "--wait")
        result = _wait_for(http, f"http://127.0.0.1:{ports['collector']}", asked)
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


def _provision(project: Project, folder: Path) -> str:
    """Make a task as docs/operations.md says; return its id."""
    config = project.prio("collector", "collector", "config").strip()
    made = project.client(
        folder,
        *("task", "new", "--out", "/survey/task"),
        *("--leader", "http://leader:8001/", "--helper", "http://helper:8002/"),
        *("--collector-config", config, "--vdaf", "Prio3Histogram", "--length", "4"),
        *("--epsilon", "1", "--min-batch-size", "100", "--max-reports", "100000"),
    )
    for party in PARTIES:
        file = (folder / "task" / f"{party}.toml").read_text()
        project.prio(party, "task", "add", "-", stdin=file)
    return made.strip()


def _upload(project: Project, folder: Path, answers: list[str], start: int) -> None:
    table = folder / "answers.csv"
    table.write_text("\n".join(["health", *answers]) + "\n")
    said = project.client(
        folder,
        *("upload", "/survey/task/task.toml", "--csv", "/survey/answers.csv", "--column", "health"),
        *("--buckets", ",".join(BUCKETS), "--time", str(start)),
    )
    assert f"{len(answers)} of {len(answers)} reports accepted" in said


def _wait_for(http: httpx.Client, collector: str, asked: httpx.Response) -> dict[str, object]:
    deadline = time.monotonic() + COLLECT_SECONDS
    while time.monotonic() < deadline:
        collection = http.get(collector + asked.headers["location"]).raise_for_status().json()
        if collection["state"] != "pending":
            assert collection["state"] == "finished", collection
            result: dict[str, object] = collection["result"]
            return result
        time.sleep(0.5)
    raise AssertionError("the collection was not finished in time")
