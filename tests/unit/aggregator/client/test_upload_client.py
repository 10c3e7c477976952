"""Scripts and notebooks that have all measurements: `Client` and `AsyncClient`."""

import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.client import (
    AsyncClient,
    Client,
    Outbox,
    Reporter,
    UploadError,
    bulk,
    reporter,
    upload,
)
from aggregator.client.delivery import KEYS_SECONDS
from aggregator.client.making import Put
from aggregator.client.sender import Later, Refused, TooLarge
from aggregator.codec import decode
from aggregator.dap.hpke import HpkeKeypair, input_share_info, open_
from aggregator.dap.messages import Report, UploadRequest, input_share_aad
from aggregator.dap.profile import DAP_18, Role
from aggregator.dap.report_errors import ReportError
from aggregator.errors import ParameterError
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_to_toml
from aggregator.vdaf.circuits import Histogram
from aggregator.vdaf.circuits.measurements import Measurement
from field import Vector
from tests.support.clock import ManualClock
from tests.support.entropy import SeededEntropy
from tests.support.tasks import make_task
from tests.support.told_leader import ToldLeader, Turn, fails, says, stores

NOW = 1_700_000_050
TASK = make_task()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk._Call, "_pause", lambda _self, _attempt: None)


def client(leader: ToldLeader, per_request: int = 200, outbox: Outbox | None = None) -> Client:
    return Client(
        TASK,
        outbox,
        sender=leader,
        entropy=SeededEntropy(b"client"),
        clock=ManualClock(NOW),
        reports_per_request=per_request,
    )


def reports(body: bytes) -> tuple[Report, ...]:
    return decode(UploadRequest, body).reports


def leader_share(report: Report, keypair: HpkeKeypair) -> bytes:
    aad = input_share_aad(TASK.input_share_aad_prefix, report.report_metadata, report.public_share)
    return open_(
        keypair, input_share_info(DAP_18.tag, Role.LEADER), aad, report.leader_encrypted_input_share
    )


def test_measurements_are_uploaded_in_requests_of_the_size_asked_for() -> None:
    leader, settled = ToldLeader(), list[int]()
    summary = client(leader, 2).upload([0, 1, 2, 3, 0], progress=settled.append)
    assert (summary.accepted, summary.total, dict(summary.refused)) == (5, 5, {})
    assert sum(settled) == 5
    assert [len(reports(body)) for body in leader.posts] == [2, 2, 1]
    assert len(leader.stored) == 5


async def test_an_application_of_coroutines_waits_without_blocking() -> None:
    leader = ToldLeader()
    threads = set[threading.Thread]()

    def stored(leader: ToldLeader, body: bytes) -> bytes:
        threads.add(threading.current_thread())
        return stores(leader, body)

    leader.turns = [stored]
    async with AsyncClient(TASK, sender=leader, clock=ManualClock(NOW)) as asynchronous:
        assert (await asynchronous.upload([1, 2])).accepted == 2
    assert threading.current_thread() not in threads


@pytest.mark.parametrize(
    "moment", [NOW - 1000, NOW - 1000 + 0.75, datetime.fromtimestamp(NOW - 1000, UTC)], ids=repr
)
def test_a_time_may_be_whole_seconds_or_not_or_a_datetime(moment: float | datetime) -> None:
    leader = ToldLeader()
    client(leader).upload([1], time=moment)
    (report,) = reports(leader.posts[0])
    assert report.report_metadata.time == TASK.time(NOW - 1000)


def test_a_datetime_without_a_zone_is_refused() -> None:
    with pytest.raises(ParameterError, match="time: needs a time zone"):
        client(ToldLeader()).upload([1], time=datetime(2026, 1, 1))  # noqa: DTZ001  that is it


def test_a_measurement_out_of_range_is_named_by_its_place_and_leaves_all_others_unsent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the memory that the encodings of a long list would take together."""
    encoded, encode = list[int](), type(TASK.prio3.circuit).encode

    def seen(circuit: Histogram, measurements: Sequence[Measurement]) -> Vector:
        encoded.append(len(measurements))
        return encode(circuit, measurements)

    monkeypatch.setattr(type(TASK.prio3.circuit), "encode", seen)
    leader, most = ToldLeader(), bulk.PEOPLE_AT_ONCE
    with pytest.raises(ParameterError, match=f"measurement {3 * most}: "):
        client(leader).upload([0] * 3 * most + [99])
    assert encoded == [most, most, most, 1]
    assert leader.posts == []


@pytest.mark.parametrize("error", DAP_18.codes)
def test_what_the_leader_has_already_is_accepted_and_nothing_else_that_it_names(
    error: ReportError,
) -> None:
    """Also what it would not take now: with the memory of this process it is not sent again."""
    leader = ToldLeader()
    leader.turns = [says(error), says(error)]  # one after sealing again
    uploading = client(leader)
    summary = uploading.upload([1, 1])
    is_counted = error is ReportError.REPORT_REPLAYED
    if error is ReportError.HPKE_UNKNOWN_CONFIG_ID:
        error = ReportError.OUTDATED_CONFIG  # to a client they are the same
    assert summary.accepted == (2 if is_counted else 1)
    assert summary.refused == ({} if is_counted else {error.draft_name: 1})
    posts = len(leader.posts)
    assert uploading.upload([]).total == 0
    assert len(leader.posts) == posts


def test_a_report_that_is_refused_for_an_unknown_reason_is_refused() -> None:
    leader = ToldLeader()
    leader.turns = [says(200)]
    summary = client(leader).upload([0, 1, 2])
    assert (summary.accepted, sum(summary.refused.values())) == (2, 1)


def test_on_outdated_config_the_same_report_is_sealed_again_never_a_second_one() -> None:
    leader = ToldLeader()
    before = leader.keypair

    def outdated(leader: ToldLeader, body: bytes) -> bytes:
        leader.keys(2)
        return says(ReportError.OUTDATED_CONFIG)(leader, body)

    leader.turns = [outdated]
    summary = client(leader).upload([1, 2, 3])
    assert (summary.accepted, dict(summary.refused)) == (3, {})
    first, second = (reports(body) for body in leader.posts)
    (new,), old = second, first[0]
    assert new.report_metadata == old.report_metadata
    assert new.public_share == old.public_share
    assert new.leader_encrypted_input_share.config_id == leader.keypair.config.id
    assert leader_share(new, leader.keypair) == leader_share(old, before)


def test_the_next_group_is_made_while_one_is_sent_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bulk, "PEOPLE_AT_ONCE", 1)
    leader = ToldLeader()
    made, entropy = threading.Event(), SeededEntropy(b"client")
    drawn = list[int]()

    def slow(leader: ToldLeader, body: bytes) -> bytes:
        while entropy.calls < of_two and not made.wait(0.01):
            assert entropy.calls <= of_two
        made.wait(0.05)
        drawn.append(entropy.calls)
        return stores(leader, body)

    # A report draws its id, its randomness and a key for each aggregator; keys are tried once.
    of_two = 2 * 4 + 2
    leader.turns = [slow]
    with Client(TASK, sender=leader, entropy=entropy, clock=ManualClock(NOW)) as uploading:
        uploading.upload([1, 2, 3])
    assert drawn == [of_two]


def test_what_was_sealed_ahead_under_an_outdated_configuration_is_sealed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bulk, "PEOPLE_AT_ONCE", 1)
    leader = ToldLeader()

    def outdated(leader: ToldLeader, body: bytes) -> bytes:
        if leader.keypair.config.id == 1:
            leader.keys(2)
        old = reports(body)[0].leader_encrypted_input_share.config_id == 1
        return says(ReportError.OUTDATED_CONFIG)(leader, body) if old else stores(leader, body)

    leader.turns = [outdated] * 4
    summary = client(leader).upload([1, 2])
    assert (summary.accepted, dict(summary.refused)) == (2, {})


@pytest.mark.parametrize("reason", ["unreachable", "not_an_aggregator", "busy"])
@pytest.mark.parametrize("after", [None, stores], ids=["before it came", "after it was stored"])
def test_an_upload_goes_on_after_an_answer_that_was_none(reason: str, after: Turn | None) -> None:
    """The same reports, whose ids count once."""
    leader = ToldLeader()
    leader.turns = [fails(Later(reason), after=after), stores, stores]
    summary = client(leader, 2).upload([1, 1, 1])
    assert (summary.accepted, summary.total) == (3, 3)
    again = [report for body in leader.posts[1:] for report in reports(body)]
    assert all(report in again for report in reports(leader.posts[0]))
    assert len(leader.stored) == 3


def test_who_gives_up_says_what_is_settled_and_sends_none_of_it_again() -> None:
    leader = ToldLeader()
    leader.turns = [stores, *[fails(Later("busy"))] * bulk.ATTEMPTS]
    uploading = client(leader, 2)
    with pytest.raises(UploadError, match="busy: the first 2 of 3 reports are settled"):
        uploading.upload([1, 1, 1])
    assert uploading.upload([1]).total == 1


def test_an_outbox_in_a_file_keeps_what_an_upload_left(tmp_path: Path) -> None:
    leader = ToldLeader()
    leader.turns = [stores, *[fails(Later("busy"))] * bulk.ATTEMPTS]
    with closing(Outbox(tmp_path / "outbox")) as outbox:
        with pytest.raises(UploadError):
            client(leader, 2, outbox).upload([1, 1, 1])
        assert client(leader, 2, outbox).upload([]).accepted == 1
    assert len(leader.stored) == 3


@pytest.mark.parametrize("refusal", [Refused("unrecognizedTask"), TooLarge()], ids=repr)
def test_a_refusal_of_the_leader_itself_ends_an_upload_at_once(refusal: Exception) -> None:
    leader = ToldLeader()
    leader.turns = [fails(refusal)] * 2
    with pytest.raises(UploadError):
        client(leader).upload([1])
    assert len(leader.posts) == 1


def test_the_wait_between_two_tries_is_half_a_minute_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk asks for a minute's rest, but who gives up midway cannot send the rest."""
    monkeypatch.undo()
    waits = list[float]()
    leader = ToldLeader()
    leader.turns = [fails(Later("busy", 60))] * (bulk.ATTEMPTS - 1)
    uploading = client(leader)
    done = bulk.upload(uploading._reporter, uploading._outbox, (), sleep=waits.append)
    assert done.reason is None
    uploading._reporter.put(1)
    done = bulk.upload(uploading._reporter, uploading._outbox, (), sleep=waits.append)
    assert done.reason is None
    assert 30 <= sum(waits) <= 40


def test_an_interrupted_upload_does_not_go_on_asking_for_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C waited for the thread that makes reports, and that for a helper that was away."""
    monkeypatch.undo()
    monkeypatch.setattr(bulk, "PEOPLE_AT_ONCE", 1)
    monkeypatch.setattr(bulk, "_LONGEST_PAUSE", 3600)
    leader, asked = ToldLeader(), threading.Event()
    fetch = leader.get

    class Hasty(ManualClock):
        """Each look at it is days later, so keys are too old for the next group."""

        def now(self) -> int:
            self.advance(2 * KEYS_SECONDS)
            return super().now()

    def keys_for_one(url: str, message: str, limit: int) -> bytes:
        if leader.gets < 2:
            return fetch(url, message, limit)
        asked.set()
        raise Later("unreachable")

    def interrupted(_leader: ToldLeader, _body: bytes) -> bytes:
        asked.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(leader, "get", keys_for_one)
    leader.turns = [interrupted]
    with (
        Client(TASK, sender=leader, clock=Hasty(NOW)) as uploading,
        pytest.raises(KeyboardInterrupt),
    ):
        uploading.upload([1, 2, 3])
    assert not [each for each in threading.enumerate() if each.name.startswith("making")]


def test_a_long_list_is_made_into_reports_group_by_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of a report was made of all of them at once: 227 MB for a million."""
    monkeypatch.setattr(bulk, "PEOPLE_AT_ONCE", 1)
    put, leader, made, at_posts = upload.Put, ToldLeader(), list[Put](), list[int]()

    def counted(parts: Sequence[tuple[Task, Measurement]], seconds: int) -> Put:
        made.append(put(parts, seconds))
        return made[-1]

    def takes(leader: ToldLeader, body: bytes) -> bytes:
        at_posts.append(len(made))
        return stores(leader, body)

    monkeypatch.setattr(upload, "Put", counted)
    leader.turns = [takes] * 9
    client(leader).upload([1] * 9)
    assert at_posts[0] <= 3


def test_a_task_that_is_refused_leaves_no_outbox_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, close = list[Path | None](), Outbox.close

    def noted(outbox: Outbox) -> None:
        closed.append(outbox.path)
        close(outbox)

    monkeypatch.setattr(Outbox, "close", noted)
    strict, file = Requirements(max_epsilon=Fraction(1, 2**40)), tmp_path / "task.toml"
    monkeypatch.setattr(reporter, "Requirements", lambda: strict)
    file.write_text(task_to_toml(TASK))
    with pytest.raises(ParameterError):
        Client(TASK)
    with pytest.raises(ParameterError):
        Reporter.open(file, tmp_path / "outbox")
    assert closed == [None, tmp_path / "outbox"]


def test_what_an_interrupted_upload_left_in_memory_does_not_go_with_the_next() -> None:
    leader = ToldLeader()
    leader.turns = [stores, fails(KeyboardInterrupt())]
    uploading = client(leader, 2)
    with pytest.raises(KeyboardInterrupt):
        uploading.upload([1, 1, 1])
    assert uploading.upload([1]).total == 1
    assert len(leader.stored) == 3
