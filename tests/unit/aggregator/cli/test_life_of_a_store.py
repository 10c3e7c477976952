"""A store is backed up, gets another key, and forgets a task, all from the command line."""

import json
from pathlib import Path

import pytest

from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import provision
from tests.support.commands import Done, run_here
from tests.support.entropy import SeededEntropy
from tests.support.tasks import make_task

TASK = make_task()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return the service file of a helper that takes part in a task."""
    file = tmp_path / "helper.toml"
    file.write_text('role = "helper"\ndatabase = "helper.sqlite"\nstore_key_file = "helper.key"\n')
    (tmp_path / "task.toml").write_text(provision(TASK, SeededEntropy(b"task"))[Role.HELPER])
    prio("task", "add", tmp_path / "task.toml", "--config", file)
    return file


def prio(*arguments: str | Path, status: int = 0) -> Done:
    done = run_here(*arguments)
    assert done.returncode == status, done
    return done


def test_a_backup_is_made_and_checked_with_the_key_that_reads_it(
    config: Path, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    assert "keep the store key elsewhere" in prio("backup", backup, "--config", config).stdout
    checked = prio("backup", "--check", backup, "--config", config).stdout
    assert "tasks of helper, 1 secrets" in checked
    assert "exists" in prio("backup", backup, "--config", config, status=2).stderr
    key = tmp_path / "helper.key"
    key.write_text(prio("keys", "new").stdout)
    refused = prio("backup", "--check", backup, "--config", config, status=1)
    assert "which is not given" in refused.stderr


def test_a_store_key_is_replaced(config: Path, tmp_path: Path) -> None:
    key = tmp_path / "helper.key"
    new, old = prio("keys", "new").stdout, key.read_text()
    key.write_text(new + old)
    said = prio("keys", "rewrap", "--config", config).stdout
    assert said.startswith("1 secrets are under the first key now")
    key.write_text(new)
    assert str(TASK.task_id) in prio("task", "list", "--config", config).stdout
    prio("task", "show", str(TASK.task_id), "--config", config)


def test_a_task_is_forgotten_when_it_has_ended(config: Path, tmp_path: Path) -> None:
    task_id = str(TASK.task_id)
    early = prio("task", "forget", task_id, "--config", config, status=2)
    assert "`prio task end` ends it" in early.stderr
    prio("task", "end", task_id, "--config", config)
    prio("task", "forget", task_id, "--config", config)
    assert prio("task", "list", "--config", config).stdout == ""
    ledger = json.loads(prio("ledger", "--json", "--config", config).stdout)
    assert [each["task_id"] for each in ledger["tasks"]] == [task_id]
    again = prio("task", "add", tmp_path / "task.toml", "--config", config, status=2)
    assert "was forgotten" in again.stderr
