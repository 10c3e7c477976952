"""Files that commands read and write, however editors save them and whatever fills the disk."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aggregator.protocol.task_file import task_to_toml
from aggregator.service.config.text_files import MOST_BYTES
from tests.support.commands import run_here, service_text
from tests.support.tasks import make_task

TASK = task_to_toml(make_task())
BOM = b"\xef\xbb\xbf"
SERVICE = (
    b'service.role = "helper"\nservice.database = "helper.sqlite"\n'
    b'keys.store_key_file = "helper.key"\n'
)


@pytest.mark.parametrize(
    "content",
    [
        BOM + TASK.encode(),
        TASK.replace("\n", "\r\n").encode(),
        BOM + TASK.replace("\n", "\r\n").encode(),
    ],
    ids=["byte order mark", "CRLF", "both"],
)
def test_a_task_file_that_windows_has_saved_is_the_same_task(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "task.toml"
    file.write_text(TASK)
    expected = run_here("task", "check", file)
    file.write_bytes(content)
    assert run_here("task", "check", file) == expected
    assert expected.returncode == 0


def test_a_service_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "helper.toml"
    file.write_bytes(BOM + SERVICE)
    assert run_here("hpke", "new", "--config", file).returncode == 0


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A file that takes no room, and would take all memory."""
    file = tmp_path / "endless"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)
    return file


COMMANDS = (
    ("task", "check", "FILE"),
    ("task", "add", "--config", "CONFIG", "FILE"),
    ("task", "token", "use", "--config", "CONFIG", "A" * 43, "FILE"),
    ("task", "list", "--config", "FILE"),
    ("survey", "check", "FILE"),
    ("survey", "show", "FILE"),
    ("upload", "FILE", "1"),
    ("job", "compare", "--config", "CONFIG", "FILE"),
    ("plan", "keep", "--epsilon", "1", "--delta", "1/1000", "--counts", "FILE"),
    ("plan", "compose", "--task", "FILE", "--releases", "2", "--delta", "1e-6"),
    ("decode", "--message", "upload-req", "FILE"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_file_without_an_end_is_refused_with_its_name_and_the_limit(
    tmp_path: Path, endless: Path, command: tuple[str, ...]
) -> None:
    config = tmp_path / "helper.toml"
    config.write_bytes(SERVICE)
    named = {"FILE": endless, "CONFIG": config}
    done = run_here(*(named.get(each, each) for each in command))
    said = f"prio: {endless}: must not hold more than {MOST_BYTES:,} bytes\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize("command", COMMANDS[:-1], ids=" ".join)
def test_what_is_no_text_is_refused_with_its_name(tmp_path: Path, command: tuple[str, ...]) -> None:
    config, file = tmp_path / "helper.toml", tmp_path / "file"
    config.write_bytes(SERVICE)
    file.write_bytes("Für Ärzte".encode("latin-1"))
    named = {"FILE": file, "CONFIG": config}
    done = run_here(*(named.get(each, each) for each in command))
    assert (done.returncode, done.stderr) == (2, f"prio: {file}: is not UTF-8 text\n")


@pytest.mark.parametrize("command", [("task", "check"), ("survey", "check"), ("survey", "show")])
def test_what_is_wrong_in_a_file_is_said_with_its_name(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    file = tmp_path / "some.toml"
    file.write_text("version = [")
    done = run_here(*command, file)
    assert done.returncode == 2
    assert done.stderr.startswith(f"prio: {file}: ")
    assert "not TOML" in done.stderr


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let writing fail as on a full disk: files of this process cannot become larger.

    What is imported meanwhile keeps no compiled file, half of which would fail every later import.
    """
    before, kept = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = kept


NOISE = ("noise", "--scale", "2", "--count", "1000", "--out")


@pytest.mark.parametrize(
    "command",
    [NOISE, ("plan", "advise", "--reports", "1000", "--buckets", "4", "--error", "9", "--out")],
    ids=["noise", "plan advise"],
)
def test_a_file_that_could_not_be_written_whole_is_not_there(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    made = tmp_path / "made"
    for content in (None, "before"):
        if content is not None:
            made.write_text(content)
        with files_of_at_most(20):
            done = run_here(*command, made)
        assert (done.returncode, done.stderr) == (2, f"prio: {made}: File too large\n")
        assert [each.read_text() for each in tmp_path.iterdir()] == ([content] if content else [])
    assert run_here(*command, made).returncode == 0
    assert [each.name for each in tmp_path.iterdir()] == ["made"]


def test_a_task_whose_files_could_not_be_written_is_not_there(tmp_path: Path) -> None:
    out = tmp_path / "survey"
    config = run_here("collector", "config", "--config", _collector(tmp_path)).stdout.strip()
    command = (
        *("task", "new", "--out", out, "--collector-config", config, "--vdaf", "Prio3Count"),
        *("--leader", "https://leader.example/", "--helper", "https://helper.example/"),
        *("--epsilon", "1", "--min-batch-size", "10", "--max-reports", "100"),
        *("--privacy", "budget=2"),
    )
    before = sorted(tmp_path.iterdir())
    with files_of_at_most(600):  # the public file fits, and a file with secrets does not
        done = run_here(*command)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"prio: {out}: File too large")
    assert sorted(tmp_path.iterdir()) == before
    assert run_here(*command).returncode == 0
    assert {each.name for each in out.iterdir()} == {
        *("task.toml", "leader.toml", "helper.toml", "collector.toml")
    }
    assert "exists already" in run_here(*command).stderr


def test_a_backup_without_room_names_where_it_goes_and_leaves_nothing(tmp_path: Path) -> None:
    config, folder = tmp_path / "helper.toml", tmp_path / "backups"
    config.write_bytes(SERVICE)
    folder.mkdir()
    assert run_here("hpke", "new", "--config", config).returncode == 0
    with files_of_at_most(8192):
        done = run_here("backup", "--config", config, folder / "helper.backup")
    assert done.returncode == 1
    assert done.stderr.startswith(f"prio: backup: the store {tmp_path}/helper.sqlite to {folder}: ")
    assert list(folder.iterdir()) == []


def test_a_store_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    config = tmp_path / "helper.toml"
    config.write_bytes(SERVICE)
    (tmp_path / "helper.sqlite").mkdir()
    (tmp_path / "helper.key").write_text("A" * 43)
    (tmp_path / "helper.key").chmod(0o600)
    done = run_here("hpke", "new", "--config", config)
    assert done.returncode == 2
    assert f"database: {tmp_path}/helper.sqlite: " in done.stderr
    assert "directory, and a file is needed" in done.stderr


def _collector(folder: Path) -> Path:
    file = folder / "collector.toml"
    file.write_text(service_text("collector", "c"))
    return file
