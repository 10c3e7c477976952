"""Made-up answers stay on the machine that made them up: every other party refuses their tasks."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aggregator.cli.local.folder import PARTIES, LocalFolder
from aggregator.cli.local.tasks import collector_config, files_in, hand_out, withdraw
from aggregator.cli.steward.survey_rehearse import nobody, taken_part
from aggregator.cli.steward.survey_texts import write_survey
from aggregator.codec import encode
from aggregator.dap.ids import encode_base64url
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.task import MADE_UP
from aggregator.steward.survey import plan, survey_from_toml, task_tables
from aggregator.steward.survey.made_up import rehearsal_of
from tests.support.commands import run_here, service_text
from tests.support.surveys import VISITS, department
from tests.support.tasks import make_task
from tests.support.texts import WORD

LOCAL = {"leader": "http://127.0.0.1:7001/", "helper": "http://127.0.0.1:7002/"}


def rehearsal_in(place: Path, title: str = f"{MADE_UP}Visits", **settings: str) -> dict[Role, str]:
    """Return each party's file of a task whose title is that of a rehearsal."""
    survey = survey_from_toml(VISITS + department()).model_copy(update={"title": title})
    tables = task_tables(survey, plan(survey))
    given: dict[str, Any] = {**tables.settings, **LOCAL, **settings}
    task = make_task(tables.vdaf, tables.privacy, **given)
    write_survey(task, {}, place)
    return files_in(place)


@pytest.mark.parametrize("role", PARTIES)
def test_no_party_of_a_real_pair_takes_part_in_one(tmp_path: Path, role: str) -> None:
    rehearsal_in(tmp_path / "made")
    config = tmp_path / "service.toml"
    config.write_text(service_text(role))
    done = run_here("task", "add", tmp_path / "made" / f"{role}.toml", "--config", config)
    assert done.returncode == 2
    assert done.stderr == (
        f"prio: {tmp_path}/made/{role}.toml: task_info: its answers are made up, and only `prio "
        "survey rehearse` adds such a task, on one machine\n"
    )
    assert run_here("task", "list", "--config", config).stdout == ""


@pytest.mark.parametrize("command", ["form", "upload", "spell"])
def test_nobody_else_answers_one(tmp_path: Path, command: str) -> None:
    rehearsal_in(tmp_path / "made")
    (tmp_path / "given").write_text("")
    more: dict[str, list[str | Path]] = {
        "form": [],
        "upload": [tmp_path / "given"],
        "spell": ["--found", tmp_path / "given", "--window", "now", "--out", tmp_path / "out"],
    }
    done = run_here("survey", command, tmp_path / "made" / "task.toml", *more[command])
    assert done.returncode == 2
    assert "its answers are made up, and nobody else answers it" in done.stderr


def test_not_even_a_local_folder_does_so_unless_it_rehearses(tmp_path: Path) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    files = rehearsal_in(tmp_path / "made")
    with pytest.raises(ParameterError, match="its answers are made up"):
        hand_out(folder, files)
    real = rehearsal_in(tmp_path / "real", "Visits")
    with pytest.raises(ParameterError, match="no other tasks than those whose answers are made up"):
        hand_out(folder, real, rehearses=True)


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize("url", ["http://10.0.0.7:8001/", "https://leader.example/"])
def test_none_names_an_address_of_another_machine(tmp_path: Path, name: str, url: str) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    with pytest.raises(ParameterError, match=f"^{name}: {url} is not an address of this machine"):
        hand_out(folder, rehearsal_in(tmp_path / "made", **{name: url}), rehearses=True)
    listed = [run_here("task", "list", "--config", folder.config(each)) for each in PARTIES]
    assert [each.stdout for each in listed] == ["", "", ""]


def test_one_that_is_over_is_gone_from_every_party(tmp_path: Path) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    own = {"collector_hpke_config": encode_base64url(encode(collector_config(folder)))}
    hand_out(folder, rehearsal_in(folder.rehearsals / "visits", **own), rehearses=True)
    assert run_here("task", "list", "--config", folder.config("collector")).stdout
    for _ in range(2):
        withdraw(folder, folder.rehearsals / "visits", results_too=True)
        for each in PARTIES:
            assert run_here("task", "list", "--config", folder.config(each)).stdout == ""


def test_without_a_pair_that_runs_the_way_to_one_is_said(tmp_path: Path) -> None:
    (tmp_path / "my survey.toml").write_text(VISITS + department())
    folder = LocalFolder.made(tmp_path / "here")
    done = run_here("survey", "rehearse", tmp_path / "my survey.toml", "--up", folder.path)
    assert done.returncode == 1
    assert f"`prio up '{tmp_path}/my survey.toml' --rehearse` starts one" in done.stderr


def test_a_survey_with_a_text_question_is_rehearsed_again_in_place_of_the_first(
    tmp_path: Path,
) -> None:
    folder, place = LocalFolder.made(tmp_path / "here"), tmp_path / "here" / "made"
    survey = survey_from_toml(VISITS + department() + WORD)
    now = datetime(2026, 11, 25, tzinfo=UTC)
    for _ in range(2):
        taken_part(folder, rehearsal_of(survey, now, 3, nobody(survey.title)), place)
        listed = [run_here("task", "list", "--config", folder.config(each)) for each in PARTIES]
        for party in listed:
            assert party.stdout.count(MADE_UP) == 1 + 8
