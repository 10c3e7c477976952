"""What commands do where no store is: a disk that is missing for now is no new party."""

import errno
import shutil
from pathlib import Path

import pytest

from aggregator.service.storage.ledger.journal import Release
from aggregator.service.storage.ledger.journal_file import JournalFile
from aggregator.service.storage.secrets import store_mark
from tests.support.commands import run_here
from tests.support.store import TASK_ID, TENTH, units

CONFIG = (
    'service.role = "{role}"\nservice.database = "disk/store.sqlite"\n'
    'keys.store_key_file = "store.key"\n'
)
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
    file.write_text(f'{CONFIG.format(role="helper")}service.release_journal = "journal"\n')
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


@pytest.mark.slow
def test_no_store_is_made_beside_the_journal_of_one_that_has_released(
    tmp_path: Path, config: Path
) -> None:
    assert run_here("hpke", "new", "--config", config).returncode == 0
    JournalFile(tmp_path / "journal").append([Release(TASK_ID, units(0, 10), bytes(32), TENTH, 7)])
    shutil.rmtree(tmp_path / "disk")
    restored = ("store", "after-restore", "--backup-time", "2026-11-02", "--config", config)
    for command in (("helper", "serve", "--processes=1"), ("hpke", "new"), ("status",)):
        done = run_here(*command, "--config", config)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), (command, done)
        assert "the journal" in done.stderr
        assert "is that of one, with 1 releases: is its disk there?" in done.stderr
    assert run_here(*restored).returncode == 2
    assert not (tmp_path / "disk").exists()
    assert run_here(*restored, "--trust-journal").returncode == 0
    done = run_here("status", "--config", config)
    assert "no process of this helper runs" in done.stdout


def test_an_aggregator_that_has_released_nothing_begins_nothing_anew_either(
    tmp_path: Path, config: Path
) -> None:
    assert run_here("hpke", "new", "--config", config).returncode == 0
    shutil.rmtree(tmp_path / "disk")
    done = run_here("hpke", "new", "--config", config)
    assert "is that of one, with 0 releases: is its disk there?" in done.stderr
    (tmp_path / "journal").unlink()
    done = run_here("hpke", "new", "--config", config)
    assert f"is the key of one that was at {tmp_path}/disk/store.sqlite" in done.stderr
    assert not (tmp_path / "disk").exists()
    restored = ("store", "after-restore", "--trust-journal", "--config", config)
    assert run_here(*restored).returncode == 0


@pytest.fixture
def collector(tmp_path: Path) -> Path:
    """Return the service file of a collector."""
    file = tmp_path / "collector.toml"
    file.write_text(CONFIG.format(role="collector"))
    return file


def test_a_collector_whose_store_is_gone_makes_no_other_with_another_key(
    tmp_path: Path, collector: Path
) -> None:
    first = run_here("collector", "config", "--config", collector)
    assert first.returncode == 0
    away = (tmp_path / "disk").rename(tmp_path / "unmounted")
    commands = (("collector", "serve"), ("collector", "config"), ("status",), ("task", "list"))
    for command in commands:
        done = run_here(*command, "--config", collector)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
        assert f"is the key of one that was at {tmp_path}/disk/store.sqlite" in done.stderr
        assert f"if it is lost for ever, remove {tmp_path}/store.key.store" in done.stderr
        assert not (tmp_path / "disk").exists()
    away.rename(tmp_path / "disk")
    assert run_here("collector", "config", "--config", collector).stdout == first.stdout

    shutil.rmtree(tmp_path / "disk")
    (tmp_path / "store.key.store").unlink()
    assert run_here("collector", "config", "--config", collector).returncode == 0


def test_a_store_that_was_emptied_is_gone_too(tmp_path: Path, collector: Path) -> None:
    run_here("collector", "config", "--config", collector)
    (tmp_path / "disk" / "store.sqlite").write_bytes(b"")
    done = run_here("collector", "config", "--config", collector)
    assert (done.returncode, "is its disk there?" in done.stderr) == (2, True)


def test_a_key_that_was_made_beforehand_is_no_sign_of_a_store(
    tmp_path: Path, collector: Path
) -> None:
    key = tmp_path / "store.key"
    key.write_text(run_here("keys", "new").stdout)
    key.chmod(0o600)
    assert run_here("collector", "config", "--config", collector).returncode == 0
    moved = (tmp_path / "disk").rename(tmp_path / "elsewhere")
    collector.write_text(CONFIG.format(role="collector").replace("disk", "elsewhere"))
    assert run_here("collector", "config", "--config", collector).returncode == 0
    shutil.rmtree(moved)
    done = run_here("collector", "config", "--config", collector)
    assert f"one that was at {moved}/store.sqlite" in done.stderr


def test_a_key_whose_folder_cannot_be_written_serves_a_store(
    tmp_path: Path, collector: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, text: str) -> bool:
        raise OSError(errno.EROFS, f"{path}: {text}")

    monkeypatch.setattr(store_mark, "create_private", refuse)
    assert run_here("collector", "config", "--config", collector).returncode == 0
    assert run_here("collector", "config", "--config", collector).returncode == 0
    assert not (tmp_path / "store.key.store").exists()
