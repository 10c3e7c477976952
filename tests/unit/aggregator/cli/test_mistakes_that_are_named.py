"""What operators mistake is named: another party's file, a task's file, a leader that is away."""

from pathlib import Path

import pytest

from aggregator.cli.service.parties import open_collector
from aggregator.cli.service.taking_part import take_part
from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import provision, provision_all
from tests.support.commands import run_here, service_file
from tests.support.entropy import SeededEntropy
from tests.support.ports import free_ports
from tests.support.tasks import make_task


@pytest.mark.parametrize("owner", [Role.HELPER, Role.COLLECTOR])
def test_the_owner_of_another_partys_file_is_named(tmp_path: Path, owner: Role) -> None:
    config = service_file(tmp_path, "leader")
    text = provision(make_task(), SeededEntropy(b"secrets"))[owner]
    done = run_here("task", "add", "--config", config, "-", stdin=text)
    assert done.returncode == 2
    assert f"this one is the {owner.name.lower()}'s" in done.stderr


@pytest.mark.parametrize("of", ["task", "survey"])
def test_a_tasks_file_is_not_taken_for_a_services(tmp_path: Path, of: str) -> None:
    file = tmp_path / "leader.toml"
    entropy = SeededEntropy(b"secrets")
    files = (
        provision(make_task(), entropy) if of == "task" else provision_all([make_task()], entropy)
    )
    file.write_text(files[Role.LEADER])
    done = run_here("leader", "serve", "--processes=1", "--config", file)
    assert done.returncode == 2
    assert "this is a task's file, and a service's is needed" in done.stderr


def test_a_changed_task_is_refused_by_the_name_that_everybody_uses(tmp_path: Path) -> None:
    config = service_file(tmp_path, "helper")
    for seed, status in ((b"one", 0), (b"two", 2)):
        text = provision(make_task(), SeededEntropy(seed))[Role.HELPER]
        done = run_here("task", "add", "--config", config, "-", stdin=text)
        assert done.returncode == status
    assert f"task {make_task().task_id} is stored with other contents" in done.stderr


def test_a_collection_whose_leader_is_away_ends_with_that(tmp_path: Path) -> None:
    config = service_file(tmp_path, "collector")
    public = run_here("collector", "config", "--config", config).stdout.strip()
    (port,) = free_ports(1)
    task = make_task(collector_hpke_config=public, leader=f"http://127.0.0.1:{port}/")
    with open_collector(config) as party:
        take_part(party, provision(task, SeededEntropy(b"x"))[Role.COLLECTOR])
    done = run_here(
        *("collect", "--config", config, str(task.task_id)),
        *("--start", "0", "--end", "100", "--timeout", "6"),
    )
    assert done.returncode == 3
    assert f"the leader http://127.0.0.1:{port} does not answer: connection refused" in done.stderr
