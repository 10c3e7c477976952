"""A store and its key are made together, and a store without its key is never given another."""

import stat
from pathlib import Path

import pytest
from pydantic import SecretStr

from aggregator.cli.stores import open_database
from aggregator.config import HelperSettings
from aggregator.dap.profile import Role
from aggregator.entropy import SystemEntropy
from aggregator.errors import ConfigurationError, StoreError
from aggregator.party import Party
from aggregator.storage.crypter import new_store_key
from tests.support.clock import ManualClock


def settings_in(folder: Path, key: str | None = None) -> HelperSettings:
    return HelperSettings(
        database=str(folder / "helper.sqlite"),
        store_key=None if key is None else SecretStr(key),
    )


async def hpke_config_ids(settings: HelperSettings) -> list[int]:
    database = open_database(settings)
    try:
        party = Party(Role.HELPER, database, ManualClock(0), SystemEntropy())
        await party.ensure_keypair()
        return [config.id for config in (await party.configs()).configs]
    finally:
        database.close()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_a_new_store_gets_a_key_that_only_its_owner_can_read(tmp_path: Path) -> None:
    open_database(settings_in(tmp_path)).close()
    for name in ("helper.sqlite", "helper.sqlite.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "helper.sqlite",
        "helper.sqlite.key",
    ]


@pytest.mark.anyio
async def test_a_store_is_opened_again_with_its_key_and_keeps_its_hpke_key_pair(
    tmp_path: Path,
) -> None:
    assert await hpke_config_ids(settings_in(tmp_path)) == [0]
    key = (tmp_path / "helper.sqlite.key").read_text()
    assert await hpke_config_ids(settings_in(tmp_path)) == [0]
    assert (tmp_path / "helper.sqlite.key").read_text() == key
    (tmp_path / "helper.sqlite.key").unlink()
    assert await hpke_config_ids(settings_in(tmp_path, key)) == [0]


def test_a_store_whose_key_is_missing_is_refused_and_gets_no_other(tmp_path: Path) -> None:
    open_database(settings_in(tmp_path)).close()
    (tmp_path / "helper.sqlite.key").unlink()
    with pytest.raises(ConfigurationError, match="restore the key"):
        open_database(settings_in(tmp_path))
    assert not (tmp_path / "helper.sqlite.key").exists()


@pytest.mark.anyio
async def test_a_store_opened_with_another_key_says_so(tmp_path: Path) -> None:
    await hpke_config_ids(settings_in(tmp_path))
    with pytest.raises(StoreError, match="which is not in the list"):
        await hpke_config_ids(settings_in(tmp_path, new_store_key(SystemEntropy())))
