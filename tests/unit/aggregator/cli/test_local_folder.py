"""The folder of one operator who runs all three parties: made, found again, and refused."""

import os
import shlex
import shutil
import socket
from pathlib import Path

import pytest

from aggregator.cli.local import folder as local_folder
from aggregator.cli.local import tasks as local_tasks
from aggregator.cli.local.folder import PARTIES, LocalFolder
from aggregator.client.survey.asked_survey import read_survey
from aggregator.errors import ConfigurationError, LocalError
from tests.support.commands import run_here
from tests.support.small_disk import small_disk
from tests.support.texts import WORD

HEAD = """
title = "Besøg / {title}"
asked = "patients"
window = "week"
first = 2026-11-02
min_batch_size = 50
[budget]
epsilon = "6"
windows = 10
"""
QUESTIONS = """
[[question]]
name = "well"
kind = "yes-no"
[[question]]
name = "ill"
kind = "yes-no"
"""
SURVEY = HEAD + QUESTIONS


def contents(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_it_is_made_once_and_found_with_the_same_ports(tmp_path: Path) -> None:
    folder = LocalFolder.made(tmp_path / "a" / "b")
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in folder.path.iterdir())
    before = contents(folder.path)
    assert contents(LocalFolder.made(folder.path).path) == before
    urls = {folder.url(each) for each in PARTIES} | {folder.status_url(each) for each in PARTIES}
    assert len(urls) == 6


def test_one_that_was_half_made_is_completed(tmp_path: Path) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    kept = folder.config("leader").read_bytes()
    folder.config("helper").unlink()
    (folder.path / "collector.toml.x7d2").write_text("half")
    assert LocalFolder.made(folder.path).url("helper")
    assert folder.config("leader").read_bytes() == kept


@pytest.mark.parametrize("name", ["leader.toml", "letters.txt", ".git"])
def test_a_folder_with_something_of_somebody_elses_is_refused_and_left_alone(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigurationError, match=f"was not made by `prio up` and holds {name}"):
        LocalFolder.made(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "prio").write_text("")
    done = run_here("up", tmp_path / "prio")
    assert done.returncode == 2
    assert done.stderr == f"prio: {tmp_path}/prio: exists already; give a name that is free\n"


def test_a_survey_that_is_none_is_refused_before_a_folder_is_made(tmp_path: Path) -> None:
    (tmp_path / "survey.toml").write_text(SURVEY.replace('"week"', '"4 minutes"'))
    for more in ([], ["--rehearse"], ["--replace"]):
        done = run_here("up", tmp_path / "prio", "--survey", tmp_path / "survey.toml", *more)
        assert done.returncode == 2
        assert "survey: window: must be a number of hours" in done.stderr
    assert not (tmp_path / "prio").exists()


def test_one_that_others_may_read_is_refused(tmp_path: Path) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    folder.path.chmod(0o750)
    with pytest.raises(ConfigurationError, match=r"mode 0750 lets others in; chmod 700"):
        LocalFolder.made(folder.path)


def test_one_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    somebody_else = folder.path.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody_else)
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        LocalFolder.made(folder.path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").rename(tmp_path / "prio-up")  # where `prio survey` looks for one
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        local_folder.found()


@pytest.mark.parametrize("marker", ["layout = 2", "", "layout"])
def test_one_of_another_version_is_refused(tmp_path: Path, marker: str) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    (folder.path / "up.toml").write_text(marker)
    with pytest.raises(ConfigurationError, match=r"up\.toml: (layout must be 1, not|not TOML)"):
        LocalFolder.made(folder.path)


def test_an_environment_that_would_give_all_three_the_same_store_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIO_DATABASE", "theirs.sqlite")
    with pytest.raises(ConfigurationError, match="PRIO_DATABASE: is set in the environment"):
        LocalFolder.made(tmp_path / "here")


def test_a_port_that_somebody_has_is_named_with_its_file_and_setting(tmp_path: Path) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    port = int(folder.url("helper").rpartition(":")[2].strip("/"))
    folder.check_ports()
    with socket.create_server(("127.0.0.1", port)):
        said = run_here("up", folder.path)
    assert said.returncode == 2
    assert f"{folder.config('helper')}: listen: 127.0.0.1:{port}: Address already in use" in (
        said.stderr
    )


def test_a_full_disk_is_named_and_nothing_half_made_hinders_the_next_one() -> None:
    with small_disk(2**20) as disk:
        disk.fill()
        said = run_here("up", disk.folder / "here")
        assert said.returncode == 2
        assert said.stderr.endswith(": No space left on device\n")
        assert said.stderr.count("\n") == 1
        disk.make_room()
        assert LocalFolder.made(disk.folder / "here").url("leader")


def test_a_service_file_without_an_address_is_named(tmp_path: Path) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    folder.config("leader").write_text('service.role = "leader"\n')
    with pytest.raises(ConfigurationError, match=r"leader\.toml: listen: missing"):
        folder.check_ports()


def test_it_is_found_by_name_by_its_usual_name_and_from_within(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_folder.found() is None
    usual = LocalFolder.made(Path("prio-up"))
    assert local_folder.found() == usual
    assert local_folder.found(tmp_path / "prio-up") == LocalFolder(tmp_path / "prio-up")
    with pytest.raises(ConfigurationError, match="was not made by `prio up`"):
        local_folder.found(tmp_path)
    monkeypatch.chdir("prio-up")
    assert local_folder.found() == LocalFolder(Path())


def test_without_a_folder_a_survey_s_commands_say_what_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "survey.toml").write_text(SURVEY.format(title="a"))
    (tmp_path / "answers.csv").write_text("time\n")
    for words in (
        ("new", "survey.toml"),
        ("upload", "answers.csv", "--time-column", "time"),
        ("collect", "--last", "week"),
        ("results",),
    ):
        done = run_here("survey", *words)
        assert done.returncode == 2
        assert "--up with the folder of a `prio up`" in done.stderr, words


def test_a_folder_and_what_it_stands_for_are_not_both_taken(tmp_path: Path) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    survey = tmp_path / "survey.toml"
    survey.write_text(SURVEY.format(title="a"))
    both = run_here("survey", "new", survey, "--up", folder.path, "--out", tmp_path / "out")
    assert "up: replaces --out" in both.stderr
    both = run_here("survey", "results", survey, "--up", folder.path)
    assert "up: stands for task.toml" in both.stderr
    some = run_here("survey", "new", survey, "--out", tmp_path / "out", "--leader", "https://a/")
    assert some.stderr == "prio: helper: missing\n"


@pytest.mark.slow
def test_a_survey_that_one_party_alone_has_is_added_to_the_others_when_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    survey = tmp_path / "survey.toml"
    survey.write_text(SURVEY.format(title="a"))
    collectors = local_tasks.open_collector
    calls = []

    def fail_at_the_second(config: Path | None) -> object:
        calls.append(config)
        if len(calls) == 2:
            raise LocalError("killed here")
        return collectors(config)

    monkeypatch.setattr(local_tasks, "open_collector", fail_at_the_second)
    assert run_here("survey", "new", survey, "--up", folder.path).returncode == 1
    monkeypatch.undo()
    tasks = folder.surveys / "besøg-a" / "task.toml"
    before = tasks.read_bytes()
    done = run_here("survey", "new", survey, "--up", folder.path)
    assert done.returncode == 0, done.stderr
    assert f"prio up {folder.path}\n" in done.stdout
    assert tasks.read_bytes() == before
    listed = [run_here("task", "list", "--config", folder.config(each)) for each in PARTIES]
    assert [len(each.stdout.splitlines()) for each in listed] == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("questions", [QUESTIONS, QUESTIONS + WORD, WORD.replace("1/4", "6")])
def test_the_next_step_is_one_that_its_own_survey_takes(tmp_path: Path, questions: str) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    (tmp_path / "survey.toml").write_text(HEAD.format(title="a") + questions)
    done = run_here("survey", "new", tmp_path / "survey.toml", "--up", folder.path)
    (step,) = (each for each in done.stdout.splitlines() if each.startswith("  prio survey upload"))
    answers = tmp_path / "answers.csv"
    answers.write_text("time,person,well,ill,word\n2026-11-03,1,yes,no,pear\n")
    words = step.replace("answers.csv", str(answers)).replace("--state ", f"--state {tmp_path}/")
    read = run_here(*shlex.split(words)[1:], "--dry-run")
    assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize(("first", "is_later"), [("2020-01-06", False), ("2999-01-07", True)])
def test_a_step_for_which_it_is_too_early_says_from_when_on_it_is_taken(
    tmp_path: Path, first: str, *, is_later: bool
) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    head = HEAD.format(title="a").replace("2026-11-02", first).replace("= 10", "= 1000")
    (tmp_path / "survey.toml").write_text(head + QUESTIONS)
    done = run_here("survey", "new", tmp_path / "survey.toml", "--up", folder.path)
    assert done.returncode == 0, done.stderr
    (step,) = (each for each in done.stdout.splitlines() if "prio survey collect" in each)
    assert step.endswith('--last "week"' + "  # from 2999-01-14T00:00Z on" * is_later)


@pytest.mark.slow
def test_a_survey_of_text_questions_alone_is_found_shown_and_asked_like_any_other(
    tmp_path: Path,
) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    (tmp_path / "survey.toml").write_text(HEAD.format(title="a") + WORD.replace("1/4", "6"))
    done = run_here("survey", "new", tmp_path / "survey.toml", "--up", folder.path)
    assert done.returncode == 0, done.stderr
    assert "one person: one report per window for each question, epsilon 6;" in done.stdout
    assert "survey.json' answers.csv --time-column time --person-column person" in done.stdout
    (name,) = folder.survey_names
    public = folder.tasks_of_only_survey()
    assert public == folder.surveys / name / "survey.json"
    asked = read_survey(public)
    listed = run_here("task", "list", "--config", folder.config("helper")).stdout
    assert all(str(each.task_id) in listed for each in asked.tasks)
    (chart,) = folder.chart_urls(folder.surveys / name)
    assert chart.endswith(f"questions/{asked.first.task_id}/words")
    shown = run_here("survey", "show", public).stdout
    assert f"{asked.first.task_id}  fingerprint {asked.first.fingerprint}" in shown
    assert "word  asked in people's own words" in shown
    page = run_here("survey", "form", "--up", folder.path)
    assert page.returncode == 0, page.stderr
    assert page.stdout.count("<fieldset") == 1


@pytest.mark.slow
def test_of_several_surveys_one_has_to_be_named(tmp_path: Path) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    for title in "ab":
        (tmp_path / "survey.toml").write_text(SURVEY.format(title=title))
        done = run_here("survey", "new", tmp_path / "survey.toml", "--up", folder.path)
        assert done.returncode == 0, done.stderr
    several = run_here("survey", "results", "--up", folder.path)
    assert several.returncode == 2
    assert "2 surveys are asked here, name one: " in several.stderr
    shutil.rmtree(folder.surveys)
    none = run_here("survey", "results", "--up", folder.path)
    assert "no survey is asked here" in none.stderr
