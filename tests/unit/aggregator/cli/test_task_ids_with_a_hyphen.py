"""Task ids that look like options: one in 64 begins with a hyphen."""

import json
from pathlib import Path

import pytest

from aggregator.cli.service.parties import open_aggregator
from aggregator.cli.service.taking_part import take_part
from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import provision
from tests.support.commands import run_here, service_file
from tests.support.entropy import SeededEntropy
from tests.support.tasks import NO_NOISE, make_task

IDS = ["-9HVHr2s4t63aboBhT5gT-LhfOm0-ePBEtBn5LpoqPE", "--HVHr2s4t63aboBhT5gT-LhfOm0-ePBEtBn5LpoqPE"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a helper's service file; it serves a task of each id."""
    file = service_file(tmp_path, "helper")
    with open_aggregator(file) as party:
        for number, task_id in enumerate(IDS):
            task = make_task(privacy=NO_NOISE, id=task_id)
            take_part(party, provision(task, SeededEntropy(number))[Role.HELPER])
    return file


@pytest.mark.parametrize("task_id", IDS)
def test_show_and_end_take_a_task_id_with_a_hyphen_before_and_after_options(
    config: Path, task_id: str
) -> None:
    for arguments in ((task_id, "--config", config), ("--config", config, task_id)):
        shown = run_here("task", "show", *arguments)
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["task_id"] == task_id
    ended = run_here("task", "end", "--config", config, "--", task_id)
    assert ended.returncode == 0, ended.stderr
    assert run_here("ledger", "--config", config, "--task", task_id).returncode == 0


@pytest.mark.parametrize("task_id", IDS)
def test_collect_takes_a_task_id_with_a_hyphen(config: Path, task_id: str) -> None:
    done = run_here("collect", "--config", config, task_id, "--start", "0", "--end", "3600")
    assert done.returncode == 2
    assert "No such option" not in done.stderr
    assert "has the helper's settings; give the collector's file" in done.stderr


def test_an_unknown_option_is_still_named(config: Path) -> None:
    done = run_here("task", "show", "--confg", config, IDS[0])
    assert done.returncode == 2
    assert "--confg" in done.stderr
