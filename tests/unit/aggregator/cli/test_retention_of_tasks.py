"""An operator says of each task how long what ended of it is kept, and sees it."""

import json
from pathlib import Path

import pytest

from aggregator.cli.service.parties import open_aggregator
from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import provision
from aggregator.service.storage.tasks.tasks import get_task
from tests.support.commands import run_here, service_file, service_text
from tests.support.entropy import SeededEntropy
from tests.support.tasks import make_task

TASK = make_task()
NAME = str(TASK.task_id)
DAY = 86_400


@pytest.fixture(params=["leader", "helper"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The service file of a party that keeps what ended for five days."""
    file = tmp_path / "party.toml"
    file.write_text(
        service_text(request.param, "party") + f"service.retention_seconds = {5 * DAY}\n"
    )
    return file


def add(config: Path, *options: str) -> None:
    with config.open() as lines:
        role = Role[next(lines).split('"')[1].upper()]
    text = provision(TASK, SeededEntropy(b"secrets"))[role]
    done = run_here("task", "add", "--config", config, "-", *options, stdin=text)
    assert (done.returncode, done.stdout) == (0, f"{NAME}\n")


def shown(config: Path) -> tuple[int, bool]:
    """Return what `prio task show` says: for how long, and whether that is the task's own."""
    document = json.loads(run_here("task", "show", "--config", config, NAME).stdout)
    return document["retention_seconds"], document["retention_is_own"]


def keep(config: Path, *options: str) -> None:
    done = run_here("task", "retention", "--config", config, NAME, *options)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_task_keeps_what_ended_for_as_long_as_it_was_told_last(config: Path) -> None:
    add(config)
    assert shown(config) == (5 * DAY, False)
    assert "kept" not in run_here("task", "list", "--config", config).stdout
    keep(config, "--days", "30")
    assert shown(config) == (30 * DAY, True)
    assert ", kept 30 days  " in run_here("task", "list", "--config", config).stdout
    keep(config, "--days", "0")
    assert shown(config) == (0, True)
    keep(config, "--default")
    assert shown(config) == (5 * DAY, False)


def test_it_is_told_when_it_is_added_and_not_when_its_file_is_added_again(config: Path) -> None:
    add(config, "--keep-days", "365")
    assert shown(config) == (365 * DAY, True)
    add(config)
    assert shown(config) == (365 * DAY, True)
    add(config, "--keep-days", "7")
    assert shown(config) == (7 * DAY, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--days", "366"], "'--days': Input should be less than or equal to 365"),
        (["--days", "-1"], "'--days': Input should be greater than or equal to 0"),
        (["--days", "1.5"], "'--days': Input should be a valid integer"),
        ([], "days: give either --days or --default"),
        (["--days", "0", "--default"], "days: give either --days or --default"),
    ],
)
@pytest.mark.parametrize("config", ["leader"], indirect=True)
def test_what_is_no_such_time_is_refused_by_its_name_and_limit(
    config: Path, options: list[str], message: str
) -> None:
    add(config, "--keep-days", "1")
    done = run_here("task", "retention", "--config", config, NAME, *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert shown(config) == (DAY, True)


@pytest.mark.parametrize("config", ["leader"], indirect=True)
def test_a_task_is_not_added_with_such_a_time(config: Path) -> None:
    add(config)
    done = run_here("task", "add", "--config", config, "-", "--keep-days", "366", stdin="")
    assert done.returncode == 2
    assert "'--keep-days': Input should be less than or equal to 365" in done.stderr
    other = run_here("task", "retention", "--config", config, "A" * 43, "--days", "1")
    assert other.returncode == 1
    assert f"no task {'A' * 43}" in other.stderr
    with open_aggregator(config) as party:
        stored = party.database.read_sync("get", lambda tx: get_task(tx, TASK.task_id.value))
    assert stored is not None
    assert stored.retention_seconds is None


def test_a_collector_keeps_its_results(tmp_path: Path) -> None:
    config = service_file(tmp_path, "collector")
    public = run_here("collector", "config", "--config", config).stdout.strip()
    task = make_task(collector_hpke_config=public)
    text = provision(task, SeededEntropy(b"x"))[Role.COLLECTOR]
    for done in (
        run_here("task", "retention", "--config", config, NAME, "--days", "1"),
        run_here("task", "add", "--config", config, "-", "--keep-days", "1", stdin=text),
    ):
        assert done.returncode == 2
        assert "has the collector's settings; only a leader or a helper has this" in done.stderr
    assert run_here("task", "list", "--config", config).stdout == ""
