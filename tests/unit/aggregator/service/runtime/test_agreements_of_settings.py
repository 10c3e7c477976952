"""A file of agreements is read as its service's: from beside it, by its owner alone, or not."""

from pathlib import Path

import pytest

from aggregator.dap.profile import Role
from aggregator.errors import ConfigurationError
from aggregator.service.config import HelperSettings, LeaderSettings, read_settings_of
from aggregator.service.runtime.in_band import agreements_of
from tests.support.commands import service_file
from tests.support.in_band import COLLECTOR_TOKEN, agreements_text

MORE = 'service.in_band_tasks = "agreements.toml"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "agreements.toml"
    made.touch(0o600)
    made.write_text(agreements_text(Role.LEADER))
    return made


def settings(folder: Path) -> LeaderSettings:
    return read_settings_of(LeaderSettings, service_file(folder, "leader", MORE))


def test_without_a_file_no_task_comes_in_band(tmp_path: Path) -> None:
    of_none = read_settings_of(LeaderSettings, service_file(tmp_path, "leader"))
    assert agreements_of(of_none) is None


def test_a_file_lies_beside_the_services_own(tmp_path: Path, file: Path) -> None:
    found = agreements_of(settings(tmp_path))
    assert found is not None
    assert found.max_tasks == 8
    assert file.parent == tmp_path


def test_a_file_that_others_can_read_is_refused(tmp_path: Path, file: Path) -> None:
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="lets others read or write it"):
        agreements_of(settings(tmp_path))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"agreements\.toml"):
        agreements_of(settings(tmp_path))


def test_a_leaders_file_is_no_helpers(tmp_path: Path, file: Path) -> None:
    of_helper = read_settings_of(HelperSettings, service_file(tmp_path, "helper", MORE))
    with pytest.raises(ConfigurationError, match="collector_token: no such setting") as raised:
        agreements_of(of_helper)
    assert COLLECTOR_TOKEN not in str(raised.value)
    assert file.exists()
