"""`prio up --party` makes one party's folder for a deployment, and overwrites nothing."""

import os
import shutil
from pathlib import Path

import pytest

from aggregator.cli.local import party_folder
from aggregator.cli.local.folder import LocalFolder
from aggregator.errors import LocalError
from aggregator.service.config import read_settings
from aggregator.service.storage.opening import open_aggregator_store, open_database
from tests.support.commands import run_here

PARTIES = ("leader", "helper", "collector")


def prepared(party: str, folder: Path) -> str:
    """Make a folder; return what is said."""
    done = run_here("up", "--party", party, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "a place"


@pytest.mark.parametrize("party", PARTIES)
def test_all_of_it_is_its_owners_alone_and_the_key_not_beside_the_store(
    place: Path, party: str
) -> None:
    said = prepared(party, place)
    for each in (place, *place.rglob("*")):
        assert each.stat().st_mode & 0o777 == (0o700 if each.is_dir() else 0o600), each
    settings = read_settings(place / f"{party}.toml")
    assert settings.store_key_file is not None
    assert settings.store_key_file.exists()
    assert settings.store_key_file.parent != Path(settings.database).parent
    assert settings.store_key_file.read_text().strip() not in said
    assert f"made {place / 'key' / f'{party}.key'}" in said
    assert f"--config '{place}/{party}.toml'" in said
    assert not any((place / "store").iterdir())


@pytest.mark.parametrize("party", ["leader", "helper"])
def test_an_aggregator_s_store_opens_with_the_key_and_its_journal_lies_elsewhere(
    place: Path, party: str
) -> None:
    prepared(party, place)
    settings = read_settings(place / f"{party}.toml")
    assert settings.role != "collector"
    key = (place / "key" / f"{party}.key").read_bytes()
    database, journal = open_aggregator_store(settings)
    database.close()
    journal.close()
    assert (place / "key" / f"{party}.key").read_bytes() == key
    assert [each.name for each in (place / "journal").iterdir()] == [f"{party}.journal"]
    assert f"{party}.sqlite" in [each.name for each in (place / "store").iterdir()]


@pytest.mark.parametrize("party", PARTIES)
def test_what_stands_in_the_file_as_a_comment_is_a_setting(place: Path, party: str) -> None:
    prepared(party, place)
    file = place / f"{party}.toml"
    lines = file.read_text().splitlines()
    file.write_text("\n".join(each.removeprefix("# ") if " = " in each else each for each in lines))
    settings = read_settings(file)
    if settings.role == "collector":
        assert settings.allowed_hosts == "results.example"
    else:
        assert settings.min_batch_size == 100
        assert settings.max_epsilon == 2
        assert settings.limit_required


def test_again_it_changes_nothing_and_says_the_same_steps(place: Path) -> None:
    first = prepared("leader", place)
    (place / "leader.toml").write_text((place / "leader.toml").read_text() + "# mine\n")
    before = {each: each.read_bytes() for each in place.rglob("*") if each.is_file()}
    again = prepared("leader", place)
    assert f"{place} is complete" in again
    assert again.partition("Nothing runs yet")[2] == first.partition("Nothing runs yet")[2]
    assert before == {each: each.read_bytes() for each in place.rglob("*") if each.is_file()}


@pytest.mark.parametrize("calls", range(1, 4))
def test_one_that_was_half_made_is_completed(
    place: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    made = []

    def dies_after(name: str) -> None:
        whole = getattr(party_folder, name)

        def dying(*given: object) -> object:
            if len(made) == calls - 1:
                raise LocalError("killed here")
            made.append(name)
            return whole(*given)

        monkeypatch.setattr(party_folder, name, dying)

    for name in ("create_private", "read_settings", "create_secret"):
        dies_after(name)
    assert run_here("up", "--party", "helper", place).returncode == 1
    monkeypatch.undo()
    prepared("helper", place)
    assert f"{place} is complete" in prepared("helper", place)


def test_a_store_whose_key_is_gone_gets_no_other(place: Path) -> None:
    prepared("collector", place)
    open_database(read_settings(place / "collector.toml")).close()
    (place / "key" / "collector.key").unlink()
    done = run_here("up", "--party", "collector", place)
    assert done.returncode == 2
    assert f"and its key {place}/key/collector.key does not: bring the key back" in done.stderr
    assert not (place / "key" / "collector.key").exists()


def test_the_file_of_another_party_under_its_name_is_refused(place: Path) -> None:
    prepared("helper", place)
    shutil.move(place / "helper.toml", place / "leader.toml")
    done = run_here("up", "--party", "leader", place)
    assert done.returncode == 2
    assert f"prio: {place}/leader.toml: has the helper's settings, not the leader's" in done.stderr


@pytest.mark.parametrize("party", ["leader", "collector"])
def test_a_folder_of_another_party_gets_no_second_one(place: Path, party: str) -> None:
    prepared("helper", place)
    before = sorted(place.rglob("*"))
    done = run_here("up", "--party", party, place)
    assert done.returncode == 2
    assert f"prio: {place}: is the helper's folder" in done.stderr
    assert sorted(place.rglob("*")) == before


def test_a_folder_that_others_may_enter_is_refused(place: Path) -> None:
    prepared("leader", place)
    (place / "key").chmod(0o711)
    done = run_here("up", "--party", "leader", place)
    assert f"{place}/key: its mode 0711 lets others in; chmod 700" in done.stderr


def test_a_folder_of_one_operator_is_none_for_a_deployment(place: Path) -> None:
    LocalFolder.made(place)
    done = run_here("up", "--party", "leader", place)
    assert done.returncode == 2
    assert "holds all three parties' keys" in done.stderr


def test_it_starts_nothing_and_refuses_what_would(place: Path) -> None:
    done = run_here("up", "--party", "leader", "--open", place)
    assert done.returncode == 2
    assert not place.exists()
    assert run_here("up", "--party", "clerk", place).returncode == 2


def test_what_this_process_makes_afterwards_is_as_open_as_before(place: Path) -> None:
    before = os.umask(0o022)
    try:
        prepared("leader", place)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_here("up", "--party", "leader", tmp_path / "file" / "leader")
    assert done.returncode == 2
    assert done.stderr == f"prio: {tmp_path}/file/leader: Not a directory\n"
