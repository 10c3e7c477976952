"""Bad days of an application's client: nothing is lost or counted twice, each end has a name."""

import dataclasses
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from pathlib import Path

import pytest

from aggregator.client.delivery import KEYS_SECONDS
from aggregator.client.outbox import AlreadyAnswered, Outbox, OutboxFull
from aggregator.client.passes import Reason, Settling
from aggregator.client.records import Outcome, Record, State
from aggregator.client.reporter import Reporter
from aggregator.client.sender import Later, Refused, TooLarge
from aggregator.client.verdicts import SEVERAL_DAYS
from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeConfigList, generate_keypair
from aggregator.dap.hpke_suites import NAMED
from aggregator.dap.messages import UploadRequest
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.protocol.reports import report_sizes
from aggregator.protocol.task_file import task_to_toml
from tests.support.clock import ManualClock
from tests.support.entropy import SeededEntropy
from tests.support.small_disk import small_disk
from tests.support.tasks import make_task
from tests.support.told_leader import ToldLeader, Turn, fails, says, stores

NOW = 1_700_000_000
NOBODY = 65534
COUNT = {"type": "Prio3Count"}


class World:
    """A client's machine: its clock and its outbox, and who is at the other end."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "outbox.sqlite"
        self.leader = ToldLeader()
        self.clock = ManualClock(NOW)
        self.settled: list[tuple[str | None, Outcome]] = []
        self.task = make_task(COUNT)
        self._open: list[Outbox] = []

    def begin(self, max_age_seconds: int = 10**6, max_bytes: int = 2**26) -> Reporter:
        """Return the client of another process, over the same file."""
        outbox = Outbox(self.path, max_bytes)
        self._open.append(outbox)
        return Reporter(
            self.task,
            outbox,
            clock=self.clock,
            sender=self.leader,
            on_settled=lambda _, claim, outcome: self.settled.append((claim, outcome)),
            max_age_seconds=max_age_seconds,
            reports_per_request=3,
        )

    def close(self) -> None:
        for outbox in self._open:
            outbox.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def test_a_report_is_stored_sent_counted_and_forgotten(world: World) -> None:
    reporter = world.begin()
    reporter.put(1, claim="person 1")
    assert reporter.claimed("person 1") == Outcome(State.WAITING)
    assert world.leader.posts == []
    done = reporter.flush()
    assert (done.counted, done.waiting, done.reason) == (1, 0, None)
    assert reporter.claimed("person 1") == Outcome(State.COUNTED)
    assert world.settled == [("person 1", Outcome(State.COUNTED))]
    assert reporter.claimed("person 2") is None


def test_a_claim_has_one_report_and_a_group_with_a_second_is_stored_not_at_all(
    world: World,
) -> None:
    reporter = world.begin()
    reporter.put(1, claim="a")
    with pytest.raises(AlreadyAnswered):
        reporter.put_many([0, 1], ["b", "a"])
    assert reporter.claimed("b") is None
    reporter.flush()
    with pytest.raises(AlreadyAnswered):
        world.begin().put(0, claim="a")
    assert len(world.leader.stored) == 1


def test_a_lost_answer_is_asked_for_again_with_the_same_bytes_after_a_restart_too(
    world: World,
) -> None:
    reporter = world.begin()
    reporter.put_many([1, 0])
    lost = Later("unreachable")
    world.leader.turns = [fails(lost), fails(lost, after=stores)]
    assert reporter.flush().reason is Reason.UNREACHABLE
    world.clock.advance(4000)
    assert reporter.flush().waiting == 2
    world.clock.advance(4000)
    assert world.begin().flush().counted == 2
    assert len(world.leader.posts) == 3
    assert len(set(world.leader.posts)) == 1
    assert len(world.leader.stored) == 2


def test_what_the_leader_has_already_is_counted_not_refused(world: World) -> None:
    reporter = world.begin()
    reporter.put(1)
    world.leader.turns = [says(ReportError.REPORT_REPLAYED)]
    assert reporter.flush().counted == 1


def test_a_day_without_a_leader_loses_nothing_and_needs_no_keys(world: World) -> None:
    world.leader.is_down = True
    reporter = world.begin()
    for person in range(7):
        reporter.put(person % 2, claim=str(person))
        assert reporter.flush(now=True).reason is Reason.UNREACHABLE
        world.clock.advance(4 * 3600)
    assert reporter.waiting() == 7
    world.leader.is_down = False
    assert world.begin().flush(now=True).counted == 7
    assert len(world.leader.posts) == 3  # groups of three


def test_a_busy_leader_is_left_alone_for_as_long_as_it_says(world: World) -> None:
    reporter = world.begin()
    reporter.put(1)
    world.leader.turns = [fails(Later("busy", 120))]
    assert reporter.flush().reason is Reason.BUSY
    world.clock.advance(119)
    reporter.flush()
    assert len(world.leader.posts) == 1
    world.clock.advance(2)
    assert reporter.flush().counted == 1


def test_keys_are_asked_for_once_a_day(world: World) -> None:
    reporter = world.begin()
    reporter.put(1)
    reporter.flush()
    reporter.put(1)
    reporter.flush()
    assert world.leader.gets == 2  # a leader and a helper
    world.clock.advance(KEYS_SECONDS + 1)
    reporter.put(1)
    reporter.flush()
    assert world.leader.gets == 4


def test_a_report_sealed_to_keys_that_went_is_sealed_again_under_its_id_and_time(
    world: World,
) -> None:
    reporter = world.begin()
    reporter.put(1)

    def rotate(leader: ToldLeader, body: bytes) -> bytes:
        leader.keys(2)
        world.clock.advance(3 * 86_400)
        return says(ReportError.OUTDATED_CONFIG)(leader, body)

    world.leader.turns = [rotate]
    assert reporter.flush().counted == 1
    first, second = (decode(UploadRequest, body).reports[0] for body in world.leader.posts)
    assert first.report_metadata == second.report_metadata
    assert first.public_share == second.public_share
    assert second.leader_encrypted_input_share.config_id == 2
    assert encode(first) != encode(second)


def test_a_leader_that_calls_good_keys_outdated_gets_no_other_bytes(world: World) -> None:
    reporter = world.begin()
    reporter.put(1)
    world.leader.turns = [says(ReportError.OUTDATED_CONFIG)] * 3
    for _ in range(3):
        assert reporter.flush().reason is Reason.OUTDATED_CONFIG
        world.clock.advance(3601)
    assert len(set(world.leader.posts)) == 1
    assert reporter.flush().counted == 1


def test_two_processes_that_seal_one_report_send_the_same_bytes(world: World) -> None:
    world.begin().put(1)
    one, two = Outbox(world.path), Outbox(world.path)
    [record] = one.due(world.task.task_id.value, None, 1)
    [first] = one.seal([record], b"keys", [b"the first"])
    [second] = two.seal([record], b"keys", [b"the second"])
    assert first == second
    assert first.body == b"the first"
    one.close()
    two.close()


def test_a_clock_that_is_ahead_makes_a_report_wait_for_its_time(world: World) -> None:
    reporter = world.begin()
    reporter.put(1)
    world.leader.turns = [says(ReportError.REPORT_TOO_EARLY)]
    world.leader.clock_ahead = 7200
    done = reporter.flush()
    assert (done.waiting, done.reason) == (1, Reason.REPORT_TOO_EARLY)
    assert reporter.clock_ahead == 7200
    world.clock.advance(7200)
    assert reporter.flush().counted == 1
    assert len(set(world.leader.posts)) == 1


@pytest.mark.parametrize(
    ("turn", "outcome"),
    [
        (says(ReportError.BATCH_COLLECTED), Outcome(State.LATE, "batch_collected")),
        (says(ReportError.REPORT_DROPPED), Outcome(State.LATE, "report_dropped")),
        (says(ReportError.TASK_EXPIRED), Outcome(State.LATE, "task_expired")),
    ],
)
def test_each_end_has_its_name(world: World, turn: Turn, outcome: Outcome) -> None:
    reporter = world.begin()
    reporter.put(1, claim="it")
    world.leader.turns = [turn]
    assert reporter.flush().waiting == 0
    assert world.settled == [("it", outcome)]
    assert reporter.claimed("it") == outcome


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (says(ReportError.INVALID_MESSAGE), "invalid_message"),
        (says(99), "report_error_99"),
        (fails(Refused("invalidMessage")), "invalidMessage"),
        (fails(Refused("batchInvalid")), "batchInvalid"),
    ],
)
def test_who_cannot_read_a_report_has_to_say_so_on_several_days(
    world: World, turn: Turn, reason: str
) -> None:
    """A leader with another task file, or a broken proxy, says so of all until it is mended."""
    world.begin().put(1, claim="it")
    world.clock.advance(-NOW % DAY)
    for _ in range(SEVERAL_DAYS - 1):
        for _ in range(24):  # however often in one day
            world.leader.turns = [turn]
            done = world.begin().flush(now=True)
            assert (done.waiting, done.reason) == (1, reason)
            world.clock.advance(3600)
    world.leader.turns = [turn]
    assert world.begin().flush(now=True).refused == 1
    assert world.settled == [("it", Outcome(State.REFUSED, reason))]


def test_a_report_that_the_leader_cannot_read_waits_for_an_hour(world: World) -> None:
    reporter = world.begin()
    reporter.put(1, claim="it")
    world.leader.turns = [says(ReportError.INVALID_MESSAGE)]
    done = reporter.flush()
    assert (done.waiting, done.refused, done.reason) == (1, 0, "invalid_message")
    world.clock.advance(3599)
    reporter.flush()
    assert len(world.leader.posts) == 1
    world.clock.advance(1)
    assert reporter.flush().counted == 1
    assert reporter.claimed("it") == Outcome(State.COUNTED)
    assert len(set(world.leader.posts)) == 1


def test_a_leader_that_refuses_everybody_is_asked_about_one_group_an_hour(world: World) -> None:
    reporter = world.begin()
    reporter.put_many([1] * 20)
    world.leader.turns = [fails(Refused("invalidMessage"))] * 30
    done = reporter.flush()
    assert (done.waiting, done.reason) == (20, "invalidMessage")
    assert len(world.leader.posts) == 4  # three together, and then each alone
    assert reporter._deliveries[reporter._id].quiet_until == NOW + 3600
    world.leader.turns = []
    assert reporter.flush(now=True).counted == 20


def test_a_clock_that_jumps_for_one_pass_gives_nothing_up(world: World) -> None:
    """Whatever the leader says meanwhile, if it is reached at all."""
    reporter = world.begin()
    reporter.put_many([1] * 6, [str(person) for person in range(6)])
    world.leader.is_down = True
    for turn in (None, says(ReportError.REPORT_TOO_EARLY), fails(Refused("unrecognizedTask"))):
        world.leader.turns = [turn] if turn else []
        world.clock.advance(15 * DAY)
        world.leader.clock_ahead = 15 * DAY
        assert (done := reporter.flush(now=True)).late == done.refused == 0
        world.clock.advance(-15 * DAY)
        world.leader.is_down = False
        world.leader.clock_ahead = 0
    assert reporter.flush(now=True).waiting == 0
    assert [outcome for _, outcome in world.settled] == [Outcome(State.COUNTED)] * 6


@pytest.mark.parametrize("ahead", [None, -DAY, DAY])
def test_a_report_is_too_old_only_by_a_clock_that_agrees_with_the_leaders(
    world: World, ahead: int | None
) -> None:
    reporter = world.begin(max_age_seconds=3 * DAY)
    reporter.put(1)
    world.leader.clock_ahead = ahead
    for _ in range(20):
        world.leader.turns = [says(ReportError.REPORT_TOO_EARLY)]
        assert reporter.flush(now=True).waiting == 1
        world.clock.advance(DAY)
    world.leader.clock_ahead = DAY - 1
    world.leader.turns = [says(ReportError.REPORT_TOO_EARLY)]
    assert reporter.flush(now=True).late == 1


def test_one_bad_report_does_not_take_the_others_with_it(world: World) -> None:
    reporter = world.begin()
    reporter.put_many([1, 1, 1])
    refused = fails(Refused("invalidMessage"))
    world.leader.turns = [refused, stores, refused, stores]
    done = reporter.flush()
    assert (done.counted, done.waiting) == (2, 1)


def test_a_leader_that_does_not_know_the_task_yet_gets_the_answers_when_it_does(
    world: World,
) -> None:
    reporter = world.begin()
    reporter.put_many([1, 0])
    world.leader.turns = [fails(Refused("unrecognizedTask"))]
    done = reporter.flush()
    assert (done.waiting, done.reason) == (2, Reason.UNRECOGNIZED_TASK)
    assert len(world.leader.posts) == 1
    world.clock.advance(61)
    assert reporter.flush().counted == 2


def test_what_is_too_large_goes_in_halves_and_one_alone_waits(world: World) -> None:
    reporter = world.begin()
    reporter.put_many([1] * 7)

    def takes_one(leader: ToldLeader, body: bytes) -> bytes:
        if len(decode(UploadRequest, body).reports) > 1:
            raise TooLarge
        return stores(leader, body)

    world.leader.turns = [takes_one] * 20
    assert reporter.flush().counted == 7 == len(world.leader.stored)
    assert len(world.leader.posts) == 9  # 3, 2, and then each alone
    reporter.put(1)
    world.leader.turns = [fails(TooLarge())]
    assert reporter.flush().reason is Reason.TOO_LARGE
    world.clock.advance(3601)
    assert reporter.flush().counted == 1


@pytest.mark.slow
def test_a_request_is_bounded_by_bytes(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.task = make_task({"type": "Prio3Histogram", "length": 20_000, "chunk_length": 141})
    reporter = world.begin()
    reporter.put_many([1] * 4)
    assert reporter.flush().counted == 4
    assert max(len(body) for body in world.leader.posts) <= 1_000_000
    world.close()


def test_a_pass_reads_each_report_about_once_however_many_there_are(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, due = 0, Outbox.due

    def counted(outbox: Outbox, task: bytes, now: int | None, limit: int) -> list[Record]:
        nonlocal read
        found = due(outbox, task, now, limit)
        read += len(found)
        return found

    monkeypatch.setattr(Outbox, "due", counted)
    reporter = world.begin()  # three in a request
    world.leader.turns = [says(ReportError.REPORT_TOO_EARLY)]
    reporter.put_many([1] * 60)
    passed = reporter.flush(now=True)
    assert (passed.counted, passed.waiting) == (59, 1)
    assert read <= 60 + 2 * 20  # one more in each turn, for the one that is put off


def test_what_was_answered_before_the_network_went_is_settled(world: World) -> None:
    reporter = world.begin()
    reporter.put_many([1, 1, 1])
    refused = fails(Refused("invalidMessage"))
    world.leader.turns = [refused, refused, stores, fails(Later("unreachable"))]
    done = reporter.flush()
    assert (done.counted, done.waiting) == (1, 2)
    assert len(world.settled) == 1


def test_a_report_that_waited_is_sealed_to_the_keys_of_the_day_on_which_it_is_sent(
    world: World,
) -> None:
    reporter = world.begin()
    reporter.put(1)
    reporter.flush()
    reporter.put(1)
    world.clock.advance(KEYS_SECONDS + 1)
    world.leader.keys(2)
    assert reporter.flush().counted == 1
    [report] = decode(UploadRequest, world.leader.posts[-1]).reports
    assert report.leader_encrypted_input_share.config_id == 2
    assert report.helper_encrypted_input_share.config_id == 2


def test_a_key_that_leads_to_no_secret_is_not_kept(world: World) -> None:
    reporter = world.begin()
    reporter.put(1)
    good = world.leader.get
    bad = dataclasses.replace(world.leader.keypair.config, public_key=bytes(32))
    world.leader.get = lambda *_: encode(HpkeConfigList((bad,)))  # type: ignore[method-assign]  # for a while
    assert reporter.flush().reason is Reason.NOT_AN_AGGREGATOR
    world.leader.get = good  # type: ignore[method-assign]  # as it was
    assert reporter.flush(now=True).counted == 1


def test_what_another_process_counted_is_not_called_late(world: World) -> None:
    reporter, outbox = world.begin(), Outbox(world.path)
    reporter.put(1, claim="it")
    [record] = outbox.due(world.task.task_id.value, None, 1)
    reporter.flush()
    outbox.settle([(record, Outcome(State.LATE, "too_old"))])
    outbox.close()
    assert reporter.claimed("it") == Outcome(State.COUNTED)


@pytest.mark.parametrize("is_callback", [True, False])
def test_sending_goes_on_after_a_fault_of_the_application_or_of_ours(
    world: World, *, is_callback: bool
) -> None:
    reporter = world.begin()

    def broken(*_: object) -> None:
        raise RuntimeError("not foreseen")

    if is_callback:
        reporter._deliveries[reporter._id]._on_settled = broken
    else:
        world.leader.turns = [fails(OverflowError("not foreseen"))]
    reporter.put(1)
    reporter.start(0.01)
    while reporter.fault is None:
        time.sleep(0.01)
    assert "not foreseen" in str(reporter.fault)
    reporter.put(1)
    while reporter.waiting():
        time.sleep(0.01)
    reporter.stop()
    assert len(world.leader.stored) == 2


def test_what_a_reporter_opened_it_closes(tmp_path: Path) -> None:
    file = tmp_path / "task.toml"
    file.write_text(task_to_toml(make_task(COUNT)), "utf-8")
    with Reporter.open(file, tmp_path / "outbox.sqlite") as reporter:
        reporter.put(1)
    with pytest.raises(ConfigurationError, match="closed"):
        reporter.waiting()


@pytest.mark.parametrize(
    "turn",
    [
        says(ReportError.REPORT_TOO_EARLY),
        says(ReportError.OUTDATED_CONFIG),
        fails(Refused("unrecognizedTask")),
    ],
    ids=["early", "outdated", "unknown"],
)
def test_a_report_that_the_leader_left_waiting_for_too_long_is_given_up_by_name(
    world: World, turn: Turn
) -> None:
    reporter = world.begin(max_age_seconds=DAY)
    world.leader.clock_ahead = 0
    reporter.put(1)
    for _ in range(SEVERAL_DAYS):
        world.clock.advance(DAY + 1)
        assert world.settled == []
        world.leader.turns = [turn]
        done = reporter.flush()
    assert (done.late, done.waiting) == (1, 0)
    assert world.settled == [(None, Outcome(State.LATE, "too_old"))]


def test_what_never_reached_the_leader_is_not_too_old(world: World) -> None:
    reporter = world.begin(max_age_seconds=60)
    world.leader.clock_ahead = 0
    reporter.put(1)
    for reason in ("unreachable", "busy", "not_an_aggregator"):
        world.clock.advance(100 * DAY)
        world.leader.turns = [fails(Later(reason))]
        assert reporter.flush(now=True).waiting == 1
    assert reporter.flush(now=True).counted == 1


@pytest.mark.parametrize("suite", ["X25519/AES-128-GCM", "P-256/AES-128-GCM"])
def test_a_full_outbox_refuses_reports_and_still_sends_and_empties_what_it_has(
    world: World, suite: str
) -> None:
    world.leader.keys(1, NAMED[suite])
    reporter = world.begin(max_bytes=2**16)
    world.leader.is_down = True
    kept = 0

    def fill() -> None:
        nonlocal kept
        for kept in range(1000):
            reporter.put(1, claim=str(kept))

    with pytest.raises(OutboxFull, match="no room"):
        fill()
    assert 10 < kept < 1000
    assert reporter.claimed(str(kept)) is None
    world.leader.is_down = False
    assert reporter.flush(now=True).counted == kept == len(world.leader.stored)
    reporter.put(1, claim=str(kept))


def test_reports_are_sealed_to_aggregators_with_keys_of_different_kinds(world: World) -> None:
    reporter = world.begin()
    world.leader.is_down = True
    reporter.put_many([1, 0, 1])
    world.leader.is_down = False
    world.leader.helper = generate_keypair(2, SeededEntropy(b"helper"), NAMED["P-256/AES-256-GCM"])
    world.leader.turns = [fails(Later("unreachable"), after=stores)]
    assert reporter.flush(now=True).waiting == 3
    assert reporter.flush(now=True).counted == len(world.leader.stored) == 3
    sizes = {len(report) for report in world.leader.stored.values()}
    assert sizes == {report_sizes(world.task).report_of(32, 65)}


def test_nothing_of_an_answer_is_left_in_the_file_once_it_is_settled(world: World) -> None:
    reporter = world.begin()
    reporter.put(1)
    [record] = reporter._outbox.due(world.task.task_id.value, None, 1)
    reporter.flush()
    for file in world.path.parent.iterdir():  # the log too, while the process lives
        assert record.leader_share not in file.read_bytes(), file
    world.close()
    assert not [each for each in world.path.parent.iterdir() if each != world.path]


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes here")
def test_only_the_owner_may_read_the_file(world: World) -> None:
    world.begin()
    assert stat.S_IMODE(world.path.stat().st_mode) == 0o600


def test_a_file_that_is_no_outbox_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("these are notes" * 100)
    with pytest.raises(ConfigurationError, match=r"notes\.txt"):
        Outbox(file)
    with pytest.raises(ConfigurationError, match="missing"):
        Outbox(tmp_path / "missing" / "outbox.sqlite")


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "customers.sqlite"
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute("CREATE TABLE customers (name TEXT)")
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match=r"customers\.sqlite: .* of another program"):
        Outbox(file)
    assert file.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("version", [0, 4, 6])
def test_an_outbox_of_another_version_is_left_as_it_is(world: World, version: int) -> None:
    world.begin().put(1, claim="17")
    world.close()
    with closing(sqlite3.connect(world.path)) as other:
        other.execute(f"PRAGMA user_version = {version}")
    before = world.path.read_bytes()
    with pytest.raises(ConfigurationError, match="another version of this program"):
        Outbox(world.path)
    assert world.path.read_bytes() == before


def test_opening_an_outbox_needs_no_room_and_waits_for_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or an application does not start on a full disk, or while another process writes."""
    world.begin().put(1, claim="17")
    monkeypatch.setattr("aggregator.client.outbox._PATIENCE", 0)
    with closing(sqlite3.connect(world.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        opened = Outbox(world.path)
        other.execute("ROLLBACK")
    assert opened.waiting(world.task.task_id.value) == 1
    opened.close()


@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_no_report_is_stored_where_nobody_will_find_it(world: World, what: str) -> None:
    reporter = world.begin()
    reporter.put(1, claim="17")
    moved = world.path.rename(world.path.with_name("moved"))
    if what == "replaced":
        Outbox(world.path).close()
    with pytest.raises(ConfigurationError, match="moved, removed or replaced"):
        reporter.put(1, claim="18")
    if what == "removed":
        moved.rename(world.path)
        reporter.put(1, claim="18")
        assert reporter.waiting() == 2


def test_an_application_may_change_its_folder(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A daemon goes to / once it has opened its files."""
    monkeypatch.chdir(world.path.parent)
    world.path = Path(world.path.name)
    reporter = world.begin()
    (tmp_path / "another").mkdir()
    monkeypatch.chdir(tmp_path / "another")
    reporter.put(1, claim="17")
    assert reporter.waiting() == 1


@pytest.mark.parametrize("place", ["beginning", "end"])
def test_a_damaged_outbox_says_so_and_stores_and_sends_nothing(world: World, place: str) -> None:
    """Or a person who answered before is taken for somebody new, and counted twice."""
    world.begin().put_many([1] * 30, [str(number) for number in range(30)])
    world.close()
    held = world.path.read_bytes()
    damaged = bytes(100) + held[100:] if place == "beginning" else held[: len(held) // 2]
    world.path.write_bytes(damaged)
    with pytest.raises(
        ConfigurationError, match=r"outbox\.sqlite: is damaged, or no outbox: .*Keep"
    ):
        world.begin().put_many([1] * 30, [str(number) for number in range(30)])
    assert world.leader.posts == []


def test_a_folder_that_may_not_be_written_is_named() -> None:
    """Played by an account that is nobody's, since who may do everything is refused nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "held").mkdir()
        Outbox(folder / "held" / "outbox.sqlite").close()
        for each in (folder / "held" / "outbox.sqlite", folder / "held", folder):
            each.chmod(0o444 if each.is_file() else 0o555)
        is_root = os.geteuid() == 0
        try:
            if is_root:
                os.seteuid(NOBODY)
            for file in (folder / "held" / "outbox.sqlite", folder / "held" / "new.sqlite"):
                with pytest.raises(ConfigurationError, match=f"the outbox {file}: .*denied"):
                    Outbox(file)
        finally:
            if is_root:
                os.seteuid(0)
            (folder / "held").chmod(0o755)
            folder.chmod(0o755)


def test_a_measurement_out_of_range_is_refused_before_anything_is_stored(world: World) -> None:
    reporter = world.begin()
    with pytest.raises(ParameterError, match="measurement 0"):
        reporter.put(2, claim="a")
    assert reporter.claimed("a") is None
    with pytest.raises(ParameterError, match="claims must be 2"):
        reporter.put_many([1, 0], ["a"])


def test_many_threads_put_together_and_each_hears_of_its_own_fault(world: World) -> None:
    reporter = world.begin()

    def put(number: int) -> str:
        try:
            reporter.put(2 if number == 5 else 1, claim="twice" if number in (7, 8) else None)
        except (ParameterError, AlreadyAnswered) as error:
            return type(error).__name__
        return "put"

    # What numpy is told to overlook while nothing is compiled holds in a thread by its context.
    contexts = [copy_context() for _ in range(20)]
    with ThreadPoolExecutor(20) as threads:
        said = list(threads.map(lambda number: contexts[number].run(put, number), range(20)))
    assert said[5] == "MeasurementError"
    assert sorted(said[7:9]) == ["AlreadyAnswered", "put"]
    assert said.count("put") == 18 == reporter.waiting()


def test_a_reporter_sends_by_itself_while_it_is_started(world: World) -> None:
    reporter = world.begin()
    reporter.put(1)
    reporter.start(0.01)
    while reporter.waiting():
        time.sleep(0.01)
    reporter.stop()
    reporter.put(1)
    assert reporter.waiting() == 1
    assert len(world.leader.stored) == 1


async def test_the_same_can_be_awaited(world: World) -> None:
    reporter = world.begin()
    await reporter.aput(1, claim="a")
    assert (await reporter.aflush()).counted == 1


def test_importing_it_brings_no_library_that_takes_long() -> None:
    heavy = (
        *("numpy", "cryptography", "httpx", "anyio", "asyncio", "structlog", "rich", "pydantic"),
        *("ssl", "http", "email"),
    )
    script = (
        "import sys; from aggregator.client import Reporter, SurveyClient; "
        f"sys.exit(', '.join(set(sys.modules) & set({heavy})) or 0)"
    )
    done = subprocess.run(  # noqa: S603  our own script
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_settled_is_told_though_the_disk_has_no_room_to_empty_the_log() -> None:
    """The transaction is on disk, but the file cannot grow by what the log holds."""
    with small_disk(2**23) as disk:
        world, place = World(disk.folder), disk.folder / "place"
        reporter = world.begin()
        outbox, task = world._open[0], world.task.task_id.value
        reporter.put_many([1] * 200)
        sealing = reporter._deliveries[task]
        sealing._seal(outbox.due(task, None, 200), sealing._keys())
        place.write_bytes(bytes(2**18))  # enough for what settling writes to the log
        disk.fill()
        place.unlink()
        done = sealing.deliver(
            outbox.due(task, None, 200), settling := Settling(outbox, at_once=False)
        )
        settling.settle()
        log = world.path.with_name("outbox.sqlite-wal")
        assert log.stat().st_size  # there was no room, or this shows nothing
        assert (done.counted, reporter.waiting(), len(world.settled)) == (200, 0, 200)
        disk.make_room()
        reporter.put(1)
        assert reporter.flush(now=True).counted == 1
        assert not log.stat().st_size
        world.close()


def test_a_pass_reads_each_report_once_though_the_leader_takes_none(world: World) -> None:
    reporter = world.begin()
    reporter.put_many([1] * 30)
    read = list[bytes]()
    records = reporter._outbox.records

    def counting(keys: Sequence[bytes]) -> list[Record]:
        read.extend(keys)
        return records(keys)

    reporter._outbox.records = counting  # type: ignore[method-assign]  # to see what is read
    world.leader.turns = [fails(Refused("invalidMessage"))] * 40
    assert reporter.flush(now=True).waiting == 30
    assert len(read) == len(set(read)) <= 30
