"""An upload is interrupted, and the same call goes on: each measurement counts once."""

import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.client.delivery import Reason
from aggregator.client.outbox import Outbox, Outcome, State
from aggregator.client.resuming import ATTEMPTS, OnlyReport, Sent, upload_from, upload_once
from aggregator.client.sender import Later
from aggregator.codec import decode
from aggregator.dap.messages import UploadRequest
from aggregator.dap.report_errors import ReportError
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.protocol.task_file import task_to_toml
from tests.support.clock import ManualClock
from tests.support.commands import run_here
from tests.support.ports import free_ports
from tests.support.tasks import make_task
from tests.support.told_leader import ToldLeader, fails, says, stores

NOW = 1_700_000_000
TASK = make_task({"type": "Prio3Count"})
COUNTED, WAITING = Outcome(State.COUNTED), Outcome(State.WAITING)


def upload(
    file: Path, leader: ToldLeader, measurements: list[int], seconds: int | None = None
) -> tuple[Counter[Outcome], Reason | None]:
    clock = ManualClock(NOW)
    return upload_from(
        file,
        TASK,
        measurements,
        seconds=seconds,
        per_request=2,
        sender=leader,
        clock=clock,
        sleep=lambda pause: clock.advance(int(pause)),
    )


def test_after_an_answer_that_was_lost_the_same_bytes_follow_until_all_are_settled(
    tmp_path: Path,
) -> None:
    """A leader's answers are replaced by another server's 404; it has the reports nevertheless."""
    leader, file = ToldLeader(), tmp_path / "reports"
    foreign = Later("not_an_aggregator")
    leader.turns = [stores, *[fails(foreign, after=stores) for _ in range(ATTEMPTS)]]
    measurements = [1, 0, 1, 1, 0]
    assert upload(file, leader, measurements) == (
        Counter({COUNTED: 2, WAITING: 3}),
        Reason.NOT_AN_AGGREGATOR,
    )
    assert upload(file, leader, measurements) == (Counter({COUNTED: 5}), None)
    assert len(leader.stored) == 5  # and under no id were there other bytes
    posts = len(leader.posts)
    assert upload(file, leader, measurements) == (Counter({COUNTED: 5}), None)
    assert len(leader.posts) == posts


def test_what_was_refused_is_said_again_and_not_sent_again(tmp_path: Path) -> None:
    leader, file = ToldLeader(), tmp_path / "reports"
    leader.turns = [says(ReportError.REPORT_DROPPED)]
    refused = Outcome(State.LATE, ReportError.REPORT_DROPPED.draft_name)
    for _ in range(2):
        assert upload(file, leader, [1, 0]) == (Counter({COUNTED: 1, refused: 1}), None)
    assert len(leader.posts) == 1


def test_an_interrupted_making_goes_on_with_the_measurements_that_follow(tmp_path: Path) -> None:
    leader, file = ToldLeader(), tmp_path / "reports"
    leader.is_down = True
    assert upload(file, leader, [1, 0])[0] == Counter({WAITING: 2})
    leader.is_down = False
    assert upload(file, leader, [1, 0, 1])[0] == Counter({COUNTED: 3})
    assert len(leader.stored) == 3


def test_other_measurements_than_before_are_refused_when_they_are_fewer(tmp_path: Path) -> None:
    leader, file = ToldLeader(), tmp_path / "reports"
    upload(file, leader, [1, 0])
    with pytest.raises(ParameterError, match="has 2 reports of this task, more than the 1"):
        upload(file, leader, [1])


def test_other_measurements_of_the_same_number_are_refused_while_reports_wait(
    tmp_path: Path,
) -> None:
    """A table that was changed was resumed with a mixture of its old rows and its new ones."""
    leader, file = ToldLeader(), tmp_path / "reports"
    leader.turns = [stores, *[fails(Later("unreachable")) for _ in range(ATTEMPTS)]]
    upload(file, leader, [1, 0, 1])
    with pytest.raises(ParameterError, match=r"waits in .* for measurement 3") as refused:
        upload(file, leader, [1, 0, 0])
    assert "same ones, in their order" in str(refused.value)
    assert len(leader.stored) == 2
    assert upload(file, leader, [1, 0, 1, 0])[0] == Counter({COUNTED: 4})


def test_a_file_whose_reports_are_settled_has_nothing_to_try_measurements_against(
    tmp_path: Path,
) -> None:
    """A finder of the file who knows that an answer is 0 or 1 does not learn which."""
    leader, file = ToldLeader(), tmp_path / "reports"
    leader.is_down = True
    upload(file, leader, [1])
    with closing(Outbox(file)) as outbox:
        assert list(outbox.digests(TASK.task_id.value)) == ["0"]
    leader.is_down = False
    upload(file, leader, [1])
    with closing(sqlite3.connect(file)) as kept:
        assert kept.execute("SELECT count(*) FROM digests").fetchone() == (0,)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda held: b"?" + held[1:], "file is not a database"),
        (lambda held: held[:-5000], "malformed"),
    ],
    ids=["its beginning", "its end"],
)
def test_a_file_that_is_damaged_is_not_taken_for_a_new_one(
    tmp_path: Path, damage: Callable[[bytes], bytes], said: str
) -> None:
    leader, file = ToldLeader(), tmp_path / "reports"
    upload(file, leader, [1, 0])
    file.write_bytes(damage(file.read_bytes()))
    posts = len(leader.posts)
    with pytest.raises(ConfigurationError, match=f"the outbox {file}: .*{said}"):
        upload(file, leader, [1, 0])
    assert len(leader.posts) == posts


def test_a_measurement_out_of_range_leaves_the_file_without_reports(tmp_path: Path) -> None:
    leader, file = ToldLeader(), tmp_path / "reports"
    with pytest.raises(ParameterError, match="measurement"):
        upload(file, leader, [1, 2])
    assert leader.posts == []
    assert upload(file, leader, [1, 1])[0] == Counter({COUNTED: 2})


def test_the_command_says_what_waits_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.client.resuming.ATTEMPTS", 1)
    leader, helper = [f"http://127.0.0.1:{port}/" for port in free_ports(2)]
    task = make_task({"type": "Prio3Count"}, leader=leader, helper=helper)
    file, reports = tmp_path / "task.toml", tmp_path / "reports"
    file.write_text(task_to_toml(task))
    for _ in range(2):
        done = run_here("upload", file, "1", "0", "--resume", reports)
        assert done.returncode == 3
        assert "0 of 2 reports accepted" in done.stdout
        assert f"2 reports wait in {reports} (unreachable)" in done.stderr
    done = run_here("upload", file, "1", "--resume", reports, "--state", tmp_path / "state")
    assert done.returncode == 2
    assert "resume: goes neither with --state" in done.stderr


def test_the_command_adds_up_refusals_of_one_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = Counter({Outcome(state, "told"): 2 for state in (State.LATE, State.REFUSED)})

    def settled_before(*_: object, settled: Callable[[int], None], **__: object) -> object:
        settled(4)
        return outcomes, None

    monkeypatch.setattr("aggregator.client.resuming.upload_from", settled_before)
    file = tmp_path / "task.toml"
    file.write_text(task_to_toml(TASK))
    done = run_here("upload", file, "1", "0", "1", "0", "--resume", tmp_path / "reports")
    assert (done.returncode, "4 refused: told" in done.stdout) == (1, True)
    assert "nothing was sent: all of them were settled before" in done.stderr


def once(file: Path, leader: ToldLeader, reports: list[OnlyReport]) -> Sent:
    clock = ManualClock(NOW)
    return upload_once(
        file,
        TASK,
        reports,
        per_request=2,
        sender=leader,
        clock=clock,
        sleep=lambda pause: clock.advance(int(pause)),
    )


def test_nobody_is_sent_twice_whatever_the_order_and_whoever_is_new(tmp_path: Path) -> None:
    leader, file = ToldLeader(), tmp_path / "reports"
    leader.turns = [stores, *[fails(Later("busy")) for _ in range(ATTEMPTS)]]
    people = [OnlyReport(name, NOW, 1) for name in "abcde"]
    assert once(file, leader, people) == Sent(
        Counter(), Counter({COUNTED: 2, WAITING: 3}), Reason.BUSY
    )
    more = [OnlyReport("f", NOW, 1), *people[::-1]]
    assert once(file, leader, more) == Sent(Counter({COUNTED: 2}), Counter({COUNTED: 4}), None)
    assert once(file, leader, more) == Sent(Counter({COUNTED: 6}), Counter(), None)
    assert len(leader.stored) == 6


def test_what_was_refused_of_a_person_is_said_again_and_not_sent_again(tmp_path: Path) -> None:
    """The call that heard of it may have died before it said so."""
    leader, file = ToldLeader(), tmp_path / "reports"
    leader.turns = [says(ReportError.BATCH_COLLECTED)]
    late = Counter({Outcome(State.LATE, ReportError.BATCH_COLLECTED.draft_name): 1, COUNTED: 1})
    people = [OnlyReport(name, NOW, 1) for name in "ab"]
    assert once(file, leader, people) == Sent(Counter(), late, None)
    assert once(file, leader, people) == Sent(late, Counter(), None)
    assert len(leader.posts) == 1


def test_a_persons_first_answer_stays_and_is_of_its_time(tmp_path: Path) -> None:
    leader, file = ToldLeader(), tmp_path / "reports"
    hour = TASK.time_precision
    first = [OnlyReport("a", NOW, 1), OnlyReport("b", NOW - 24 * hour, 0)]
    assert once(file, leader, first).outcomes == Counter({COUNTED: 2})
    reports = [report for body in leader.posts for report in decode(UploadRequest, body).reports]
    times = {report.report_metadata.time for report in reports}
    assert times == {TASK.time(NOW), TASK.time(NOW - 24 * hour)}
    assert once(file, leader, [OnlyReport("a", NOW, 0)]) == Sent(
        Counter({COUNTED: 1}), Counter(), None
    )
    assert len(leader.stored) == 2


def test_a_call_at_the_same_time_takes_nothing_from_the_other_and_neither_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, file = ToldLeader(), tmp_path / "reports"
    people = [OnlyReport(name, NOW, 1) for name in "abcde"]
    read = Outbox.claims

    def another_follows(outbox: Outbox, task: bytes) -> dict[str, Outcome]:
        found = read(outbox, task)
        monkeypatch.undo()
        assert once(file, leader, people[1:3]) == Sent(Counter(), Counter({COUNTED: 2}), None)
        return found

    monkeypatch.setattr(Outbox, "claims", another_follows)
    assert once(file, leader, people) == Sent(Counter(), Counter({COUNTED: 5}), None)
    assert len(leader.stored) == 5
