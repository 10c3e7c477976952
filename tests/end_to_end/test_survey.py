"""A survey from its file to a labelled table, by the command line, over three processes."""

import csv
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aggregator.collector import Collector
from tests.support.http_proxy import HttpProxy
from tests.support.processes import COMMANDS, Processes

pytestmark = pytest.mark.slow

DEPARTMENTS = ("surgery", "medicine", "children")
ROWS = 400
WEEK = timedelta(days=7)
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
MONDAY = TODAY - timedelta(days=TODAY.weekday()) - WEEK
SURVEY = f"""
title = "Visits"
asked = "patients"
window = "week"
first = {MONDAY:%Y-%m-%d}
min_batch_size = 50
[budget]
epsilon = "6"
windows = 10
[[question]]
name = "department"
kind = "choice"
labels = ["surgery", "medicine", "children"]
[[question]]
name = "age"
kind = "number"
low = 0
high = 100
unit = "years"
clip = true
[[question]]
name = "waiting"
kind = "bins"
edges = [0, 15, 30, 60, 120]
unit = "minutes"
clip = true
"""


@dataclass(frozen=True)
class Asked:
    """A survey with answers of last week at the leader.

    Attributes:
        monday: On which that week began, when the answers were made up.
    """

    monday: datetime
    services: Processes
    tasks: Path
    answers: Path
    rows: list[dict[str, object]]

    def survey(self, *arguments: str | Path, status: int = 0) -> str:
        done = self.services.prio("survey", *arguments, status=status)
        return done.stdout + done.stderr

    @property
    def config(self) -> tuple[str, Path]:
        return "--config", self.services.configs["collector"]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("survey")
    (folder / "survey.toml").write_text(SURVEY)
    generator = random.Random(3)  # noqa: S311  made-up answers
    rows: list[dict[str, object]] = [
        {
            "when": (MONDAY + timedelta(minutes=20 * index)).isoformat(),
            "department": generator.choice(DEPARTMENTS),
            "age": generator.randrange(0, 111),
            "waiting": generator.randrange(0, 150) if index % 10 else "",
        }
        for index in range(ROWS)
    ]
    answers = folder / "answers.csv"
    with answers.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    with Processes(folder) as services:
        config = services.prio("collector", "config", "--config", services.configs["collector"])
        services.prio(
            "survey", "new", folder / "survey.toml", "--out", folder / "made",
            "--leader", services.urls["leader"], "--helper", services.urls["helper"],
            "--collector-config", config.stdout.strip(),
        )  # fmt: skip
        for party in COMMANDS:
            added = services.prio(
                "task",
                "add",
                "--config",
                services.configs[party],
                folder / "made" / f"{party}.toml",
            )
            assert len(added.stdout.split()) == 1
        services.start(*COMMANDS)
        made = Asked(MONDAY, services, folder / "made" / "task.toml", answers, rows)
        dry = made.survey("upload", made.tasks, answers, "--time-column", "when", "--dry-run")
        assert "reports accepted" not in dry
        sent = made.survey("upload", made.tasks, answers, "--time-column", "when")
        assert f"{ROWS} of {ROWS} reports accepted" in sent
        assert "waiting: 360 answers, 40 missing" in sent
        yield made
        for name in COMMANDS:
            assert services.stop(name) == 0


def test_a_window_that_is_not_over_is_refused_unless_it_is_said_aloud(asked: Asked) -> None:
    now = datetime.now(UTC).isoformat()
    said = asked.survey("collect", asked.tasks, *asked.config, "--window", now, status=2)
    assert "; --now collects it now" in said


def test_last_week_comes_out_labelled_and_near_the_truth(asked: Asked) -> None:
    said = asked.survey("collect", asked.tasks, *asked.config, "--last", "week")
    assert re.search(
        rf"department\n +{asked.monday:%Y-%m-%d} to .*\n  answered +(3[5-9]|4[0-4])[0-9]\n", said
    )
    printed = asked.survey("results", asked.tasks, *asked.config, "--json")
    rows = json.loads(printed)["rows"]
    counts = {
        row["label"]: row
        for row in rows
        if row["question"] == "department" and row["shows"] == "count"
    }
    for name in DEPARTMENTS:
        truth = sum(row["department"] == name for row in asked.rows)
        # A 95 % interval; twice as wide misses with a probability below 10^-3.
        width = counts[name]["high"] - counts[name]["value"]
        assert abs(counts[name]["value"] - truth) <= 3 * width
    mean = next(row for row in rows if row["question"] == "age" and row["shows"] == "mean")
    truth = sum(min(int(str(row["age"])), 100) for row in asked.rows) / ROWS
    assert abs(mean["value"] - truth) <= 3 * (mean["high"] - mean["value"])
    assert any(row["label"] == "median" and row["unit"] == "minutes" for row in rows)


def test_a_collector_opened_from_its_file_finds_what_was_collected(asked: Asked) -> None:
    asked.survey("collect", asked.tasks, *asked.config, "--last", "week")
    with Collector.open(asked.services.configs["collector"]) as collector:
        task = collector.tasks()[0]
        (first,) = collector.results(task)
        again = collector.collect(task, asked.monday, WEEK)
        assert again.document == first.document
        assert (first.start, first.end) == (asked.monday, asked.monday + WEEK)
        assert first.reports_between[0] >= first.start
        assert [row["label"] for row in first.table().rows][:4] == [*DEPARTMENTS, "no answer"]


def test_a_second_call_with_a_state_sends_nobodys_answers_again(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, answers = datetime.now(UTC), tmp_path / "persons.csv"
    rows = [f"{now.isoformat()},{person},surgery,40,20" for person in ("17", "18", "19")]
    upload = ("upload", asked.tasks, answers, "--time-column", "when", "--person-column", "person")
    for people, said in (
        (rows[:2], "2 of 2 reports accepted\n"),
        (rows[::-1], "1 of 1 reports accepted, 2 left out, who had answered before\n"),
        (rows, "0 of 0 reports accepted, 3 left out, who had answered before\n"),
    ):
        answers.write_text("\n".join(["when,person,department,age,waiting", *people, ""]))
        assert said in asked.survey(*upload, "--state", tmp_path / "state")
    said = asked.survey(*upload[:5], "--state", tmp_path / "state", status=2)
    assert "state: needs --person-column" in said
    # A proxy is another way to the same aggregators: who has answered is known there, too.
    with HttpProxy() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        proxied = ("--state", tmp_path / "state", "--environment-proxy")
        another = rows[0].replace(",17,", ",20,")
        answers.write_text("\n".join(["when,person,department,age,waiting", *rows, another, ""]))
        said = asked.survey(*upload, *proxied)
    assert "1 of 1 reports accepted, 3 left out, who had answered before\n" in said
    assert any(head.startswith("POST http") for head in proxy.heads)


def test_what_is_no_answer_is_refused_before_anything_is_sent(asked: Asked, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("when,department,age,waiting\n2026-11-03,dentist,4,10\n")
    said = asked.survey("upload", asked.tasks, bad, "--time-column", "when", status=2)
    assert "bad.csv, line 2, department: must be one of 'surgery', 'medicine', 'children'" in said
