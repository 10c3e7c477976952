"""A survey by invitation counts exactly who should count, once, wherever answers come from."""

import csv
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.cli.steward.survey_texts import write_survey
from aggregator.client import AlreadyAnswered, SurveyClient
from aggregator.protocol.requirements import Requirements
from aggregator.service.storage.reports.counters import Stage
from tests.support.clock import ManualClock
from tests.support.commands import Done, run_here
from tests.support.invited import Invited
from tests.support.module_pair import Site, survey_site
from tests.support.pair import NOW
from tests.support.surveys import IN_2023, department
from tests.support.texts import WORD

SURVEY = (
    IN_2023.replace('asked = "patients"', 'asked = "patients"\nanswers = "by invitation"').replace(
        'epsilon = "1"', 'epsilon = "100000000"'
    )
    + department()
    + WORD.replace('"1/4"', '"64"')
)
TODAY = datetime.fromtimestamp(NOW, UTC).date().isoformat()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with survey_site(tmp_path, SURVEY) as (made, _):
        yield made


@pytest.fixture
def invited(site: Site) -> Invited:
    return Invited(site, 12)


@pytest.fixture
def public(site: Site, tmp_path: Path) -> Path:
    write_survey(site.asked.task, site.asked.texts, tmp_path / "made")
    return tmp_path / "made" / "task.toml"


def upload(public: Path, rows: list[dict[str, str]], *options: str | Path) -> Done:
    table = public.parent.parent / "answers.csv"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return run_here(
        *("survey", "upload", public, table, "--max-epsilon", "100000000", "--json"),
        *("--link-column", "link", *options),
    )


def row(link: str, department: str = "surgery", word: str = "knee") -> dict[str, str]:
    return {"time": TODAY, "link": link, "department": department, "word": word}


def device(public: Path, folder: Path, name: str) -> SurveyClient:
    anything = Requirements(any_epsilon=True)
    outbox = folder / f"{name}.sqlite"
    return SurveyClient(public, outbox, clock=ManualClock(NOW), requirements=anything)


def counted(site: Site, stage: Stage = Stage.UPLOAD) -> dict[str, int]:
    """What was counted and refused over all tasks of the text question."""
    found: dict[str, int] = {}
    for task in site.asked.texts["word"][1]:
        for reason, count in site.pair.leader.counts(task, stage).items():
            found[reason] = found.get(reason, 0) + count
    return found


def test_a_table_with_links_counts_each_once_wherever_else_it_is_uploaded(
    site: Site, invited: Invited, public: Path
) -> None:
    rows = [row(invited.link(place)) for place in range(4)]
    done = upload(public, rows)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["accepted"] == 4
    # Elsewhere, with codes instead of links, and other tosses of the text question's task.
    rows = [row(code.upper(), "medicine") for code in invited.codes[2:6]]
    done = upload(public, rows)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert (document["accepted"], document["refused"]) == (2, {"permit_spent": 2})
    assert document["texts"][0]["accepted"] == 2
    assert [invited.spent(site.pair.leader, task) for task in invited.tasks[:2]] == [6, 6]
    assert counted(site) == {"stored": 6, "permit_spent": 2}
    assert not any(code in done.stdout + done.stderr for code in invited.codes)


def test_a_table_says_which_line_has_no_link_and_nothing_is_sent(
    site: Site, invited: Invited, public: Path
) -> None:
    bad = invited.codes[1][:-1]
    for second, said in (
        (bad, "line 3, link: permit: a code has 28 of the letters"),
        ("", "line 3, link: permit: a code has 28"),
        (invited.codes[0].upper(), "line 3, link: a second row of one person"),
    ):
        done = upload(public, [row(invited.codes[0]), row(second)])
        assert done.returncode == 2
        assert said in done.stderr
        assert not second or second not in done.stderr
    assert site.posts == 0


def test_a_survey_by_invitation_wants_the_column_of_links_and_no_other_survey_takes_it(
    public: Path, tmp_path: Path
) -> None:
    table = tmp_path / "answers.csv"
    table.write_text("time,person\n")
    done = run_here(
        "survey", "upload", public, table, "--max-epsilon", "100000000", "--person-column", "person"
    )
    assert "link-column: missing; the survey counts only answers with a link" in done.stderr


def test_people_answer_once_on_whichever_device_and_into_whichever_task(
    site: Site, invited: Invited, public: Path, tmp_path: Path
) -> None:
    answer = {"department": "surgery", "word": "knee"}
    for name, codes in (("phone", invited.codes[:6]), ("laptop", invited.codes[4:10])):
        with device(public, tmp_path, name) as survey:
            for code in codes:
                survey.put(answer, permit=code)
            with pytest.raises(AlreadyAnswered):
                survey.put(answer, permit=codes[0].upper())
            while survey.reporter.flush(now=True).waiting:
                pass
    assert [invited.spent(site.pair.leader, task) for task in invited.tasks[:2]] == [10, 10]
    assert counted(site) == {"stored": 10, "permit_spent": 2}
