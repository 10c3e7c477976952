"""What commands do where no store is: a disk that is missing for now is no new party."""

import shutil
from pathlib import Path

import pytest

from aggregator.service.storage.ledger.journal import Release
from aggregator.service.storage.ledger.journal_file import JournalFile
from tests.support.commands import run_here
from tests.support.store import TASK_ID, TENTH, units

CONFIG = 'role = "{role}"\ndatabase = "disk/store.sqlite"\nstore_key_file = "store.key"\n'
LOOKING = (
    ("status",),
    ("task", "list"),
    ("job", "list"),
    ("ledger",),
    ("hpke", "list"),
    ("keys", "rewrap"),
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "helper.toml"
    file.write_text(f'{CONFIG.format(role="helper")}release_journal = "journal"\n')
    return file


def test_commands_that_look_make_no_store(tmp_path: Path, config: Path) -> None:
    collector = tmp_path / "collector.toml"
    collector.write_text(CONFIG.format(role="collector"))
    commands = [(*each, "--config", config) for each in LOOKING]
    commands.append(("status", "--config", collector))
    commands.append(("collect", "--config", collector, "A" * 43, "--start", "0", "--end", "3600"))
    for command in commands:
        done = run_here(*command)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), (command, done)
        assert f"there is no store {tmp_path}/disk/store.sqlite" in done.stderr
    assert {each.name for each in tmp_path.iterdir()} == {"helper.toml", "collector.toml"}


def test_no_store_is_made_beside_the_journal_of_one_that_has_released(
    tmp_path: Path, config: Path
) -> None:
    assert run_here("hpke", "new", "--config", config).returncode == 0
    JournalFile(tmp_path / "journal").append([Release(TASK_ID, units(0, 10), bytes(32), TENTH, 7)])
    shutil.rmtree(tmp_path / "disk")
    restored = ("store", "restored", "--backup-time", "2026-11-02", "--config", config)
    for command in (("helper", "serve", "--processes=1"), ("hpke", "new"), ("status",)):
        done = run_here(*command, "--config", config)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), (command, done)
        assert "the journal" in done.stderr
        assert "has releases of one (1): is its disk there?" in done.stderr
    assert run_here(*restored).returncode == 2
    assert not (tmp_path / "disk").exists()
    assert run_here(*restored, "--trust-journal").returncode == 0
    assert run_here("status", "--config", config).returncode == 0
