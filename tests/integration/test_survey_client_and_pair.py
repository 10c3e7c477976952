"""A survey's client at real aggregators: answers of an application, sums of a collector."""

import itertools
import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from aggregator.client import AlreadyAnswered, SurveyClient
from aggregator.client.survey import client as survey_client
from aggregator.collector.results.result import Result
from aggregator.dap.times import DAY
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task, info_with_digest
from aggregator.protocol.task_file import task_from_toml, task_to_toml, tasks_to_json
from aggregator.steward.survey import Meaning
from tests.support.clock import ManualClock
from tests.support.module_pair import Site, survey_site
from tests.support.pair import NOW
from tests.support.patience import PATIENCE_SECONDS
from tests.support.processes import ROOT
from tests.support.serving import serving
from tests.support.surveys import week_of

SURVEY = """
title = "Work"
asked = "employees"
window = "week"
first = 2023-11-13
min_batch_size = 1
max_reports = 1000
by = "education"
[budget]
epsilon = "100000000"
windows = 52
[[question]]
name = "education"
kind = "choice"
labels = ["none", "school", "degree"]
[[question]]
name = "hours"
kind = "number"
low = 0
high = 80
step = "1/2"
variance = true
[[question]]
name = "wishes"
kind = "multiple"
labels = ["quiet", "food"]
[[question]]
name = "age"
kind = "bins"
edges = [0, 18, 65, 120]
"""
"""So much epsilon that the noise is 0: sums tell what was sent."""

EDUCATION = ("none", "school", "degree", None)
PEOPLE: list[dict[str, object]] = [
    {"education": EDUCATION[place % 4], "hours": place / 2, "wishes": ["food"], "age": 5 * place}
    for place in range(18)
] + [{"hours": "12.25", "age": 65}, {}]


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[tuple[Site, Task, Path]]:
    with survey_site(tmp_path, SURVEY) as (site, task):
        file = tmp_path / "task.toml"
        file.write_text(task_to_toml(task), "utf-8")
        yield site, task, file


def begin(file: Path) -> SurveyClient:
    """Return the client of another process, over the same files."""
    return SurveyClient(file, clock=ManualClock(NOW), requirements=Requirements(any_epsilon=True))


def finish(file: Path) -> None:
    """Send all that waits."""
    survey = begin(file)
    while survey.reporter.flush(now=True).waiting:
        pass
    survey.close()


def collected(site: Site, task: Task) -> Result:
    """Return the sums of the week, which is over then."""
    site.pair.clock.advance(7 * DAY)
    return site.collect(task, week_of(task, datetime.fromtimestamp(NOW, UTC)))


def everybody_answers(file: Path) -> None:
    """Let everybody answer twice in processes that end with reports in their outbox."""
    for person, answers in enumerate(itertools.chain(PEOPLE, PEOPLE)):
        survey = begin(file)
        if person < len(PEOPLE):
            survey.put(answers, person=f"person {person}")
        else:
            with pytest.raises(AlreadyAnswered):
                survey.put(answers, person=f"person {person - len(PEOPLE)}")
        if person % 5 == 4:
            survey.reporter.flush(now=True)
        survey.close()


def test_what_people_answer_is_counted_once_over_restarts_and_lost_answers(
    asked: tuple[Site, Task, Path],
) -> None:
    site, task, file = asked
    site.loses = lambda number: number % 3 == 1
    everybody_answers(file)
    finish(file)
    meaning, result = Meaning.of_task(task), collected(site, task)
    assert result.report_count == len(PEOPLE)
    sums = {
        part.name: [*result.values[part.span.first :][: part.span.length]]
        for part in meaning.sheet.parts
    }
    steps = [*range(18), 24]  # of a half each; 24.5 steps are nearest to the even 24
    assert sums == {
        "education": [5, 5, 4, 6],
        "hours": [19, 1, sum(steps), sum(step**2 for step in steps)],
        "wishes": [0, 18, 2],
        "age": [4, 9, 6, 1],
        "hours by education": [
            *(5, 5, 4, 6),
            *(40, 45, 32),
            *(sum(step**2 for step in range(first, 18, 4)) for first in range(3)),
        ],
        "age by education": [*(1, 1, 1, 1), *(3, 2, 2, 2), *(1, 2, 1, 2), *(0, 0, 0, 1)],
    }


def test_labels_that_were_swapped_with_their_digest_are_counted_nowhere(
    asked: tuple[Site, Task, Path],
) -> None:
    """Who changes the digest with the labels has made another task, and of this one no report."""
    site, task, file = asked
    survey = begin(file)
    survey.put({"education": "degree"}, person="0")
    survey.close()
    finish(file)
    meaning = json.loads(task.meaning)
    meaning["questions"][0]["question"]["labels"].reverse()
    swapped = json.dumps(meaning, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    document = task_to_toml(task)
    for old, new in ((task.info, info_with_digest("Work", swapped)), (task.meaning, swapped)):
        document = document.replace(json.dumps(old), json.dumps(new))
    other = task_from_toml(document)
    assert (other.task_id, other.fingerprint) != (task.task_id, task.fingerprint)
    file.write_text(document, "utf-8")
    survey = begin(file)
    survey.put({"education": "degree"}, person="1")
    survey.close()
    finish(file)
    assert collected(site, task).report_count == 1


def test_the_web_application_of_the_documents_takes_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(from contextlib.*?)```", document, re.DOTALL)
    monkeypatch.setattr(survey_client, "SystemClock", lambda: ManualClock(NOW))
    monkeypatch.chdir(tmp_path)
    with survey_site(tmp_path, SURVEY.replace("100000000", "8")) as (site, task):
        (tmp_path / "task.json").write_text(tasks_to_json([task]), "utf-8")
        names: dict[str, Any] = {}
        exec(code, names)  # noqa: S102  what the documents tell people to run
        with (
            serving(names["app"], lives=True) as at,
            httpx.Client(base_url=at, timeout=PATIENCE_SECONDS) as web,
        ):

            def put(person: int, answers: dict[str, object]) -> tuple[int, object]:
                answer = web.put(f"/answers/{person}", json=answers)
                return answer.status_code, answer.json().get("detail")

            for person, answers in enumerate(PEOPLE):
                assert put(person, answers) == (200, None)
            assert put(3, PEOPLE[3]) == (409, "this person answered in this window")
            assert put(99, {"hours": 80.5}) == (422, "hours: must be from 0 to 80")
            while names["survey"].reporter.waiting():
                time.sleep(0.01)
        assert collected(site, task).report_count == len(PEOPLE)
