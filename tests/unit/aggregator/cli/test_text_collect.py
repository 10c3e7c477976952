"""`prio text collect`: what is missing is asked for, what is there is found, and nothing twice."""

import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.client.text.question import TextQuestion
from aggregator.collector import store
from aggregator.dap.ids import TaskId, encode_base64url
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import tasks_to_toml
from tests.support.collector_world import MONDAY, WEEK, CollectorWorld, seconds
from tests.support.commands import Done, run_here
from tests.support.ports import free_ports
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

TASKS = 8
START = MONDAY - 300 * WEEK
"""Of a window that is over, whatever the clock says."""
UNITS = int(WEEK.total_seconds()) // TIME_PRECISION
VALUES = [600] + [number % 5 - 2 for number in range(31)]
"""Nobody answered; the rest is noise."""


class Asked:
    """A question in a folder, and its collector, whose leader is away."""

    def __init__(self, folder: Path, **privacy: object) -> None:
        (port,) = free_ports(1)
        question = TextQuestion("A drink?", Fraction(1, 2), TASKS, 32)
        self.tasks = [
            make_task(
                {"type": "Prio3Histogram", "length": 32},
                {**LAPLACE, **privacy, **question.group(place).settings()},
                id=str(TaskId(bytes([place]) * 32)),
                task_info=question.info(place),
                leader=f"http://127.0.0.1:{port}/",
            )
            for place in range(TASKS)
        ]
        self.folder = folder
        (folder / "text.json").write_text(question.to_json(self.tasks), "utf-8")
        (folder / "tasks.toml").write_text(tasks_to_toml(self.tasks), "utf-8")
        self.config, self.out = folder / "service.toml", folder / "released.json"
        key = encode_base64url(bytes(32))
        self.config.write_text(
            f'service.role = "collector"\nservice.database = "collector.sqlite"\n'
            f'keys.store_key = "{key}"\n'
        )
        self.config.chmod(0o600)

    def finish(self, *tasks: Task, start: datetime = START, length: timedelta = WEEK) -> None:
        world = CollectorWorld(self.folder)
        for task in tasks:
            world.finish(task, start, VALUES, length)
        world.database.close()

    def collections(self) -> list[bytes]:
        world = CollectorWorld(self.folder)
        found = world.database.read_sync("list", store.list_collections)
        world.database.close()
        return sorted(each.collection_id for each in found)

    def collect(self, *arguments: str) -> Done:
        where = ("--config", self.config, "--out", self.out, "--wait", "0")
        return run_here("text", "collect", self.folder, *where, *arguments)


def interval(start: int = seconds(START), end: int = seconds(START + WEEK)) -> tuple[str, ...]:
    return "--start", str(start), "--end", str(end)


def test_what_is_missing_is_asked_for_once_and_what_is_there_is_found_again(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    CollectorWorld(tmp_path, *asked.tasks).database.close()
    asked.finish(*asked.tasks[:7])
    for _ in range(2):
        done = asked.collect(*interval())
        assert done.returncode == 3
        assert "task 8 of 8: the batch was not ready" in done.stderr
        assert "7 of 8 tasks are collected" in done.stderr
        assert not asked.out.exists()
    before = asked.collections()
    assert len(before) == TASKS
    asked.finish(asked.tasks[7])
    # The leader is away: nothing is asked of it any more.
    done = asked.collect(*interval())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"4,800 reports in 8 tasks, written to {asked.out}\n"
    assert asked.collections() == before
    words = tmp_path / "words.txt"
    words.write_text("tea\n")
    shown = run_here("text", "results", tmp_path, words, "--results", asked.out, "--json")
    document = json.loads(shown.stdout)
    assert document["found"] == []
    assert document["no_answer"] == pytest.approx(4800, abs=20)


def test_a_window_is_named_by_any_time_in_it(tmp_path: Path) -> None:
    asked = Asked(tmp_path, window=UNITS, window_start=seconds(START) // TIME_PRECISION % UNITS)
    CollectorWorld(tmp_path, *asked.tasks).database.close()
    asked.finish(*asked.tasks)
    for within in (START, START + WEEK / 2):
        done = asked.collect("--window", within.isoformat())
        assert (done.returncode, done.stderr) == (0, "")
    assert len(asked.collections()) == TASKS
    done = asked.collect(*interval(end=seconds(START + 2 * WEEK)))
    assert done.returncode == 2
    assert "a batch of this task is one window" in done.stderr


def test_the_last_window_is_the_newest_that_is_over(tmp_path: Path) -> None:
    forty_years = timedelta(days=14_600)  # from 1970 and from 2009 on: one that is over until 2049
    units = int(forty_years.total_seconds()) // TIME_PRECISION
    asked = Asked(tmp_path, window=units)
    CollectorWorld(tmp_path, *asked.tasks).database.close()
    asked.finish(*asked.tasks, start=datetime(1970, 1, 1, tzinfo=UTC), length=forty_years)
    done = asked.collect("--last")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(asked.collections()) == TASKS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--last",), "last: this question has no windows"),
        (("--last", "--window", "0"), "last: takes the place of --start, --end and --window"),
        ((), "start: missing; give --start and --end"),
        (("--start", "0"), "end: missing"),
        (interval(0, 1), "end: must be a multiple of the time precision"),
        (interval(0, 0), "end: must be after start"),
        (("--start", "today", "--end", "0"), "start: must be ISO 8601"),
        (("--window", "2026-11-02"), "window: this question has none"),
        (("--window", "0", "--end", "0"), "window: takes the place of --start and --end"),
        (interval(0, TIME_PRECISION << 40), "is not over; --now collects it now"),
        (
            ("--now", *interval(TIME_PRECISION << 40, TIME_PRECISION << 41)),
            "is not over\n",
        ),
        (interval(), "this collector lacks 8 of 8 tasks, such as AAAA"),
    ],
)
def test_what_names_no_window_of_the_question_is_refused_and_nothing_is_asked(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    asked = Asked(tmp_path)
    CollectorWorld(tmp_path).database.close()
    done = asked.collect(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert asked.collections() == []
