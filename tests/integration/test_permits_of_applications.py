"""An application's client with people's links: each counts once, on whichever device it is used."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.client import AlreadyAnswered, Outbox, Reporter
from aggregator.client.records import Outcome, State
from aggregator.errors import ParameterError
from aggregator.protocol.permit_codes import code_of, name_of
from aggregator.protocol.task import Task
from tests.integration.test_reporter_and_pair import AtSite
from tests.support.clock import ManualClock
from tests.support.module_pair import Site, elsewhere, module_site
from tests.support.pair import NOW
from tests.support.permitted import PERMITS, SECRETS, given, permitted, window_at
from tests.support.tasks import make_task

CODES = [code_of(each) for each in SECRETS]
SPENT = Outcome(State.REFUSED, "permit_spent")


class Device:
    """A device: an outbox of its own, and a clock."""

    def __init__(self, site: Site, task: Task, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.sqlite"
        self.outbox, self.sender = Outbox(self.path), AtSite(site.address)
        clock = ManualClock(NOW)
        self.reporter = Reporter(task, self.outbox, clock=clock, sender=self.sender)

    def close(self) -> None:
        self.sender.close()
        self.outbox.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    task = permitted(privacy={"max_reports_per_person": 2, "group": "g", "group_place": 0})
    with module_site(tmp_path, task) as made:
        for service in (made.pair.leader, made.pair.helper):
            given(service, task)
        yield made


@pytest.fixture
def devices(site: Site, tmp_path: Path) -> Iterator[tuple[Device, Device]]:
    made = [Device(site, site.pair.task, tmp_path, name) for name in ("one", "two")]
    yield made[0], made[1]
    for each in made:
        each.close()


def claim(task: Task, secret: bytes) -> str:
    window = task.policy.window
    assert window is not None
    return f"window {window.first_unit(task.time(NOW).units)}: {name_of(secret)}"


def test_links_count_once_over_two_devices_and_lost_answers(
    site: Site, devices: tuple[Device, Device]
) -> None:
    task = site.pair.task
    site.loses = lambda number: number % 2 == 0
    one, two = devices
    for code in CODES[:6]:
        one.reporter.put(1, permit=code)  # a task of a group, and nobody is named
    for code in CODES[4:8]:
        two.reporter.put(3, permit=code.upper().replace("-", ""))
    while one.reporter.flush(now=True).waiting:
        pass
    while two.reporter.flush(now=True).waiting:
        pass
    assert two.reporter.claimed(claim(task, SECRETS[4])) == SPENT
    assert two.reporter.claimed(claim(task, SECRETS[7])) == Outcome(State.COUNTED)
    window = site.pair.interval(NOW - NOW % 200, 2)
    result = elsewhere(lambda: site.pair.collect(window))
    assert tuple(result.values) == (0, 6, 0, 2)
    assert site.pair.helper.counts(task) == {"aggregated": 8}


def test_one_device_knows_that_a_link_has_answered_and_has_no_count_of_its_own(
    devices: tuple[Device, Device],
) -> None:
    one, _ = devices
    one.reporter.put(1, permit=CODES[0])
    with pytest.raises(AlreadyAnswered, match="permit has a report that waits"):
        one.reporter.put(1, permit=CODES[0], claim="another")
    with pytest.raises(AlreadyAnswered):
        one.reporter.put(1, permit=CODES[0])
    one.reporter.flush(now=True)
    with pytest.raises(AlreadyAnswered, match="was answered before"):
        one.reporter.put(1, permit=CODES[0])
    # What both aggregators see to is not remembered by the device, too.
    with sqlite3.connect(one.path) as outbox:
        for table in ("contributions", "places", "records"):
            rows = outbox.execute(f"SELECT count(*) FROM {table}")  # noqa: S608  its own names
            assert rows.fetchone() == (0,)


def test_no_secret_and_no_opening_stays_on_a_device_that_has_sent(
    site: Site, devices: tuple[Device, Device]
) -> None:
    one, _ = devices
    one.reporter.put(1, permit=CODES[0])
    opening = PERMITS.opening(SECRETS[0], window_at(site.pair.task))
    wal = one.path.with_name(f"{one.path.name}-wal")
    assert any(opening in each.read_bytes() for each in (one.path, wal))
    one.reporter.flush(now=True)
    for each in (one.path, wal):
        for kept in (opening, SECRETS[0], CODES[0].encode()):
            assert kept not in each.read_bytes()


def test_a_second_report_of_a_window_takes_the_second_permit(
    devices: tuple[Device, Device],
) -> None:
    one, _ = devices
    one.reporter.put(0, permit=CODES[0])
    one.reporter.put(0, permit=CODES[0], number=1)
    assert one.reporter.flush(now=True).counted == 1  # its list has only the first
    with pytest.raises(ParameterError, match="number: must be from 0 to 1, not 2"):
        one.reporter.put(0, permit=CODES[0], number=2)


def test_a_permit_that_no_list_has_yet_waits(site: Site, devices: tuple[Device, Device]) -> None:
    one, _ = devices
    late = b"sixteen bytes ok"
    one.reporter.put(2, permit=code_of(late))
    assert one.reporter.flush(now=True).waiting == 1
    for service in (site.pair.leader, site.pair.helper):
        given(service, site.pair.task, secrets=[late])
    assert one.reporter.flush(now=True).counted == 1


def test_a_missing_permit_and_one_too_many_are_refused_by_name(
    devices: tuple[Device, Device], tmp_path: Path
) -> None:
    one, _ = devices
    with pytest.raises(ParameterError, match="permit: the task counts only reports with one"):
        one.reporter.put(1)
    with pytest.raises(ParameterError, match="permit: a code has 28"):
        one.reporter.put(1, permit="half")
    plain = Reporter(make_task(), Outbox(tmp_path / "plain.sqlite"), sender=one.sender)
    with pytest.raises(ParameterError, match="the task counts everybody's reports"):
        plain.put(1, permit=CODES[0])
