"""An application's users get signed permits at login, and each counts once, whatever is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aggregator.client import AlreadyAnswered, Outbox, PermitStore, Reporter
from aggregator.client.records import Outcome, State
from aggregator.errors import ParameterError, PeerError
from aggregator.issuer import AlreadyIssued, Issuer, PrivateKeys
from aggregator.service.storage.reports.counters import Stage
from tests.integration.test_reporter_and_pair import AtSite
from tests.support.clock import ManualClock
from tests.support.module_pair import Site, module_site
from tests.support.pair import NOW
from tests.support.permitted import WINDOW_SECONDS
from tests.support.signed import KeptAnswers, issuer_keys, private_keys, signed_task, window_of
from tests.support.tasks import make_task

TASK = signed_task()
Lie = Callable[[bytes], bytes]


class Application:
    """An application with a login: it knows who asks, and passes on bytes."""

    def __init__(self, clock: ManualClock) -> None:
        self.store, self.asked = KeptAnswers(), list[bytes]()
        keys = PrivateKeys(issuer_keys(window_of(TASK)), private_keys())
        self.issuer = Issuer(keys, [TASK], self.store, clock=clock)

    def answer(self, user: str, body: bytes) -> bytes:
        self.asked.append(body)
        return self.issuer.issue(user, body)


class Device:
    """A device of a user: an outbox, and what gets permits into it."""

    def __init__(self, folder: Path, name: str, clock: ManualClock, person: str = "") -> None:
        self.path, self.clock, self.person = folder / f"{name}.sqlite", clock, person
        self.open()

    def open(self) -> None:
        self.outbox = Outbox(self.path)
        self.permits = PermitStore(self.outbox, [TASK], person=self.person, clock=self.clock)

    def restart(self) -> None:
        self.outbox.close()
        self.open()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def application(clock: ManualClock) -> Application:
    return Application(clock)


@pytest.fixture
def device(tmp_path: Path, clock: ManualClock) -> Iterator[Device]:
    made = Device(tmp_path, "one", clock)
    yield made
    made.outbox.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with module_site(tmp_path, TASK) as made:
        yield made


def test_permits_of_all_windows_with_keys_come_in_one_request(
    application: Application, device: Device
) -> None:
    assert device.permits.refresh(lambda body: application.answer("ada", body)) == 3
    assert device.permits.held() == 3
    # Nothing is missing, so nothing is sent.
    assert device.permits.refresh(lambda body: application.answer("ada", body)) == 0
    assert len(application.asked) == 1


def test_after_a_lost_answer_the_same_bytes_are_asked_and_nothing_doubles(
    application: Application, device: Device
) -> None:
    def lost(body: bytes) -> bytes:
        application.answer("ada", body)
        raise TimeoutError

    with pytest.raises(TimeoutError):
        device.permits.refresh(lost)
    device.restart()
    assert device.permits.refresh(lambda body: application.answer("ada", body)) == 3
    assert application.asked[0] == application.asked[1]
    assert len(application.store.kept) == 3


def test_another_device_of_a_person_gets_no_second_permit(
    application: Application, device: Device, tmp_path: Path, clock: ManualClock
) -> None:
    device.permits.refresh(lambda body: application.answer("ada", body))
    other = Device(tmp_path, "two", clock)

    def answered(body: bytes) -> bytes | None:
        try:
            return application.answer("ada", body)
        except AlreadyIssued:
            return None

    assert other.permits.refresh(answered) == 0
    assert len(application.asked) == 2
    # It knows that now, and asks no more.
    assert other.permits.refresh(answered) == other.permits.held() == 0
    assert len(application.asked) == 2
    bobs = PermitStore(other.outbox, [TASK], person="bob", clock=clock)
    assert bobs.refresh(lambda body: application.answer("bob", body)) == 3
    other.outbox.close()


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (lambda answer: answer[:256] + b"\1" * 256 + answer[512:], "is not of what it was asked"),
        (lambda answer: answer[256:], "answered 2 of 3"),
        (lambda answer: answer + b"?", "the issuer's answer: "),
    ],
)
def test_what_a_lying_issuer_answers_is_not_kept(
    application: Application, device: Device, lie: Lie, reason: str
) -> None:
    with pytest.raises(PeerError, match=reason):
        device.permits.refresh(lambda body: lie(application.answer("ada", body)))
    assert device.permits.held() == (2 if "not of what" in reason else 0)
    device.permits.refresh(lambda body: application.answer("ada", body))
    assert device.permits.held() == 3


def test_windows_that_are_over_are_forgotten(
    application: Application, device: Device, clock: ManualClock
) -> None:
    device.permits.refresh(lambda body: application.answer("ada", body))
    clock.advance(WINDOW_SECONDS)
    assert device.permits.refresh(lambda body: application.answer("ada", body)) == 0
    assert device.permits.held() == 2


def test_a_task_without_signed_permits_has_no_store() -> None:
    with pytest.raises(ParameterError, match="has no signed permits"):
        PermitStore(Outbox(None), [make_task()])


def reporter_of(device: Device, site: Site) -> tuple[Reporter, AtSite]:
    sender = AtSite(site.address)
    return Reporter(TASK, device.outbox, clock=device.clock, sender=sender), sender


def test_a_report_takes_its_permit_and_is_counted_once(
    application: Application, site: Site, tmp_path: Path, clock: ManualClock
) -> None:
    device = Device(tmp_path, "ada", clock, person="ada")
    reporter, sender = reporter_of(device, site)
    with pytest.raises(ParameterError, match="the outbox holds none of this window"):
        reporter.put(1, person="ada")
    device.permits.refresh(lambda body: application.answer("ada", body))
    reporter.put(1, person="ada")
    assert device.permits.held() == 2
    for _ in range(2):  # whether the first has been settled or not
        with pytest.raises(AlreadyAnswered):
            reporter.put(2, person="ada")
        assert reporter.flush().counted in (0, 1)
    claim = f"window {TASK.policy.window.first_unit(TASK.time(NOW).units)}: ada"  # type: ignore[union-attr]  # it has one
    assert reporter.claimed(claim) == Outcome(State.COUNTED)
    assert site.pair.leader.counts(TASK, Stage.UPLOAD) == {"stored": 1}
    device.outbox.close()
    sender.close()


def test_two_people_share_an_outbox_each_with_their_own_permits(
    application: Application, site: Site, tmp_path: Path, clock: ManualClock
) -> None:
    device = Device(tmp_path, "both", clock, person="ada")
    bobs = PermitStore(device.outbox, [TASK], person="bob", clock=clock)
    device.permits.refresh(lambda body: application.answer("ada", body))
    bobs.refresh(lambda body: application.answer("bob", body))
    reporter, sender = reporter_of(device, site)
    reporter.put(1, person="ada")
    reporter.put(2, person="bob")
    assert reporter.flush(now=True).counted == 2
    assert site.pair.leader.counts(TASK, Stage.UPLOAD) == {"stored": 2}
    device.outbox.close()
    sender.close()
