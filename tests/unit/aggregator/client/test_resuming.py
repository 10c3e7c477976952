"""An upload is interrupted, and the same call goes on: each measurement counts once."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.cli.client.sending import check_sent, summary_of
from aggregator.client import Outbox, Outcome, Reporter, State, bulk
from aggregator.client.bulk import ATTEMPTS, Uploaded
from aggregator.client.delivery import KEYS_SECONDS
from aggregator.client.passes import Reason
from aggregator.client.records import Entry
from aggregator.client.resuming import upload_list, upload_of_persons
from aggregator.client.sender import Later
from aggregator.dap.report_errors import ReportError
from aggregator.errors import ConfigurationError, ParameterError, PeerError
from aggregator.protocol.task_file import task_to_toml
from tests.support.clock import ManualClock
from tests.support.commands import run_here
from tests.support.ports import free_ports
from tests.support.tasks import LAPLACE, make_task
from tests.support.told_leader import ToldLeader, fails, says, stores

NOW = 1_700_000_000
TASK = make_task({"type": "Prio3Count"})
TASK_ID = TASK.task_id.value
COUNTED, WAITING = Outcome(State.COUNTED), Outcome(State.WAITING)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk._Call, "_pause", lambda _self, _attempt: None)


def upload(
    file: Path, leader: ToldLeader, measurements: list[int]
) -> tuple[Counter[Outcome | None], str | None]:
    """Return what became of all measurements, and why some still wait."""

    def send(reporter: Reporter, outbox: Outbox) -> Uploaded:
        return upload_list(reporter, outbox, measurements, NOW)

    found = opened(file, leader, send)
    return found.of(TASK_ID) + found.before_of(TASK_ID) + Counter(
        {WAITING: found.waiting[TASK_ID]}
    ), found.reason


def opened(
    file: Path,
    leader: ToldLeader,
    send: Callable[[Reporter, Outbox], Uploaded],
    now: int = NOW,
) -> Uploaded:
    with closing(Outbox(file)) as outbox:
        reporter = Reporter(
            TASK, outbox, sender=leader, clock=ManualClock(now), reports_per_request=2
        )
        return send(reporter, outbox)


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
    leader.turns = [fails(Later("unreachable"))] * ATTEMPTS
    assert upload(file, leader, [1, 0])[0] == Counter({WAITING: 2})
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
    leader.turns = [fails(Later("unreachable"))] * ATTEMPTS
    upload(file, leader, [1])
    with closing(Outbox(file)) as outbox:
        assert list(outbox.digests(TASK.task_id.value)) == ["0"]
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
    monkeypatch.setattr("aggregator.client.bulk.ATTEMPTS", 1)
    leader, helper = [f"http://127.0.0.1:{port}/" for port in free_ports(2)]
    task = make_task({"type": "Prio3Count"}, leader=leader, helper=helper)
    file, reports = tmp_path / "task.toml", tmp_path / "reports"
    file.write_text(task_to_toml(task))
    for _ in range(2):
        done = run_here("upload", file, "1", "0", "--state", reports)
        assert done.returncode == 3
        assert "0 of 2 reports accepted" in done.stdout
        assert "(unreachable): the same command sends them" in done.stderr


def test_the_command_says_what_waits_of_another_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as letters of a text question, of which a call without --spelled knows nothing."""
    monkeypatch.setattr("aggregator.client.bulk.ATTEMPTS", 1)
    leader, helper = [f"http://127.0.0.1:{port}/" for port in free_ports(2)]
    said = []
    for name in "AE":
        task = make_task({"type": "Prio3Count"}, leader=leader, helper=helper, id=name * 43)
        file = tmp_path / f"{name}.toml"
        file.write_text(task_to_toml(task))
        with closing(Outbox(tmp_path / "state")) as outbox:
            Reporter(task, outbox, sender=ToldLeader()).put_many([1, 0])
        said.append(run_here("upload", file, "1", "--person", "17", "--state", tmp_path / "state"))
    assert "other tasks" not in said[0].stderr
    assert "3 reports of other tasks wait in" in said[1].stderr


def once(
    file: Path, leader: ToldLeader, people: str, measurement: int = 1, seconds: int = NOW
) -> tuple[Counter[Outcome | None], Counter[Outcome | None], str | None]:
    """Return what an earlier call settled of people, what this one did or what waits, and why."""

    def send(reporter: Reporter, outbox: Outbox) -> Uploaded:
        return upload_of_persons(reporter, outbox, [measurement] * len(people), people, seconds)

    found = opened(file, leader, send)
    now = found.of(TASK_ID) + Counter({WAITING: found.waiting[TASK_ID]})
    return found.before_of(TASK_ID), now, found.reason


def test_nobody_is_sent_twice_whatever_the_order_and_whoever_is_new(tmp_path: Path) -> None:
    leader, file = ToldLeader(), tmp_path / "reports"
    leader.turns = [stores, *[fails(Later("busy")) for _ in range(ATTEMPTS)]]
    assert once(file, leader, "abcde") == (
        Counter(),
        Counter({COUNTED: 2, WAITING: 3}),
        Reason.BUSY,
    )
    assert once(file, leader, "fedcba") == (Counter({COUNTED: 2}), Counter({COUNTED: 4}), None)
    assert once(file, leader, "fedcba") == (Counter({COUNTED: 6}), Counter(), None)
    assert len(leader.stored) == 6


def test_a_table_that_was_not_sent_is_not_hidden_by_another_that_waited(tmp_path: Path) -> None:
    """The helper was away when the second table came, and the reports of the first filled it up."""
    leader, file = ToldLeader(), tmp_path / "reports"
    leader.turns = [fails(Later("unreachable"))] * ATTEMPTS
    once(file, leader, "abcde")
    leader.has_no_keys = True

    def send(reporter: Reporter, outbox: Outbox) -> Uploaded:
        return upload_of_persons(reporter, outbox, [1, 1, 1], "fga", NOW)

    found = opened(file, leader, send, NOW + 2 * KEYS_SECONDS)
    summary = summary_of(found, TASK_ID, total=3)
    assert (summary.accepted, summary.waiting) == (5, 2)
    with pytest.raises(PeerError, match=r"^2 reports are not settled.*\(unreachable\)"):
        check_sent(found, summary.waiting, file, TASK)


def test_no_more_is_made_than_a_few_groups_if_the_leader_declines_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million rows of a task that has not begun would all lie in the file, both shares each."""
    monkeypatch.setattr(bulk, "PEOPLE_AT_ONCE", 1)
    leader, file = ToldLeader(), tmp_path / "reports"
    people = "abcdefghijklmnopqrstuvwxyz"
    early = says(ReportError.REPORT_TOO_EARLY, of_all=True)
    leader.turns = [stores, *[early] * len(people)]
    for waiting in (4, 8):  # what an earlier call left does not stop this one
        before, now, reason = once(file, leader, people)
        assert before + now == Counter({COUNTED: 1, WAITING: waiting})
        assert reason == Reason.REPORT_TOO_EARLY
    leader.turns = []
    assert once(file, leader, people) == (Counter({COUNTED: 1}), Counter({COUNTED: 25}), None)


def test_what_was_refused_of_a_person_is_said_again_and_not_sent_again(tmp_path: Path) -> None:
    """The call that heard of it may have died before it said so."""
    leader, file = ToldLeader(), tmp_path / "reports"
    leader.turns = [says(ReportError.BATCH_COLLECTED)]
    late = Counter({Outcome(State.LATE, ReportError.BATCH_COLLECTED.draft_name): 1, COUNTED: 1})
    assert once(file, leader, "ab") == (Counter(), late, None)
    assert once(file, leader, "ab") == (late, Counter(), None)
    assert len(leader.posts) == 1


def test_a_persons_first_answer_stays(tmp_path: Path) -> None:
    leader, file = ToldLeader(), tmp_path / "reports"
    assert once(file, leader, "a")[1] == Counter({COUNTED: 1})
    later = NOW + 10 * TASK.time_precision
    assert once(file, leader, "a", 0) == (Counter({COUNTED: 1}), Counter(), None)
    assert once(file, leader, "a", 0, later) == (Counter({COUNTED: 1}), Counter(), None)
    assert len(leader.stored) == 1


def test_a_call_at_the_same_time_takes_nothing_from_the_other_and_neither_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, file = ToldLeader(), tmp_path / "reports"
    read = Outbox.refusals

    def another_follows(outbox: Outbox, entries: Sequence[Entry]) -> list[str | None]:
        found = read(outbox, entries)
        monkeypatch.setattr(Outbox, "refusals", read)
        assert once(file, leader, "bc") == (Counter(), Counter({COUNTED: 2}), None)
        return found

    monkeypatch.setattr(Outbox, "refusals", another_follows)
    assert once(file, leader, "abcde") == (Counter({COUNTED: 2}), Counter({COUNTED: 3}), None)
    assert len(leader.stored) == 5


def test_the_command_sends_one_persons_measurements_and_later_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.client.bulk.ATTEMPTS", 1)
    leader, helper = [f"http://127.0.0.1:{port}/" for port in free_ports(2)]
    task = make_task({"type": "Prio3Count"}, leader=leader, helper=helper)
    file, state = tmp_path / "task.toml", tmp_path / "state"
    file.write_text(task_to_toml(task))
    for measurements, said in (
        (["1"], "1 report is"),
        (["1"], "1 allowed"),
        ([], "1 report is"),
    ):
        done = run_here("upload", file, *measurements, "--person", "17", "--state", state)
        assert said in done.stderr, done
    assert run_here("upload", file, "1", "--person", "17").returncode == 2


def test_the_command_takes_persons_of_a_task_with_windows_only_with_a_time(tmp_path: Path) -> None:
    """The same command, called again after midnight, counted everybody in the next day, too."""
    task = make_task(privacy={**LAPLACE, "window": 36})
    file, table = tmp_path / "task.toml", tmp_path / "table.csv"
    file.write_text(task_to_toml(task))
    table.write_text("who,is\nada,1\n")
    of_persons = ("--csv", table, "--column", "is", "--person-column", "who")
    done = run_here("upload", file, *of_persons, "--state", tmp_path / "state")
    assert done.returncode == 2
    assert "time: give one, as the task has windows" in done.stderr
