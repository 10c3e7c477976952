"""A survey of an application's people: each counts once, on whichever device, texts included."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.cli.steward.survey_texts import write_survey
from aggregator.client import AlreadyAnswered, Outbox, PermitStore, SurveyClient
from aggregator.dap.times import DAY
from aggregator.errors import ParameterError
from aggregator.issuer import AlreadyIssued, Issuer, PrivateKeys
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from aggregator.service.storage.operator.permits import count_permits
from aggregator.service.storage.reports.counters import Stage
from tests.support.clock import ManualClock
from tests.support.module_pair import Site, survey_site
from tests.support.pair import NOW, Service
from tests.support.signed import KeptAnswers, private_keys
from tests.support.surveys import IN_2023, department, week_of
from tests.support.texts import WORD

SURVEY = (
    IN_2023.replace('asked = "patients"', 'asked = "patients"\nanswers = "by application"')
    .replace('epsilon = "1"', 'epsilon = "100000000"')
    .replace("windows = 52", "windows = 3")
    .replace("min_batch_size = 3", "min_batch_size = 1")
    + department()
    + WORD.replace('"1/4"', '"64"')
)
PEOPLE = [f"person {number}" for number in range(6)]
ANSWER = {"department": "surgery", "word": "knee"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with survey_site(tmp_path, SURVEY) as (made, _):
        yield made


@pytest.fixture
def public(site: Site, tmp_path: Path) -> Path:
    write_survey(site.asked.task, site.asked.texts, tmp_path / "made")
    return tmp_path / "made" / "task.toml"


class Device:
    """A device on which several people of the application answer."""

    def __init__(self, site: Site, public: Path, name: str) -> None:
        clock, self.tasks = ManualClock(NOW), site.asked.tasks
        self.outbox = Outbox(public.parent.parent / f"{name}.sqlite")
        anything = Requirements(any_epsilon=True)
        self.survey = SurveyClient(public, self.outbox, clock=clock, requirements=anything)
        self.clock = clock

    def permits(self, person: str) -> PermitStore:
        return PermitStore(self.outbox, self.tasks, person=person, clock=self.clock)

    def close(self) -> None:
        self.survey.close()
        self.outbox.close()


@pytest.fixture
def devices(site: Site, public: Path) -> Iterator[list[Device]]:
    made = [Device(site, public, name) for name in ("phone", "laptop")]
    yield made
    for each in made:
        each.close()


@pytest.fixture
def issuer(site: Site) -> Issuer:
    keys = site.asked.first.issuer_keys
    assert keys is not None
    return Issuer(
        PrivateKeys(keys, private_keys()), site.asked.tasks, KeptAnswers(), clock=ManualClock(NOW)
    )


def answered(issuer: Issuer, person: str, body: bytes) -> bytes | None:
    """What a client gets; None for 409."""
    try:
        return issuer.issue(person, body)
    except AlreadyIssued:
        return None


def spent(service: Service, task: Task) -> int:
    assert task.permits is not None
    domain = task.permits.domain
    found = service.database.read_sync("permits", lambda tx: count_permits(tx, domain))
    return sum(each.spent for each in found)


def test_a_person_answers_once_in_the_survey_and_once_in_all_tasks_of_a_text_question(
    site: Site, devices: list[Device], issuer: Issuer
) -> None:
    phone, laptop = devices
    with pytest.raises(ParameterError, match=r"get permits from the issuer first"):
        phone.survey.put(ANSWER, person=PEOPLE[0])
    for person in PEOPLE:
        # The survey's domain and the text question's, in the windows that have keys.
        assert phone.permits(person).refresh(lambda body: issuer.issue(person, body)) == 6  # noqa: B023  called at once
        phone.survey.put(ANSWER, person=person)
    with pytest.raises(AlreadyAnswered):
        phone.survey.put(ANSWER, person=PEOPLE[0])
    # On another device the issuer gives nobody a second permit.
    assert laptop.permits(PEOPLE[0]).refresh(lambda body: answered(issuer, PEOPLE[0], body)) == 0
    with pytest.raises(AlreadyAnswered, match="another device has it"):
        laptop.survey.put(ANSWER, person=PEOPLE[0])
    while phone.survey.reporter.flush(now=True).waiting:
        pass
    own, of_word = site.asked.first, site.asked.texts["word"][1]
    stored = [site.pair.leader.counts(task, Stage.UPLOAD).get("stored", 0) for task in of_word]
    assert sum(stored) == len(PEOPLE)
    site.pair.clock.advance(7 * DAY)
    week = week_of(own, datetime.fromtimestamp(NOW, UTC))
    assert site.collect(own, week).values[0] == len(PEOPLE)
    written = [task for task, count in zip(of_word, stored, strict=True) if count]
    assert sum(max(site.collect(task, week).values) for task in written) == len(PEOPLE)
    for service in (site.pair.leader, site.pair.helper):
        assert [spent(service, task) for task in (own, of_word[0])] == [len(PEOPLE)] * 2
