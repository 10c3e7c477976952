"""A store is backed up, gets another key, and forgets a task, all from the command line."""

import json
import shutil
from pathlib import Path

import anyio
import pytest

from aggregator.cli.service import services
from aggregator.cli.service.parties import open_aggregator
from aggregator.dap.profile import Role
from aggregator.protocol.provisioning import provision
from aggregator.service.config import LeaderSettings
from aggregator.service.config.reading import read_settings_of
from aggregator.service.storage.engine.objects import LEAST_BYTES
from aggregator.service.storage.reports.groups import StoredReport
from aggregator.service.storage.reports.reports import put_reports
from tests.support.commands import Done, run_here, service_file, service_text
from tests.support.entropy import SeededEntropy
from tests.support.patience import PATIENCE_SECONDS
from tests.support.store import unit
from tests.support.tasks import make_task

TASK = make_task()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return the service file of a helper that takes part in a task."""
    file = service_file(tmp_path, "helper")
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


LINES = service_text("leader")


def with_a_body(tmp_path: Path) -> tuple[Path, Path]:
    """Return the settings of a leader in whose folder of bodies, returned too, a report waits."""
    folder = tmp_path / "bodies"
    (tmp_path / "task.toml").write_text(provision(TASK, SeededEntropy(b"task"))[Role.LEADER])
    config = tmp_path / "leader.toml"
    config.write_text(f'{LINES}service.report_bodies = "file://{folder}"\n')
    prio("task", "add", tmp_path / "task.toml", "--config", config)
    with open_aggregator(config) as party:
        body = bytes(LEAST_BYTES)
        report = StoredReport(body[:16], unit(5), 0, body)
        party.database.run_sync(
            "upload", lambda tx: put_reports(tx, TASK.task_id.value, [report], 9)
        )
    return config, folder


def test_a_store_that_went_back_frees_no_id(tmp_path: Path) -> None:
    """A request that the store has forgotten may have had the report."""
    config, folder = with_a_body(tmp_path)
    prio("store", "after-restore", "--trust-journal", "--config", config)
    shutil.rmtree(folder)
    said = prio("store", "give-up-bodies", "--even-all", "--config", config).stdout
    assert "1: one that is sent again is refused" in said


@pytest.mark.slow
def test_a_leader_does_not_start_without_the_place_in_which_reports_wait(tmp_path: Path) -> None:
    """Uploaded reports are nowhere else: taking them for lost would reject them for good."""
    config, folder = with_a_body(tmp_path)
    config.write_text(LINES)
    serving = ("leader", "serve", "--processes=1", "--config", config)
    refused = prio(*serving, status=2).stderr
    assert f"report_bodies: is not set, and 1 reports that wait lie in folder {folder}" in refused
    shutil.rmtree(folder)
    config.write_text(f'{LINES}service.report_bodies = "file://{folder}"\n')
    giving_up = ("store", "give-up-bodies", "--config", config)
    assert "is it the right place" in prio(*giving_up, status=2).stderr
    looked = prio(*giving_up, "--dry-run").stdout
    free = f"{TASK.task_id}: 1 reports in 1 bodies\n  1: whoever sends one of them again is counted"
    assert looked == f"0 waiting reports can be read, 1 cannot\n{free}\nnothing is given up yet\n"
    given_up = prio(*giving_up, "--even-all").stdout
    assert given_up == f"0 waiting reports can be read, 1 cannot\n{free}\ngiven up\n"
    assert prio(*giving_up).stdout == "0 waiting reports can be read, 0 cannot\n"


@pytest.mark.slow  # a whole leader
async def test_a_leader_knows_the_place_of_its_reports_as_long_as_it_runs(tmp_path: Path) -> None:
    """Or it would take an empty place for one that has lost all of them."""
    folder = tmp_path / "bodies"
    config = service_file(tmp_path, "leader", f'service.report_bodies = "file://{folder}"\n')
    settings = read_settings_of(LeaderSettings, config)
    stop = anyio.Event()
    async with (
        services._leader(settings, serve=False, work=False) as service,
        anyio.create_task_group() as group,
    ):
        for work in service.works:
            group.start_soon(work, stop)
        with anyio.fail_after(PATIENCE_SECONDS):
            while not list(folder.glob("*")):  # noqa: ASYNC110  a folder tells nobody
                await anyio.sleep(0.01)
        stop.set()
    assert not list(folder.iterdir())
