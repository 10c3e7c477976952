"""An answer of now is of the window that holds now, whatever the machine's clock says."""

import socket
import threading
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.cli.steward import survey_upload
from aggregator.client import AlreadyAnswered, NotAsked, SurveyClient, TimeUnknown
from aggregator.client.records import State
from aggregator.client.right_time import LOOK_SECONDS, RightTime
from aggregator.client.stdlib_sender import HttpSender
from aggregator.clock import SystemClock
from aggregator.codec import encode
from aggregator.dap.ids import ReportId
from aggregator.dap.messages import ReportUploadStatus, UploadErrors
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY
from aggregator.protocol.task_file import task_to_toml
from tests.support.clock import ManualClock
from tests.support.commands import run_here
from tests.support.entropy import SeededEntropy
from tests.support.patience import PATIENCE_SECONDS
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import HELPER_URL, LEADER_URL
from tests.support.told_leader import ToldLeader

HOUR = 3600
TRUE = int(datetime(2027, 2, 10, 12, tzinfo=UTC).timestamp())
WRONG = [-30 * DAY, -12 * DAY, -13 * HOUR, -HOUR, 2 * HOUR, 48 * HOUR]
ANSWERS = {"department": "surgery"}


class World:
    def __init__(self, folder: Path, off: int, length: str = "week") -> None:
        self.clock = ManualClock(TRUE + off)
        self.leader = ToldLeader()
        self.said(0, 0)
        survey = VISITS.replace('"week"', f'"{length}"').replace("windows = 52", "windows = 365")
        self.task = task_of(survey + department())
        (folder / "task.toml").write_text(task_to_toml(self.task))
        self.client = SurveyClient(
            folder / "task.toml",
            sender=self.leader,
            clock=self.clock,
            entropy=SeededEntropy(b"right time"),
        )

    def said(self, leader: int | None, helper: int | None) -> None:
        """Let the aggregators say what time it is, by seconds from the truth."""
        told = {LEADER_URL: leader, HELPER_URL: helper}
        self.leader.dates = {url: TRUE + each for url, each in told.items() if each is not None}

    def dated(self) -> int:
        """The window of the report that waits, in seconds."""
        (record,) = self.client.reporter._outbox.due(self.task.task_id.value, None, 9)
        window = self.task.policy.window
        assert window is not None
        return window.first_unit(record.time) * self.task.time_precision


@pytest.mark.parametrize("off", WRONG)
@pytest.mark.parametrize("length", ["day", "week"])
def test_whatever_the_clock_an_answer_is_of_the_true_window(
    tmp_path: Path, off: int, length: str
) -> None:
    world = World(tmp_path, off, length)
    world.client.put(ANSWERS, person="one")
    window = world.task.policy.window
    assert window is not None
    precision = world.task.time_precision
    assert world.dated() == window.first_unit(TRUE // precision) * precision
    answered = world.client.answered("one")
    assert answered is not None
    assert answered.state is State.WAITING
    with pytest.raises(AlreadyAnswered):
        world.client.put(ANSWERS, person="one")


@pytest.mark.parametrize("off", WRONG)
def test_one_aggregator_alone_moves_nobody_into_another_window(tmp_path: Path, off: int) -> None:
    world = World(tmp_path, off)
    for leader, helper in ((None, 0), (0, None), (off, 0), (0, off), (0, 2 * off)):
        world.said(leader, helper)
        with pytest.raises(TimeUnknown):
            world.client.put(ANSWERS, person="one")
    assert world.client.reporter.waiting() == 0
    world.said(0, 0)
    world.client.put(ANSWERS, person="one")


@pytest.mark.parametrize("said", [(None, None), (0, None), (None, 200), (200, -50)])
def test_a_clock_from_which_nobody_differs_is_believed(
    tmp_path: Path, said: tuple[int | None, int | None]
) -> None:
    world = World(tmp_path, 0)
    world.said(*said)
    world.client.put(ANSWERS, person="one")
    assert world.client.row(ANSWERS).seconds == TRUE


def test_a_row_with_a_time_keeps_it(tmp_path: Path) -> None:
    world = World(tmp_path, -12 * DAY)
    assert world.client.row(ANSWERS, seconds=TRUE - 30 * DAY).seconds == TRUE - 30 * DAY
    assert world.leader.gets == 0


def test_what_both_said_holds_for_an_hour_while_one_is_away_and_until_the_clock_is_set(
    tmp_path: Path,
) -> None:
    world, since = World(tmp_path, -13 * HOUR), [0.0]
    time = RightTime(world.task, world.leader, world.clock, lambda: since[0])

    def wait(seconds: int) -> None:
        since[0] += seconds
        world.clock.advance(seconds)

    assert time.now() == TRUE
    world.said(None, 0)
    wait(LOOK_SECONDS - 1)
    assert time.now() == TRUE + LOOK_SECONDS - 1
    assert world.leader.gets == 2
    wait(2)
    world.said(None, LOOK_SECONDS + 1)
    assert time.now() == TRUE + LOOK_SECONDS + 1
    world.clock.advance(13 * HOUR)
    assert time.now() == world.clock.now() == time.known()


@pytest.mark.parametrize(
    ("off", "said"),
    [
        (-110 * DAY, "the survey begins at 2026-11-02"),
        (300 * DAY, "the survey ended at 2027-11-02"),
    ],
)
def test_who_asks_before_or_after_the_survey_is_told_so(
    tmp_path: Path, off: int, said: str
) -> None:
    world = World(tmp_path, 0, "day")
    world.clock.advance(off)
    world.said(off, off)
    closed = world.client.closed()
    assert closed is not None
    assert said in closed
    with pytest.raises(NotAsked, match=said):
        world.client.put(ANSWERS, person="one")


def test_before_the_first_question_the_leader_is_asked_whether_it_takes_an_answer(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, 0)
    code = world.task.profile.code(ReportError.BATCH_COLLECTED)
    status = ReportUploadStatus(ReportId(bytes(16)), code)
    world.leader.turns = [lambda _leader, _body: encode(UploadErrors((status,)))]
    assert world.client.closed() == "no more answers are taken now (batch_collected)"


@pytest.mark.parametrize(
    ("headers", "date"),
    [
        ({"date": "Wed, 10 Feb 2027 12:00:00 GMT"}, TRUE),
        ({"date": "Wed, 10 Feb 2027 12:00:00 GMT", "age": "0"}, None),
        ({"date": "yesterday"}, None),
        ({}, None),
    ],
)
def test_a_date_that_a_cache_has_kept_says_nothing(
    headers: dict[str, str], date: int | None
) -> None:
    sender = HttpSender()
    for before in ({}, {"date": "Wed, 10 Feb 2021 12:00:00 GMT"}):
        sender._note_date("https://leader.example/", before)
        sender._note_date("https://leader.example/", headers)
        assert sender.date_of("https://leader.example/") == date


@pytest.mark.parametrize(
    ("when", "said"),
    [
        ("2026-11-01", "1 of 2 rows are of windows in which people are not asked, the first 2026"),
        ("2027-11-05", "people are not asked, the first 2027-11-01 to 2027-11-07; they are, 2026"),
    ],
)
def test_a_table_with_rows_of_other_times_is_refused_before_anything_is_sent(
    tmp_path: Path, when: str, said: str
) -> None:
    (tmp_path / "task.toml").write_text(task_to_toml(task_of(VISITS + department())))
    rows = f"time,department\n2026-11-05,surgery\n{when},surgery\n"
    (tmp_path / "answers.csv").write_text(rows)
    done = run_here("survey", "upload", tmp_path / "task.toml", tmp_path / "answers.csv")
    assert done.returncode == 2  # before anything is sent, which needs an aggregator
    assert said in done.stderr


def test_rows_of_a_window_that_takes_no_more_are_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = task_of(VISITS + department())
    (tmp_path / "task.toml").write_text(task_to_toml(task))
    (tmp_path / "answers.csv").write_text("time,department\n2027-02-10,surgery\n")
    code = task.profile.code(ReportError.REPORT_DROPPED)
    leader = ToldLeader()
    leader.turns = [
        lambda _leader, _body: encode(
            UploadErrors((ReportUploadStatus(ReportId(bytes(16)), code),))
        )
    ]
    leader.close = lambda: None  # type: ignore[attr-defined]  # of a command's sender
    monkeypatch.setattr(survey_upload, "sender_to", lambda **_: leader)
    monkeypatch.setattr(SystemClock, "now", lambda _: TRUE)
    done = run_here("survey", "upload", tmp_path / "task.toml", tmp_path / "answers.csv")
    assert done.returncode == 2
    assert "no more reports of 2027-02-08 to 2027-02-14 (report_dropped)" in done.stderr
    assert not leader.stored


def test_an_answer_waits_for_no_aggregator_behind_an_upload_or_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.client.survey.client.PATIENCE_SECONDS", 0.05)
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        leader, helper = (f"http://127.0.0.1:{each.getsockname()[1]}/" for each in silent)
        task = task_of(VISITS + department(), leader=leader, helper=helper)
        (tmp_path / "task.toml").write_text(task_to_toml(task))
        client = SurveyClient(tmp_path / "task.toml", clock=ManualClock(TRUE))
        stack.callback(client.close)
        assert isinstance(client._sender, HttpSender)
        with client._sender._lock:  # an upload that takes its time
            client.put(ANSWERS, person="one")
        assert client.reporter.waiting() == 1


def test_while_one_thread_asks_again_what_time_it_is_others_go_by_what_was_said(
    tmp_path: Path,
) -> None:
    world, since = World(tmp_path, -13 * HOUR), [0.0]
    time = RightTime(world.task, world.leader, world.clock, lambda: since[0])
    assert time.now() == TRUE
    since[0] += LOOK_SECONDS
    world.clock.advance(LOOK_SECONDS)
    is_asked, may_answer, get = threading.Event(), threading.Event(), world.leader.get

    def slow(url: str, message: str, limit: int) -> bytes:
        is_asked.set()
        assert may_answer.wait(PATIENCE_SECONDS)
        return get(url, message, limit)

    world.leader.get = slow  # type: ignore[method-assign]  # an aggregator that takes its time
    asking = threading.Thread(target=time.now)
    asking.start()
    try:
        assert is_asked.wait(PATIENCE_SECONDS)
        assert time.now() == TRUE + LOOK_SECONDS
    finally:
        may_answer.set()
        asking.join()
