"""deploy/compose/postgres.yml: several containers of a service, one entry.

By its name the last of these files: its containers wait for those of `test_compose.py`.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.support.bounds import assert_near
from tests.support.docker import Project, brought_up
from tests.support.docker_survey import ANSWERS, BUCKETS, HOUR, Collecting, provision, upload
from tests.support.ports import free_ports

pytestmark = [pytest.mark.compose, pytest.mark.slow]

FILE = "deploy/compose/postgres.yml"
SCALED = {"leader-http": 2, "leader-work": 2, "helper-http": 2}
PARTIES = {"leader": "leader-work", "helper": "helper-http", "collector": "collector"}
"""A service of each party in which its commands run."""
MANY = 100_000
"""Reports on demand."""


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    return dict(zip(PARTIES, free_ports(len(PARTIES)), strict=True))


@pytest.fixture(scope="module")
def project(ports: dict[str, int]) -> Iterator[Project]:
    scale = [f"--scale={service}={count}" for service, count in SCALED.items()]
    images = ("postgres:16.9-bookworm",)
    with brought_up("prio-scale", ports, FILE, *scale, images=images) as project:
        yield project


def test_each_database_is_seen_by_its_own_aggregator_only(project: Project) -> None:
    networks: dict[str, set[str]] = {}
    containers = project.containers()
    assert not {"leader", "helper"} & set(containers)
    for name, container in containers.items():
        host, settings = container["HostConfig"], container["NetworkSettings"]
        assert isinstance(host, dict)
        assert isinstance(settings, dict)
        assert host["ReadonlyRootfs"] is True
        assert host["CapDrop"] == ["ALL"]
        assert not host["Privileged"]
        has_port = name in {"leader-entry", "helper-entry", "collector"}
        assert bool(host["PortBindings"]) is has_port
        networks[name] = {each.rpartition("_")[2] for each in settings["Networks"]}
    for party, members in (
        ("leader", {"leader-postgres", "leader-http", "leader-work"}),
        ("helper", {"helper-postgres", "helper-http"}),
    ):
        assert networks[f"{party}-postgres"] == {f"{party}-store"}
        assert {name for name, joined in networks.items() if f"{party}-store" in joined} == members
    secrets = {
        project.compose("exec", "-T", service, "cat", "/secret/pgpass")
        for service in ("leader-http", "helper-http")
    }
    assert len(secrets) == 2
    assert all(len(secret.strip().rpartition(":")[2]) == 64 for secret in secrets)


def test_replicas_behind_one_entry_count_each_report_once_though_one_is_killed(
    project: Project, ports: dict[str, int], tmp_path: Path
) -> None:
    survive(project, ports, tmp_path, ANSWERS)


@pytest.mark.bench
def test_100_000_reports_through_replicas_are_counted_once_though_some_are_killed(
    project: Project, ports: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    survive(project, ports, tmp_path, list(islice(cycle(ANSWERS), MANY)))
    with capsys.disabled():
        print(f"\n{MANY:,} reports in {time.monotonic() - began:.0f} s")  # noqa: T201 - a measurement


def survive(project: Project, ports: dict[str, int], folder: Path, answers: Sequence[str]) -> None:
    """Upload answers and collect them; in the middle one container of each service is killed."""
    start = int(time.time()) // HOUR * HOUR - HOUR
    task_id = provision(project, folder, PARTIES)
    half = len(answers) // 2
    upload(project, folder, answers[:half], start)
    for service, count in SCALED.items():
        ids = project.compose("ps", "--quiet", service).split()
        assert len(ids) == count
        project.docker("kill", ids[0])
    upload(project, folder, answers[half:], start)
    with Collecting(project, ports["collector"]) as collecting:
        result = collecting.result(collecting.ask(task_id, start))
    assert result["report_count"] == len(answers)
    values = result["values"]
    assert isinstance(values, list)
    counts = Counter(answers)
    truth = [counts[bucket] for bucket in BUCKETS]
    assert_near(values, truth, (folder / "task" / "task.toml").read_text())
    for party in ("leader", "helper"):
        shown = json.loads(project.prio(PARTIES[party], "task", "show", task_id))
        assert shown["reports"]["aggregation"] == {"aggregated": len(answers)}
