"""A party's database goes back, beside its newest keys: by mistake, or because the newest is lost.

By docs/operations/backups.md, "Go back to a backup".
"""

import shutil
from pathlib import Path

import pytest
from anyio import to_thread

from aggregator.dap.times import Interval
from aggregator.service.storage.backup.backup import back_up
from aggregator.service.storage.batches.sums import buckets_without_key
from aggregator.service.storage.secrets.key_file import KeyFile, KeysAhead
from tests.support.commands import Done, run_here, service_file
from tests.support.pair import Pair, Service, pair_of

HOUR = 3600
MEASUREMENTS = [0, 1, 1, 3]
parties = pytest.mark.parametrize("name", ["leader", "helper"])


pair = pair_of()


async def aggregated(pair: Pair) -> Interval:
    """Let an hour pass, and its reports be aggregated; return the hour."""
    pair.clock.advance(HOUR)
    now = pair.clock.now()
    await pair.upload(await pair.reports(MEASUREMENTS, now))
    await pair.work_until_idle()
    return pair.interval(now)


def settings_of(folder: Path, name: str) -> Path:
    (folder / f"{name}.key").write_text("A" * 43)  # 32 zero bytes, the key of the pair's stores
    (folder / f"{name}.key").chmod(0o600)
    return service_file(folder, name, f'service.release_journal = "{name}.sqlite.journal"\n')


async def prio(*arguments: str | Path) -> Done:
    return await to_thread.run_sync(lambda: run_here(*arguments))


async def gone_back(pair: Pair, folder: Path, name: str) -> tuple[list[Interval], Path]:
    """Put a backup in the place of a party's database; return the hours, and the newest database.

    The first hour was aggregated before the backup, three came after it.
    """
    service: Service = getattr(pair, name)
    hours = [await aggregated(pair)]
    back_up(service.url, folder / "backup")
    hours += [await aggregated(pair) for _ in range(3)]
    service.database.close()
    newest = (folder / f"{name}.sqlite").rename(folder / "newest")
    put_in_place(folder / "backup", folder, name)
    return hours, newest


def put_in_place(file: Path, folder: Path, name: str) -> None:
    for ending in ("-wal", "-shm"):
        (folder / f"{name}.sqlite{ending}").unlink(missing_ok=True)
    shutil.copy(file, folder / f"{name}.sqlite")


@parties
async def test_an_older_database_that_is_put_there_by_mistake_costs_no_sum(
    pair: Pair, tmp_path: Path, name: str
) -> None:
    hours, newest = await gone_back(pair, tmp_path, name)
    keys, config = tmp_path / f"{name}.sqlite.keys", settings_of(tmp_path, name)
    before, service = keys.read_bytes(), getattr(pair, name)
    with pytest.raises(KeysAhead):
        service.start()
    for command in ("status", "ledger"):
        looked = await prio(command, "--config", config)
        assert looked.returncode != 0
        assert "sqlite.keys has those of 3 sums that came later" in looked.stderr
        assert "put the newest database back" in looked.stderr
    assert keys.read_bytes() == before
    put_in_place(newest, tmp_path, name)
    service.start()
    assert service.database.read_sync("lost", buckets_without_key).lost == []
    for hour in hours:
        assert (await pair.collect(hour)).report_count == len(MEASUREMENTS)


@parties
async def test_a_lost_databases_keys_are_destroyed_when_its_operator_says_that_it_is_lost(
    pair: Pair, tmp_path: Path, name: str
) -> None:
    hours, _ = await gone_back(pair, tmp_path, name)
    restored = ("store", "after-restore", "--config", settings_of(tmp_path, name))
    done = await prio(*restored, "--trust-journal")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "the keys of 3 sums from after the backup were destroyed",
        "0 sums had lost their key and were closed",
    ]
    assert len(KeyFile(tmp_path / f"{name}.sqlite.keys").held().slots) == 1
    getattr(pair, name).start()
    for hour in (hours[0], await aggregated(pair)):
        assert (await pair.collect(hour)).report_count == len(MEASUREMENTS)


WRONG = {
    "the store is said not to be from a backup": (["--journal-damaged"], "came later"),
    "the journal is not there": (["--trust-journal"], "does not exist"),
    "the time cannot be the backup's": (["--backup-time", "2999-01-01"], "backup-time: must be"),
    "lost tasks would come back by themselves": (["--backup-time", "2001-01-01"], "in_band_tasks:"),
}


@pytest.mark.parametrize(("words", "why"), WRONG.values(), ids=WRONG)
async def test_a_command_that_is_refused_destroys_no_keys(
    pair: Pair, tmp_path: Path, words: list[str], why: str
) -> None:
    await gone_back(pair, tmp_path, "leader")
    keys = tmp_path / "leader.sqlite.keys"
    before = keys.read_bytes()
    if "does not exist" in why:
        (tmp_path / "leader.sqlite.journal").unlink()
    settings = settings_of(tmp_path, "leader")
    if "in_band_tasks" in why:
        with settings.open("a") as file:
            file.write('service.in_band_tasks = "agreements.toml"\n')
    refused = await prio("store", "after-restore", "--config", settings, *words)
    assert refused.returncode != 0
    assert why in refused.stderr
    assert keys.read_bytes() == before
