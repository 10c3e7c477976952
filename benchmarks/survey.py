"""What an answered survey costs an application, beside reports whose entries are there already.

Ten questions, seven with five labels each and three with numbers; the answers are random. Reports
go into outboxes in a folder of the system's, and nothing is sent.
"""

import dataclasses
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TypeVar

from aggregator.cli.service.task_making import make_task
from aggregator.client import Outbox, Reporter, SurveyClient
from aggregator.dap.hpke import generate_keypair
from aggregator.entropy import SystemEntropy
from aggregator.protocol.task_file import tasks_to_json
from aggregator.steward.survey import plan, survey_from_toml, task_tables
from benchmarks.timing import median_seconds

THREADS = 64

_SURVEY = """
title = "Benchmark"
asked = "nobody"
window = "week"
min_batch_size = 100
max_reports = 100000
[budget]
epsilon = "1"
windows = 52
"""
_LABELS = ("a", "b", "c", "d", "e")
_MOST = 80
_CHOICES, _NUMBERS = [f"choice{place}" for place in range(7)], ["hours", "age", "trips"]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class SurveyTimes:
    """Microseconds of a report.

    Attributes:
        entries: Processor time from answers to entries.
        put: Of one `SurveyClient.put` alone.
        put_wall: The same by the wall clock: the disk has it then.
        reporter_put: Processor time of one `Reporter.put` alone, of entries.
        together: Of one `SurveyClient.put` where 64 threads put.
        reporter_together: Of one `Reporter.put` where 64 threads put.
    """

    entries: float
    put: float
    put_wall: float
    reporter_put: float
    together: float
    reporter_together: float


def time_survey(count: int, rounds: int) -> SurveyTimes:
    """Return the medians of some rounds of `count` reports in each way."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = _task_file(folder)
        outbox = Outbox(folder / "other.sqlite")
        survey, reporter = SurveyClient(file), Reporter(SurveyClient(file).task, outbox)
        answers = _answers(count)
        entries = [survey.sheet.entries(each) for each in answers]
        times = median_seconds(
            {
                "entries": lambda: _alone(survey.sheet.entries, answers),
                "put": lambda: _alone(survey.put, answers),
                "reporter_put": lambda: _alone(reporter.put, entries),
                "together": lambda: _together(survey.put, answers),
                "reporter_together": lambda: _together(reporter.put, entries),
            },
            rounds,
        )
        wall = median(_wall(survey.put, each) for each in answers)
        survey.close()
        reporter.close()
        outbox.close()
    return SurveyTimes(
        put_wall=1e6 * wall, **{name: 1e6 * taken / count for name, taken in times.items()}
    )


def _task_file(folder: Path) -> Path:
    asked = [f'kind = "choice"\nlabels = {[*_LABELS]}' for _ in _CHOICES]
    asked += [f'kind = "number"\nlow = 0\nhigh = {_MOST}' for _ in _NUMBERS]
    questions = [
        f'[[question]]\nname = "{name}"\n{text}\n'
        for name, text in zip([*_CHOICES, *_NUMBERS], asked, strict=True)
    ]
    survey = survey_from_toml("\n".join([_SURVEY, *questions]), datetime.now(UTC))
    made = task_tables(survey, plan(survey))
    collector = generate_keypair(0, SystemEntropy()).config
    parties = {"leader": "https://leader.example/", "helper": "https://helper.example/"}
    task = make_task(collector, made.vdaf, made.privacy, **parties, **made.settings)
    file = folder / "task.json"
    file.write_text(tasks_to_json([task]), "utf-8")
    return file


def _answers(count: int) -> list[dict[str, object]]:
    chance = random.Random(1)  # noqa: S311  nobody's answers
    return [
        {
            **{name: chance.choice(_LABELS) for name in _CHOICES},
            **{name: chance.randint(0, _MOST) for name in _NUMBERS},
        }
        for _ in range(count)
    ]


def _alone(put: Callable[[T], object], given: Sequence[T]) -> None:
    for each in given:
        put(each)


def _together(put: Callable[[T], object], given: Sequence[T]) -> None:
    # What numpy is told to overlook holds in a thread by its context.
    contexts = [copy_context() for _ in given]
    with ThreadPoolExecutor(THREADS) as threads:
        for _ in threads.map(lambda context, each: context.run(put, each), contexts, given):
            pass


def _wall(put: Callable[[T], object], given: T) -> float:
    begin = time.perf_counter()
    put(given)
    return time.perf_counter() - begin
