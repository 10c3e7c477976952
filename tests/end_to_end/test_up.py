"""`prio up`: from a survey file to a result with three commands, and what may come between."""

import csv
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.support.look import Page
from tests.support.patience import PATIENCE_SECONDS
from tests.support.up import LAST_LINE, Up, is_up

pytestmark = pytest.mark.slow

ROWS = 120
YES, AGES = 40, sum(range(ROWS)) / ROWS
NAME = "all on one machine"
"""Of the folder: with spaces, and relative."""
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
LAST_WEEK = NOON - timedelta(days=NOON.weekday() + 3)
SURVEY = f"""
title = "Visits"
asked = "patients"
window = "week"
first = {LAST_WEEK - timedelta(days=4):%Y-%m-%d}
min_batch_size = 50
[budget]
epsilon = "6"
windows = 10
[[question]]
name = "well"
kind = "yes-no"
[[question]]
name = "age"
kind = "number"
low = 0
high = 120
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a survey file and last week's answers."""
    place = tmp_path_factory.mktemp("up")
    (place / "survey.toml").write_text(SURVEY)
    with (place / "answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "well", "age"])
        for index in range(ROWS):
            writer.writerow([LAST_WEEK.isoformat(), "yes" if index < YES else "no", index])
    return place


@pytest.fixture(scope="module")
def up(place: Path) -> Iterator[Up]:
    """The first of the three commands, whose answers are uploaded by the second."""
    with is_up(place, NAME, "--survey", "survey.toml", is_cold=True) as up:
        assert up.said.endswith(LAST_LINE), up.said
        yield up


@pytest.fixture(scope="module")
def uploaded(place: Path, up: Up) -> str:
    """What the second command says, as the first one prints it."""
    (line,) = re.findall(r"^  (prio survey upload .*)$", up.said, re.MULTILINE)
    return shell(line, place)


def shell(line: str, cwd: Path, status: int = 0) -> str:
    """Run a line in a shell; return what it prints."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(  # noqa: S603  as a person would
        ["bash", "-c", line],  # noqa: S607  where the system has it
        cwd=cwd,
        env=os.environ | {"PATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, (line, done.stdout, done.stderr)
    return done.stdout + done.stderr


def get(url: str) -> httpx.Response:
    return httpx.get(url, trust_env=False, timeout=PATIENCE_SECONDS)


def value(document: str, question: str, shows: str, label: str = "") -> float:
    """Return the estimate of the one figure of a question that shows something."""
    wanted = question, shows, label
    (found,) = [
        float(row["value"])
        for row in json.loads(document)["rows"]
        if (row["question"], row["shows"], row["label"]) == wanted
    ]
    return found


def test_a_survey_of_two_questions_takes_three_commands_to_its_result(
    place: Path, up: Up, uploaded: str
) -> None:
    assert f"{ROWS} of {ROWS} reports accepted" in uploaded
    (line,) = re.findall(r"^  (prio survey collect .*)$", up.said, re.MULTILINE)
    assert "intervals: 95 %" in shell(line, place)
    printed = shell(f"prio survey results --json --up '{NAME}'", place)
    # 95 % intervals are ± 1 and ± 5.5; so far off, one in 10^10 is.
    assert abs(value(printed, "well", "count", "yes") - YES) < 10
    assert abs(value(printed, "age", "mean") - AGES) < 40


def test_in_the_folder_or_with_its_name_nothing_else_need_be_said(
    place: Path, uploaded: str
) -> None:
    assert uploaded
    in_it = shell("prio survey collect --last week", place / NAME)
    named = shell(f"prio survey results --up '{NAME}'", place)
    assert in_it == named
    assert "Visits; patients" in shell(f"prio survey show '{NAME}/surveys/visits/task.toml'", place)
    again = "prio survey upload ../answers.csv --time-column time --dry-run"
    assert f"age: {ROWS} answers" in shell(again, place / NAME)


def test_the_pages_are_there_and_a_file_of_the_owner_leads_to_them(
    place: Path, up: Up, uploaded: str
) -> None:
    assert uploaded
    assert "nobody has privacy from that operator" in up.said
    page = place / NAME / "pages.html"
    assert page.stat().st_mode & 0o777 == 0o600
    assert f"Results are linked from this file, which logs in: {page.as_uri()}" in up.said
    token = (place / NAME / "collector.sqlite.token").read_text().strip()
    assert token not in up.said
    shown = Page(page.read_text())
    assert "nobody has privacy from that operator" in shown.elements[0].text
    chart, collector, leader, helper = (each.attributes["href"] for each in shown.all("a")[1:])
    (results,) = re.findall(r"^visits is shown at: http://[^/]*(\S+)$", up.said, re.MULTILINE)
    assert chart == f"{collector.partition('#')[0]}?to={quote(results, '')}#token={token}"
    assert collector.endswith(f"login#token={token}")
    for each in (collector, leader, helper):
        assert get(each).status_code == 200
        assert each.partition("login")[0] in up.said


def test_it_serves_the_page_of_a_survey_and_says_where_its_results_are(up: Up) -> None:
    (answered,) = re.findall(r"^visits is answered at: (.*)$", up.said, re.MULTILINE)
    page = get(answered)
    assert page.status_code == 200
    assert re.search(r"<title[^>]*>\W?Visits\W?</title>", page.text)
    (results,) = re.findall(r"^visits is shown at: (.*)$", up.said, re.MULTILINE)
    assert get(results).status_code == 303  # to the login


def test_all_of_it_is_its_owners_alone(place: Path, uploaded: str) -> None:
    assert uploaded
    for each in (place / NAME, *(place / NAME).rglob("*")):
        if (place / NAME / "surveys") not in (each, *each.parents) or each.suffix == ".toml":
            assert each.name == "task.toml" or not each.stat().st_mode & 0o077, each


def test_a_second_one_in_the_same_folder_says_where_the_first_one_is(place: Path, up: Up) -> None:
    with is_up(place, NAME) as second:
        status = second.end()
    assert status == 2
    assert second.said.count("\n") == 1
    assert f"`prio up` runs here, or is ending (process {up.pid}); its pages are at" in second.said
    assert get(re.findall(r"http\S+", second.said)[0]).status_code == 303


def test_asking_a_survey_again_changes_nothing_and_another_of_its_title_is_refused(
    place: Path, up: Up
) -> None:
    assert up.said
    files = {each: each.read_bytes() for each in (place / NAME / "surveys").rglob("*.toml")}
    said = shell(f"prio survey new survey.toml --up '{NAME}'", place)
    assert re.findall(r"prio survey upload .*", said) == re.findall(
        r"prio survey upload .*", up.said
    )
    other = f"sed 's/= 50/= 60/' survey.toml | prio survey new - --up '{NAME}'"
    assert "has another survey of this title" in shell(other, place, status=2)
    assert files == {each: each.read_bytes() for each in (place / NAME / "surveys").rglob("*.toml")}


def spent(place: Path, task: str) -> str:
    """Return what a task has cost people, as its helper knows."""
    (task_id,) = re.findall('^id = "(.*)"$', task, re.MULTILINE)
    return shell(f"prio ledger --config '{NAME}/helper.toml' --task={task_id} --json", place)


def test_a_rehearsal_shows_what_results_will_look_like_and_costs_the_survey_nothing(
    place: Path, uploaded: str
) -> None:
    assert uploaded
    real = (place / NAME / "surveys" / "visits" / "task.toml").read_text()
    before = spent(place, real)
    said = [
        shell(f"prio survey rehearse survey.toml --people {people} --up '{NAME}'", place)
        for people in ("200", "300")  # the second in place of the first
    ]
    (address,) = re.findall(r"^visits, made up: (\S+)$", said[-1], re.MULTILINE)
    made = place / NAME / "rehearsals" / "visits" / "task.toml"
    printed = shell(f"prio survey results '{made}' --json", place)
    rows = json.loads(printed)["rows"]
    assert len({row["window"] for row in rows}) == 3
    assert all(row["window"].startswith("Made up: ") for row in rows)
    assert all(
        abs(row["value"] - 200) < 20  # two thirds of 300 people; at this epsilon ± 1
        for row in rows
        if (row["question"], row["shows"], row["label"]) == ("well", "count", "yes")
    )
    # Every page and file says so, and neither the survey's task nor what it cost has changed.
    token = (place / NAME / "collector.sqlite.token").read_text().strip()
    for path in (".csv", ".json", "/count.svg", *FILES):
        headers = {"Authorization": f"Bearer {token}"}
        shown = httpx.get(
            address + path, headers=headers, trust_env=False, timeout=PATIENCE_SECONDS
        )
        assert (shown.status_code, "Made up: " in shown.text) == (200, True), path
    assert spent(place, real) == before
    assert (place / NAME / "surveys" / "visits" / "task.toml").read_text() == real
    only = shell(f"prio survey results --json --up '{NAME}'", place)
    assert "Made up" not in only


FILES = ("/about.json", "/about.csv", "/batches.json", "/batches.csv")
PARTIES = ("leader", "helper", "collector")
KEPT = ("leader.toml", "leader.key", "helper.key", "collector.key", "collector.sqlite.token")


def addresses(said: str) -> list[str]:
    """Return the addresses that are said."""
    return re.findall(r"http://\S+", said)


def services_of(folder: Path) -> dict[str, int]:
    """Return the processes of the services of a folder, which write their logs there (Linux)."""
    found = {}
    for each in Path("/proc").iterdir():
        if not each.name.isdecimal():
            continue
        try:
            log = (each / "fd" / "1").readlink()
        except OSError:
            continue
        if log.parent == folder and log.stem in PARTIES:
            found[log.stem] = int(each.name)
    return found


def last_words(said: str) -> str:
    return said.split(LAST_LINE)[1]


def test_it_goes_on_where_it_was_whatever_ended_it(tmp_path: Path) -> None:
    """One folder through all its ends, since each beginning starts three services."""
    folder = tmp_path / "prio-up"
    first = two_that_are_started_at_once_are_one(tmp_path)
    kept = {name: (folder / name).read_bytes() for name in KEPT}

    first.signal(signal.SIGINT)
    assert first.end() == 0, first.said
    assert last_words(first.said).endswith("ended; `prio up prio-up` goes on from here\n")
    assert not (folder / "pages.html").exists()

    with is_up(tmp_path) as loses_a_service:
        assert addresses(loses_a_service.said) == addresses(first.said.split(LAST_LINE)[0])
        assert kept == {name: (folder / name).read_bytes() for name in KEPT}
        services = services_of(folder)
        assert sorted(services) == ["collector", "helper", "leader"]
        os.kill(services["helper"], signal.SIGKILL)
        assert loses_a_service.end() == 1
    said = last_words(loses_a_service.said)
    assert "prio: the helper died (killed by SIGKILL); the last lines of " in said
    assert "listening" in said
    assert services_of(folder) == {}

    with is_up(tmp_path) as is_killed:
        os.kill(is_killed.pid, signal.SIGKILL)
        is_killed.end()
    while services_of(folder):
        time.sleep(0.05)

    with is_up(tmp_path) as last:
        assert LAST_LINE in last.said, last.said
        last.signal(signal.SIGTERM)
        assert last.end() == 0, last.said
    assert last_words(last.said).endswith("ended; `prio up prio-up` goes on from here\n")

    with sqlite3.connect(folder / "helper.sqlite") as store:
        store.execute("UPDATE alembic_version SET version_num = '0012'")
    store.close()
    with is_up(tmp_path) as up:
        assert up.end() == 1
    assert "prio: the helper died (exit status 2)" in up.said
    assert "helper.sqlite: its schema is at version 0012" in up.said
    assert services_of(folder) == {}


def two_that_are_started_at_once_are_one(place: Path) -> Up:
    """Start two in a folder that is not there yet; return the one that runs."""
    both = [Up(place), Up(place)]
    for each in both:
        each.wait_until_up()
    (running,) = [each for each in both if LAST_LINE in each.said]
    (refused,) = [each for each in both if each is not running]
    assert refused.end() == 2
    assert "`prio up` runs here" in refused.said
    return running


def test_a_survey_file_with_a_fault_ends_it_with_the_fault(tmp_path: Path) -> None:
    (tmp_path / "survey.toml").write_text(SURVEY.replace("epsilon", "upsilon"))
    with is_up(tmp_path, "--survey", "survey.toml") as up:
        assert up.end() == 2
    assert "prio: survey.toml: " in up.said
    assert "budget.upsilon" in up.said
    assert services_of(tmp_path / "prio-up") == {}
