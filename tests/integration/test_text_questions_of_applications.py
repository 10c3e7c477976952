"""Text questions of an application at real aggregators: each is counted once, in one place."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.client import AlreadyAnswered, Outbox, SurveyClient
from aggregator.client.survey.answer_sheet import AnswerSheet
from aggregator.client.text.beside_survey import texts_beside
from aggregator.dap.times import DAY
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from tests.support import pair
from tests.support.clock import ManualClock
from tests.support.entropy import SeededEntropy
from tests.support.module_pair import Site, elsewhere
from tests.support.pair import NOW, Pair
from tests.support.ports import free_ports
from tests.support.serving import serving
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import week_of

SURVEY = """
title = "Work"
asked = "employees"
window = "week"
first = 2023-11-13
min_batch_size = 1
max_reports = 1000
[budget]
epsilon = "100000000"
windows = 52
[[question]]
name = "education"
kind = "choice"
labels = ["none", "school", "degree"]
[[question]]
name = "word"
kind = "text"
epsilon = "64"
buckets = 64
tasks = 8
"""
"""So much epsilon that the noise is 0, but for once in 10^10 runs: sums tell what was sent."""

WRITTEN = ("quiet", "Quiet ", None, "food", "Straße", "STRASSE", "", "\ud800")
PEOPLE = {f"person {number}": WRITTEN[number % len(WRITTEN)] for number in range(40)}


@pytest.fixture
def asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Site, dict[str, list[Task]], Path]]:
    [port] = free_ports(1)
    urls = [f"http://127.0.0.1:{port}/{name}/" for name in ("leader", "helper")]
    monkeypatch.setattr(pair, "LEADER_URL", urls[0])
    monkeypatch.setattr(pair, "HELPER_URL", urls[1])
    made = write_survey_folder(tmp_path / "made", SURVEY, *urls)
    requirements = Requirements(any_epsilon=True)
    site = Site(
        Pair(
            tmp_path,
            made[""][0],
            leader_requirements=requirements,
            helper_requirements=requirements,
        )
    )
    try:
        for site.pair.task in [*made[""], *made["word"]]:
            elsewhere(site.pair.provision)
        with serving(site, port=port) as site.address:
            yield site, made, tmp_path / "made" / "task.json"
    finally:
        elsewhere(site.pair.close)


def begin(file: Path, number: int) -> SurveyClient:
    """Return the client of another process; by these seeds somebody is in each task."""
    return SurveyClient(
        file,
        clock=ManualClock(NOW),
        requirements=Requirements(any_epsilon=True),
        entropy=SeededEntropy(b"process %d" % number),
    )


def everybody_answers(file: Path) -> None:
    """Let everybody answer twice in processes that end with reports in their outbox."""
    names = [*PEOPLE]
    for number in range(8):
        survey = begin(file, number)
        for person in names[number % 4 * 10 :][:10]:
            answers = {"education": "degree", "word": PEOPLE[person]}
            if number < 4:
                survey.put(answers, person=person)
            else:
                with pytest.raises(AlreadyAnswered):
                    survey.put(answers, person=person)
        if number % 2:
            survey.reporter.flush(now=True)
        survey.close()


def test_what_people_write_is_counted_once_over_restarts_and_lost_answers(
    asked: tuple[Site, dict[str, list[Task]], Path],
) -> None:
    site, made, file = asked
    [task], tasks = made[""], made["word"]
    site.loses = lambda number: number % 3 == 1
    everybody_answers(file)
    survey = begin(file, 8)
    while survey.reporter.flush(now=True).waiting:
        pass
    survey.close()
    site.pair.clock.advance(7 * DAY)
    window = week_of(task, datetime.fromtimestamp(NOW, UTC))
    assert [*site.collect(task, window).values] == [0, 0, len(PEOPLE), 0]
    tables = [[*site.collect(each, window).values] for each in tasks]
    assert tables == expected(file, task)
    assert sum(table[0] for table in tables) == 10  # None and "", which are no answers
    assert sum(map(sum, tables)) == len(PEOPLE)


def expected(file: Path, task: Task) -> list[list[int]]:
    """Return the tables of everybody in the task that the outbox says, by the steps of text.md."""
    sheet = AnswerSheet.of_task(task)
    [(question, _)] = texts_beside(file, task, sheet.texts).values()
    hashes = question.hashes
    tables = [[0] * hashes.length for _ in range(hashes.tasks)]
    with closing(Outbox(file.with_name("outbox.sqlite"))) as outbox:
        for person, answer in PEOPLE.items():
            number = outbox.toss(question.meaning, person)
            assert number is not None
            tables[number][hashes.bucket(number, answer)] += 1
    return tables
