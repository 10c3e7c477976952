"""A store and its key are made together, and a store without its key is never given another."""

import stat
import threading
from pathlib import Path

import pytest
from pydantic import SecretStr

from aggregator.cli.collector.collector import make_token
from aggregator.cli.service.parties import open_aggregator
from aggregator.cli.service.taking_part import take_part
from aggregator.dap.ids import TaskId
from aggregator.dap.profile import Role
from aggregator.entropy import SystemEntropy
from aggregator.errors import ConfigurationError, StoreError
from aggregator.protocol.provisioning import provision
from aggregator.service.config import CollectorSettings, HelperSettings, read_settings
from aggregator.service.runtime import Runtime
from aggregator.service.storage.engine.presence import Duty
from aggregator.service.storage.opening import open_database
from aggregator.service.storage.secrets.crypter import new_store_key
from aggregator.service.storage.secrets.files import create_secret, read_secret
from tests.support.clock import ManualClock
from tests.support.commands import run_here, service_text
from tests.support.entropy import SeededEntropy
from tests.support.racers import run_at_once
from tests.support.tasks import make_task


def settings_in(folder: Path, key: str | None = None) -> HelperSettings:
    return HelperSettings(
        database=str(folder / "helper.sqlite"),
        store_key_file=folder / "helper.sqlite.key",
        store_key=None if key is None else SecretStr(key),
    )


async def hpke_config_ids(settings: HelperSettings) -> list[int]:
    database = open_database(settings)
    try:
        runtime = Runtime(Role.HELPER, database, ManualClock(0), SystemEntropy())
        await runtime.ensure_keypair()
        return [config.id for config in (await runtime.configs()).configs]
    finally:
        database.close()


def test_a_new_store_gets_a_key_that_only_its_owner_can_read(tmp_path: Path) -> None:
    open_database(settings_in(tmp_path)).close()
    for name in ("helper.sqlite", "helper.sqlite.key", "helper.sqlite.key.store"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "helper.sqlite",
        "helper.sqlite.key",
        "helper.sqlite.key.store",
    ]


async def test_a_store_is_opened_again_with_its_key_and_keeps_its_hpke_key_pair(
    tmp_path: Path,
) -> None:
    (config_id,) = await hpke_config_ids(settings_in(tmp_path))
    key = (tmp_path / "helper.sqlite.key").read_text()
    assert await hpke_config_ids(settings_in(tmp_path)) == [config_id]
    assert (tmp_path / "helper.sqlite.key").read_text() == key
    (tmp_path / "helper.sqlite.key").unlink()
    assert await hpke_config_ids(settings_in(tmp_path, key)) == [config_id]


def test_a_store_whose_key_is_missing_is_refused_and_gets_no_other(tmp_path: Path) -> None:
    open_database(settings_in(tmp_path)).close()
    (tmp_path / "helper.sqlite.key").unlink()
    with pytest.raises(ConfigurationError, match="restore the key"):
        open_database(settings_in(tmp_path))
    assert not (tmp_path / "helper.sqlite.key").exists()


async def test_a_store_opened_with_another_key_says_so(tmp_path: Path) -> None:
    await hpke_config_ids(settings_in(tmp_path))
    with pytest.raises(StoreError, match=r"which is not in the list of store_key, for the store /"):
        await hpke_config_ids(settings_in(tmp_path, new_store_key(SystemEntropy())))
    file = tmp_path / "helper.sqlite.key"
    key = file.read_text()
    file.write_text(("A" if key[0] != "A" else "B") + key[1:])  # still a key, but another
    with pytest.raises(StoreError, match=f"not in the list of store_key_file: {file}, for"):
        await hpke_config_ids(settings_in(tmp_path))


def test_no_hpke_key_is_made_under_another_key_than_the_rest_of_a_store(tmp_path: Path) -> None:
    """The store would then need both, and with the right one alone its service would not start."""
    config = tmp_path / "helper.toml"
    config.write_text(service_text("helper", "s"))
    task = tmp_path / "task.toml"
    task.write_text(provision(make_task(), SeededEntropy(b"another key"))[Role.HELPER])
    task.chmod(0o600)
    assert run_here("task", "add", "--config", config, task).returncode == 0
    key = (tmp_path / "s.key").read_text()
    (tmp_path / "s.key").write_text(new_store_key(SystemEntropy()))
    refused = run_here("hpke", "new", "--config", config)
    assert refused.returncode == 2
    assert "tasks.verify_key was written under the store key" in refused.stderr
    other = tmp_path / "other.toml"
    task_id = str(TaskId(bytes(32)))
    other.write_text(provision(make_task(id=task_id), SeededEntropy(b"other"))[Role.HELPER])
    other.chmod(0o600)
    refused = run_here("task", "add", "--config", config, other)
    assert refused.returncode == 2
    assert "tasks.verify_key was written under the store key" in refused.stderr
    (tmp_path / "s.key").write_text(key)
    assert run_here("hpke", "new", "--config", config).returncode == 0


def test_a_directory_in_the_place_of_a_key_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "helper.sqlite.key").mkdir()
    with pytest.raises(ConfigurationError, match=r"helper\.sqlite\.key: is a directory") as caught:
        open_database(settings_in(tmp_path))
    assert "chmod" not in str(caught.value)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ("", "the store needs at least one key"),
        ("not a key!", "a store key must be base64url, as `prio keys new` prints it"),
        ("AAAA", "a store key must be 32 bytes; `prio keys new` prints one"),
    ],
)
def test_a_file_without_a_usable_key_is_named(tmp_path: Path, held: str, said: str) -> None:
    settings = settings_in(tmp_path)
    file = create_key_file(tmp_path, held)
    with pytest.raises(ConfigurationError) as caught:
        open_database(settings)
    assert str(caught.value) == f"store_key_file: {file}: {said}"
    with pytest.raises(ConfigurationError, match=f"^store_key: {said}"):
        open_database(settings_in(tmp_path, held))


def create_key_file(folder: Path, held: str) -> Path:
    file = folder / "helper.sqlite.key"
    file.write_text(held)
    file.chmod(0o600)
    return file


def test_a_status_with_a_key_that_opens_no_task_is_not_ok(tmp_path: Path) -> None:
    config = tmp_path / "helper.toml"
    config.write_text(
        'service.role = "helper"\nservice.database = "helper.sqlite"\nkeys.store_key_file = "k"\n'
    )
    with open_aggregator(config) as party:
        take_part(party, provision(make_task(), SeededEntropy(b"x"))[Role.HELPER])
        here = party.database.presence(list(Duty))
    here.keep()  # as a service does
    assert run_here("status", "--config", config).returncode == 0
    here.close()
    (tmp_path / "k").write_text(new_store_key(SystemEntropy()))
    done = run_here("status", "--config", config)
    assert done.returncode == 1
    assert "no task can be served: " in done.stdout
    assert "was written under the store key" in done.stdout


@pytest.mark.parametrize(
    ("database", "file"),
    [
        ("{}/a store.sqlite", "a store.sqlite"),
        ("{}/100%25?.sqlite", "100%25?.sqlite"),
        ("sqlite:///{}/helper.sqlite", "helper.sqlite"),
        ("sqlite:///{}/a%20store.sqlite", "a store.sqlite"),
        ("sqlite+pysqlite:///{}/helper.sqlite", "helper.sqlite"),
    ],
)
def test_however_a_store_is_named_its_key_is_never_replaced(
    tmp_path: Path, database: str, file: str
) -> None:
    key = tmp_path / "elsewhere" / "store.key"
    settings = HelperSettings(database=database.format(tmp_path), store_key_file=key)
    open_database(settings).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([file, "elsewhere"])
    key.unlink()
    with pytest.raises(ConfigurationError, match="restore the key"):
        open_database(settings)


def test_a_key_lies_beside_its_store_only_if_the_operator_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="store_key_file: names no file"):
        open_database(HelperSettings(database=str(tmp_path / "helper.sqlite")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("database", ["sqlite:///{}/x?timeout=3", "mysql://host/{}", "a://b://{}"])
def test_no_key_is_made_for_a_store_that_cannot_be_made(tmp_path: Path, database: str) -> None:
    with pytest.raises(ConfigurationError):
        open_database(
            HelperSettings(
                database=database.format(tmp_path), store_key_file=tmp_path / "store.key"
            )
        )
    assert list(tmp_path.iterdir()) == []


def test_two_processes_with_the_same_number_that_make_a_secret_get_the_same_one(
    tmp_path: Path,
) -> None:
    """In two containers over one volume both may be process 1."""
    for attempt in range(20):
        path = tmp_path / f"{attempt}.key"
        made: list[str] = []
        together = threading.Barrier(2)

        def make(secret: str, path: Path = path, together: threading.Barrier = together) -> None:
            together.wait()
            made.append(create_secret(path, secret))  # noqa: B023 - both threads end below

        threads = [threading.Thread(target=make, args=(name * 40,)) for name in "AB"]
        run_at_once(threads)
        assert made == [read_secret(path)] * 2
    assert {path.suffix for path in tmp_path.iterdir()} == {".key"}


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    open_database(settings_in(tmp_path)).close()
    key_file = tmp_path / "helper.sqlite.key"
    key_file.chmod(mode)
    with pytest.raises(
        ConfigurationError, match=f"mode {mode:04o} lets others read or write it; chmod 600"
    ):
        open_database(settings_in(tmp_path))
    key_file.chmod(0o400)
    open_database(settings_in(tmp_path)).close()


@pytest.mark.parametrize(
    ("role", "line"),
    [
        ("helper", 'service.database = "x.sqlite"\nkeys.store_key = "x"'),
        ("collector", 'service.database = "x.sqlite"\nkeys.token = "' + "x" * 22 + '"'),
        ("leader", 'service.database = "postgresql://prio:x@db.example/leader"'),
        ("leader", 'service.database = "postgresql://db.example/leader?user=prio&password=x"'),
        (
            "helper",
            (
                'service.database = "x.sqlite"\n'
                'service.release_journal = "postgresql://prio:x@db.example/j"'
            ),
        ),
    ],
)
def test_a_service_file_with_a_secret_that_others_can_read_is_refused(
    tmp_path: Path, role: str, line: str
) -> None:
    path = tmp_path / "service.toml"
    path.write_text(f'service.role = "{role}"\nkeys.store_key_file = "x.key"\n{line}\n')
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_settings(path)
    path.chmod(0o600)
    assert read_settings(path).role == role


def test_a_service_file_without_a_secret_may_be_read_by_all(tmp_path: Path) -> None:
    path = tmp_path / "service.toml"
    path.write_text(
        'service.role = "leader"\nservice.database = "postgresql://prio@db.example:5432/leader"\n'
    )
    path.chmod(0o644)
    assert read_settings(path).role == "leader"


def test_the_collectors_token_is_made_once_beside_its_store(tmp_path: Path) -> None:
    settings = CollectorSettings(database=str(tmp_path / "collector.sqlite"))
    make_token(settings)
    path = tmp_path / "collector.sqlite.token"
    token = path.read_text()
    make_token(settings)
    assert (path.read_text(), len(token.strip())) == (token, 43)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
