"""A survey whose permits an application signs: its keys, its tasks, and what is said of it."""

import json
import stat
from pathlib import Path

import pytest

from aggregator.cli.local.folder import LocalFolder
from aggregator.client.survey.asked_survey import AskedSurvey, read_survey
from aggregator.dap.profile import Role
from aggregator.issuer import Issuer, read_keys
from aggregator.protocol.issuer_key_file import issuer_keys_from_json
from aggregator.protocol.provisioning import read_provisions
from tests.support.commands import Done, run_here
from tests.support.signed import KeptAnswers
from tests.support.surveys import department
from tests.support.tasks import PARTIES

SURVEY = f"""
title = "Visits"
asked = "visitors"
window = "week"
first = 2026-11-02T06:00:00
min_batch_size = 10
answers = "by application"

[budget]
epsilon = "4"
windows = 2

{department()}

[[question]]
name = "word"
kind = "text"
epsilon = "3"
buckets = 16
tasks = 8
"""
LATER = SURVEY.replace("2026-11-02", "2026-11-09")
ONLY_TEXT = SURVEY.replace(department(), "").replace('"3"', '"4"')


def written(folder: Path, text: str) -> Path:
    (folder / "survey.toml").write_text(text)
    return folder / "survey.toml"


def new_keys(folder: Path, text: str = SURVEY) -> Done:
    return run_here("issuer", "new", written(folder, text), "--out", folder / "issuer")


def new(folder: Path, text: str, *options: str | Path, name: str = "made") -> Done:
    return run_here(
        "survey", "new", written(folder, text), "--out", folder / name, *PARTIES, *options
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    done = new_keys(tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


@pytest.fixture
def public(folder: Path) -> Path:
    """The public keys."""
    return folder / "issuer" / "issuer-keys.json"


def asked_in(folder: Path, name: str = "made") -> AskedSurvey:
    made = folder / name
    return read_survey(made / ("task.toml" if (made / "task.toml").exists() else "survey.json"))


def test_there_is_a_key_for_each_window_and_only_their_owner_reads_the_private_ones(
    folder: Path, public: Path
) -> None:
    keys = read_keys(folder / "issuer" / "issuer.keys")
    assert issuer_keys_from_json(public.read_text()) == keys.public
    assert len(keys.keys) == 2
    assert stat.S_IMODE((folder / "issuer" / "issuer.keys").stat().st_mode) == 0o600
    again = new_keys(folder)
    assert again.returncode != 0
    assert read_keys(folder / "issuer" / "issuer.keys").public == keys.public


@pytest.mark.parametrize("text", [SURVEY, ONLY_TEXT], ids=["with texts", "only texts"])
def test_all_tasks_have_the_keys_and_each_question_a_domain_for_all_its_tasks(
    folder: Path, public: Path, text: str
) -> None:
    done = new(folder, text, "--issuer-keys", public)
    assert done.returncode == 0, done.stderr
    assert "by application: one answer in each window from each person" in done.stdout
    assert "in one of which each person's permit counts in a window" in done.stdout
    # No file is said to be the same as another that has other things in it.
    assert "issuer-keys.json, survey.toml (public), and leader.toml" in done.stderr
    asked, keys = asked_in(folder), read_keys(folder / "issuer" / "issuer.keys")
    assert {each.issuer_keys for each in asked.tasks} == {keys.public}
    domains = {each.permits.domain for each in asked.tasks if each.permits is not None}
    assert len(domains) == (1 if text == ONLY_TEXT else 2)
    assert (folder / "made" / "issuer-keys.json").read_bytes() == public.read_bytes()
    for role in (Role.LEADER, Role.HELPER):
        file = (folder / "made" / f"{role.name.lower()}.toml").read_text()
        assert {each.task.issuer_keys for each in read_provisions(file, role)} == {keys.public}
    Issuer(keys, asked.tasks, KeptAnswers())  # they are the issuer's
    # The first key is of the window in which the survey begins, and the last of its last.
    interval, task = asked.first.interval, asked.first
    assert interval is not None
    numbers = [task.permit_window(each.units.to_bytes(8, "big")) for each in (interval.start,)]
    assert numbers == [keys.public.first]


def test_nobody_makes_the_survey_without_keys_or_with_those_of_other_windows(
    folder: Path, public: Path
) -> None:
    for text, options, said in (
        (SURVEY, (), "issuer-keys: missing; whoever runs the application makes them"),
        (LATER, ("--issuer-keys", public), "have no key of one of the survey's windows"),
        (
            SURVEY.replace("by application", "by invitation"),
            ("--issuer-keys", public),
            'issuer-keys: the survey file must have answers = "by application"',
        ),
    ):
        done = new(folder, text, *options)
        assert done.returncode != 0
        assert said in done.stderr
        assert not (folder / "made").exists()


def test_a_changed_survey_keeps_domains_and_keys_so_permits_stay_good(
    folder: Path, public: Path
) -> None:
    assert new(folder, SURVEY, "--issuer-keys", public).returncode == 0
    changed = SURVEY.replace("surgery", "surgeries")
    done = new(folder, changed, "--permits-of", folder / "made" / "task.toml", name="changed")
    assert done.returncode == 0, done.stderr
    before, after = asked_in(folder), asked_in(folder, "changed")
    assert [each.permits for each in before.tasks] == [each.permits for each in after.tasks]
    invited = SURVEY.replace("by application", "by invitation")
    done = new(folder, invited, "--permits-of", folder / "made" / "task.toml", name="invited")
    assert 'permits-of: the survey file must have answers = "by application"' in done.stderr


def test_keys_are_made_for_a_survey_by_application_of_not_too_many_windows(
    tmp_path: Path,
) -> None:
    done = new_keys(tmp_path, SURVEY.replace("by application", "by invitation"))
    assert 'answers: must be "by application" in the survey file' in done.stderr
    done = run_here(
        "survey", "check", written(tmp_path, SURVEY.replace("windows = 2", "windows = 257"))
    )
    assert "an application has permits of at most 256 windows, not 257" in done.stderr


def test_what_the_steward_asks_of_such_a_survey_is_answered_by_name(
    folder: Path, public: Path
) -> None:
    assert new(folder, SURVEY, "--issuer-keys", public).returncode == 0
    task = folder / "made" / "task.toml"
    (folder / "answers.csv").write_text("time,department\n")
    for command, said in (
        (("upload", task, folder / "answers.csv"), "permits: the survey counts only answers of an"),
        (("invite", task, "--count", "3", "--out", folder / "links"), "permits that an issuer"),
    ):
        done = run_here("survey", *command)
        assert done.returncode != 0
        assert said in done.stderr
    json.loads(run_here("survey", "show", task, "--json").stdout)


def test_a_trial_on_one_machine_has_its_own_keys(tmp_path: Path) -> None:
    local = LocalFolder.made(tmp_path / "here")
    text = SURVEY.replace("first = 2026-11-02T06:00:00\n", "")
    for _ in range(2):  # asking it again changes nothing
        done = run_here("survey", "new", written(tmp_path, text), "--up", local.path)
        assert done.returncode == 0, done.stderr
        place = local.surveys / "visits"
        keys = place / "issuer.keys"
        assert f"run your application, whose server signs permits with {keys}" in done.stdout
        assert "survey upload" not in done.stdout
        assert stat.S_IMODE(keys.stat().st_mode) == 0o600
        asked = read_survey(place / "task.toml")
        assert {each.issuer_keys for each in asked.tasks} == {read_keys(keys).public}
    trial = ("--up", local.path, "--issuer-keys", place / "issuer-keys.json")
    done = run_here("survey", "new", tmp_path / "survey.toml", *trial)
    assert "issuer-keys: a trial on one machine has links and keys of its own" in done.stderr
