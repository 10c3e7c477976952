"""A task in band by the command line: its collector brings it, and its results are collected."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from aggregator.dap.profile import Role
from tests.support.in_band import COLLECTOR_TOKEN, agreements_text
from tests.support.processes import COMMANDS, Processes

pytestmark = pytest.mark.slow

SIZE = 12
NEW_TASK = (
    *("--vdaf", "histogram", "--length", "4", "--epsilon", "1/2"),
    *("--batch-mode", "leader-selected"),
    *("--min-batch-size", str(SIZE), "--max-reports", "1000", "--privacy", "max_releases=2"),
)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as made:
        config = made.prio("collector", "config", "--config", made.configs["collector"])
        partner = {
            "leader": made.urls["leader"],
            "helper": made.urls["helper"],
            "collector_hpke_config": config.stdout.strip(),
        }
        for role in (Role.LEADER, Role.HELPER):
            name = role.name.lower()
            file = tmp_path / f"{name}-agreements.toml"
            file.touch(0o600)
            file.write_text(agreements_text(role, partner, max_tasks_by_uploads=1))
            made.change(name, in_band_tasks=file.name)
        made.start(*COMMANDS)
        yield made


def new_task(services: Processes, folder: Path, options: Sequence[str]) -> str:
    """Have the collector make a task and add it; return its id."""
    config = services.configs["collector"]
    public = services.prio("collector", "config", "--config", config).stdout.strip()
    task_id = services.prio(
        *("task", "new", "--in-band", "--out", folder, "--collector-config", public),
        *("--leader", services.urls["leader"], "--helper", services.urls["helper"]),
        *options,
    ).stdout.strip()
    services.prio("task", "add", "--config", config, folder / "collector.toml")
    return task_id


def test_a_task_is_brought_answered_and_collected_and_no_operator_adds_it(
    services: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIO_COLLECTOR_TOKEN", COLLECTOR_TOKEN)
    config, made = services.configs["collector"], tmp_path / "made"
    task_id = new_task(services, made, NEW_TASK)
    assert sorted(each.name for each in made.iterdir()) == ["collector.toml", "task.toml"]
    services.prio("upload", made / "task.toml", *["2"] * (SIZE - 1))  # which brings it
    told = services.prio("task", "bring", "--config", config, task_id)
    assert told.stdout == f"{task_id}: the leader takes part\n"
    services.prio("upload", made / "task.toml", "2")
    done = services.prio("collect", "--config", config, task_id, "--json")
    assert json.loads(done.stdout)["result"]["report_count"] == SIZE
    listed = [
        json.loads(services.prio("task", "list", "--json", "--config", each).stdout)
        for each in (services.configs["leader"], services.configs["helper"])
    ]
    assert all(task_id in json.dumps(each) for each in listed)


def test_a_task_that_was_not_agreed_on_is_refused_with_the_limit(
    services: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIO_COLLECTOR_TOKEN", COLLECTOR_TOKEN)
    config = services.configs["collector"]
    weak = [each.replace("1/2", "2") for each in NEW_TASK]
    task_id = new_task(services, tmp_path / "made", weak)
    done = services.prio("task", "bring", "--config", config, task_id, status=3)
    assert "at most epsilon 1/2; the task has epsilon 2" in done.stderr
