"""A survey's client in an application: one report a person and window, on good days and bad."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from aggregator.client import (
    AlreadyAnswered,
    AnswerError,
    Outbox,
    OutboxFull,
    Outcome,
    PermitStore,
    Reason,
    Row,
    State,
    SurveyClient,
    bulk,
)
from aggregator.client.sender import Later, Refused
from aggregator.client.verdicts import SEVERAL_DAYS
from aggregator.dap.ids import encode_base64url
from aggregator.dap.report_errors import ReportError
from aggregator.dap.times import DAY
from aggregator.errors import ParameterError
from aggregator.issuer import Issuer, PrivateKeys
from aggregator.protocol.permit_codes import code_of, name_of
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task_file import task_from_toml, task_to_toml, tasks_to_json
from tests.support.clock import ManualClock
from tests.support.permitted import DOMAIN
from tests.support.signed import KeptAnswers, issuer_keys, moduli, private_keys
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import make_task
from tests.support.told_leader import ToldLeader, fails, says, stores

WEEK = 7 * 86400
MONDAY = 1_793_577_600
"""2026-11-02, on which a window begins."""
ASKED = VISITS + department() + '[[question]]\nname = "hours"\nkind = "number"\nlow = 0\nhigh = 9\n'


class World:
    """An application's machine, which may start again, and who is at the other end."""

    def __init__(self, folder: Path) -> None:
        self.file, self.leader = folder / "task.json", ToldLeader()
        self.clock = ManualClock(MONDAY + 5)
        self.settled: list[tuple[bytes, str | None, Outcome, str | None]] = []
        self.file.write_text(tasks_to_json([task_of(ASKED)]), "utf-8")
        self._begun: list[SurveyClient] = []

    def begin(self, **settings: int) -> SurveyClient:
        """Return the client of another process, over the same files."""
        self._begun.append(
            SurveyClient(
                self.file,
                clock=self.clock,
                sender=self.leader,
                on_settled=lambda *said: self.settled.append(said),
                **settings,  # type: ignore[arg-type]  # bounds
            )
        )
        return self._begun[-1]

    def close(self) -> None:
        for client in self._begun:
            client.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("person", "message"),
    [
        (17, "person: must be text, not int"),
        ("", "person: must name a person, and is empty"),
        (" \t", "person: must name a person, and is empty"),
        ("17\ud800", "person: must be Unicode, without halves of surrogate pairs"),
    ],
)
def test_who_has_no_name_is_refused_before_anything_is_stored(
    world: World, person: str, message: str
) -> None:
    """An application whose cookie is empty would count one visitor and turn all others away."""
    survey = world.begin()
    calls: tuple[Callable[[], object], ...] = (
        lambda: survey.put({}, person=person),
        lambda: survey.row({}, person=person),
        lambda: survey.answered(person),
        lambda: survey.reporter.put([0] * survey.sheet.spans[-1].length, person=person),
    )
    for call in calls:
        with pytest.raises(ParameterError, match=f"^{message}$") as caught:
            call()
        assert "17" not in str(caught.value)
    assert survey.reporter.waiting() == 0


def test_a_row_of_a_data_frame_is_read_as_one_of_python(world: World) -> None:
    survey = world.begin()
    row = survey.row({"hours": np.float32(4)}, person="17", seconds=np.int64(MONDAY))  # type: ignore[arg-type]  # as frames have them
    assert row == survey.row({"hours": 4}, person="17", seconds=MONDAY)
    assert type(row.seconds) is int
    with pytest.raises(ParameterError, match="seconds: must be a whole number"):
        survey.row({}, seconds=1.5)  # type: ignore[arg-type]  # what it refuses


def test_a_person_has_one_report_in_a_window_and_another_in_the_next(world: World) -> None:
    """A person who is counted twice could be told from the others by a difference."""
    survey = world.begin()
    world.clock.advance(WEEK - 6)
    survey.put({"department": "surgery", "hours": 4}, person="17: a")
    with pytest.raises(AlreadyAnswered):
        survey.put({"department": "medicine"}, person="17: a")
    assert survey.answered("17: a") == Outcome(State.WAITING)
    world.clock.advance(1)
    assert survey.answered("17: a") is None
    survey.put({}, person="17: a")
    assert survey.reporter.flush().counted == 2
    assert [(person, said.state) for _, person, said, _ in world.settled] == [
        ("17: a", State.COUNTED),
        ("17: a", State.COUNTED),
    ]


def test_a_bad_answer_claims_nothing_and_stores_nothing(world: World) -> None:
    survey = world.begin()
    with pytest.raises(AnswerError, match="hours: must be from 0 to 9"):
        survey.put({"department": "surgery", "hours": 10}, person="17")
    assert (survey.answered("17"), survey.reporter.waiting()) == (None, 0)


def test_a_day_without_a_leader_and_a_restart_lose_nothing_and_double_nothing(
    world: World,
) -> None:
    world.leader.is_down = True
    reports = [world.begin().put({"hours": 3}, person=str(person)) for person in range(3)]
    done = world.begin().reporter.flush()
    assert (done.counted, done.waiting, done.reason) == (0, 3, Reason.UNREACHABLE)
    world.clock.advance(86400)
    world.leader.is_down = False
    world.leader.turns = [fails(RuntimeError("the process dies"), after=stores)]
    with pytest.raises(RuntimeError):
        world.begin().reporter.flush(now=True)
    again = world.begin()
    with pytest.raises(AlreadyAnswered):
        again.put({"hours": 5}, person="2")
    assert again.reporter.flush(now=True).counted == 3
    assert sorted(world.leader.stored) == sorted(reports)


def test_a_refusal_comes_back_by_report_with_its_reason(world: World) -> None:
    survey = world.begin()
    first, second = (survey.put({"hours": 1}, person=name) for name in "ab")
    unnamed = survey.put({"hours": 2})
    world.leader.turns = [says(ReportError.REPORT_DROPPED)]
    survey.reporter.flush()
    refused = Outcome(State.LATE, "report_dropped")
    assert {report: (person, said) for report, person, said, _ in world.settled} == {
        first: ("a", refused),
        second: ("b", Outcome(State.COUNTED)),
        unnamed: (None, Outcome(State.COUNTED)),
    }
    assert survey.answered("a") == refused


def fill(survey: SurveyClient) -> None:
    for _ in range(1000):
        survey.put({"hours": 1})


@pytest.mark.slow
def test_what_waits_is_bounded_by_size_and_age(world: World) -> None:
    world.leader.is_down = True
    survey = world.begin(max_bytes=2**17, max_age_seconds=100)
    with pytest.raises(OutboxFull):
        fill(survey)
    waiting = survey.reporter.waiting()
    assert waiting
    world.leader.is_down = False
    world.leader.clock_ahead = 0
    for _ in range(SEVERAL_DAYS):
        world.clock.advance(DAY)
        world.leader.turns = [fails(Refused("unrecognizedTask"))]
        done = survey.reporter.flush(now=True)
    assert done.late == waiting
    assert {said for _, _, said, _ in world.settled} == {Outcome(State.LATE, "too_old")}
    survey.put({"hours": 1})


async def test_the_same_can_be_awaited(world: World) -> None:
    survey = world.begin()
    assert await survey.aput({"department": "surgery"}, person="17")
    with pytest.raises(AnswerError):
        await survey.aput({"department": "nowhere"})
    assert (await survey.reporter.aflush()).counted == 1


def test_a_client_sends_by_itself_while_it_is_begun(world: World) -> None:
    survey = world.begin()
    survey.put({"department": "surgery"}, person="17")
    survey.start(0.01)
    while survey.reporter.waiting():
        time.sleep(0.01)
    assert survey.answered("17") == Outcome(State.COUNTED)


def test_nothing_of_an_answer_is_shown_of_a_client_or_its_sheet(world: World) -> None:
    survey = world.begin()
    survey.put({"department": "surgery"}, person="someone")
    assert "someone" not in repr(survey) + repr(survey.sheet) + repr(survey.reporter)


def test_another_file_is_refused_before_an_outbox_is_made(tmp_path: Path) -> None:
    file = tmp_path / "task.toml"
    file.write_text(task_to_toml(make_task()), "utf-8")
    with pytest.raises(ParameterError, match="is of no survey"):
        SurveyClient(file)
    assert [each.name for each in tmp_path.iterdir()] == ["task.toml"]


def test_a_survey_that_protects_too_little_is_refused(world: World) -> None:
    with pytest.raises(ParameterError, match="min_batch_size"):
        SurveyClient(world.file, requirements=Requirements(min_batch_size=100))


def test_importing_it_brings_no_library_that_takes_long() -> None:
    heavy = ("numpy", "httpx", "anyio", "asyncio", "pydantic", "numba", "rich", "difflib")
    code = (
        "import sys; from aggregator.client import AnswerError, SurveyClient; "
        f"print([each for each in {heavy} if each in sys.modules])"
    )
    done = subprocess.run(  # noqa: S603  an interpreter of ours
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_each_row_of_a_table_is_accepted_or_left_out_also_a_persons_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the call after one that was interrupted neither row of a person was left out."""
    monkeypatch.setattr(bulk, "ATTEMPTS", 1)
    nothing = world.begin().sheet.entries({})
    rows = [Row(nothing, {}, MONDAY + hour, f"{hour % 5}") for hour in range(10)]
    world.leader.turns = [fails(Later("unreachable"))]
    interrupted = world.begin().upload(rows)
    assert (interrupted.reason, interrupted.waiting.total()) == ("unreachable", 5)
    done = world.begin().upload(rows)
    assert (done.counted, done.before.total(), done.waiting.total()) == (5, 5, 0)


def test_a_survey_that_counts_only_personal_links_is_answered_by_their_codes(
    world: World,
) -> None:
    domain = encode_base64url(bytes(range(32)))
    task = task_from_toml(f'{task_to_toml(task_of(ASKED))}\n[permits]\ndomain = "{domain}"\n')
    world.file.write_text(tasks_to_json([task]), "utf-8")
    secret, other = bytes(range(16)), bytes(16)
    survey = world.begin()
    with pytest.raises(ParameterError, match="permit: the task counts only reports with one"):
        survey.put({}, person="17")
    with pytest.raises(ParameterError, match="permit: the code has a slip in it"):
        survey.put({}, permit="0" * 27 + "1")
    report = survey.put({"hours": 3}, permit=code_of(secret))
    assert task.permits is not None
    assert report == task.permits.report_id(task.opening(secret, world.clock.now()))
    with pytest.raises(AlreadyAnswered):
        survey.put({}, permit=code_of(secret).upper())
    survey.put({}, permit=code_of(other), person="of the family")
    world.leader.turns = [says(ReportError.PERMIT_SPENT)]
    survey.reporter.flush()
    spent = Outcome(State.REFUSED, "permit_spent")
    assert survey.answered(name_of(secret)) == spent
    assert {person for _, person, _, _ in world.settled} == {name_of(secret), "of the family"}


def test_a_survey_whose_permits_are_signed_takes_a_persons_own_with_the_answers(
    world: World,
) -> None:
    plain, now = task_of(ASKED), world.clock.now()
    first = plain.permit_window_at(plain.time(now))
    keys = " ".join(map(encode_base64url, moduli()))
    permits = f'domain = "{encode_base64url(DOMAIN)}"\nfirst_window = {first}\nkeys = "{keys}"'
    task = task_from_toml(f"{task_to_toml(plain)}\n[permits]\n{permits}\n")
    world.file.write_text(tasks_to_json([task]), "utf-8")
    issuer = Issuer(
        PrivateKeys(issuer_keys(first), private_keys()), [task], KeptAnswers(), clock=world.clock
    )
    outbox = Outbox(world.file.with_name("outbox.sqlite"))
    survey = SurveyClient(world.file, outbox, clock=world.clock, sender=world.leader)
    with pytest.raises(ParameterError, match="the outbox holds none of this window"):
        survey.put({"hours": 3}, person="17")
    for person in ("17", "18"):
        store = PermitStore(outbox, [survey.task], person=person, clock=world.clock)
        assert store.refresh(lambda body, user=person: issuer.issue(user, body)) == 3
    with pytest.raises(ParameterError, match="permits are signed, so no code gives one"):
        survey.put({}, person="17", permit=code_of(bytes(16)))
    report = survey.put({"hours": 3}, person="17")
    with pytest.raises(AlreadyAnswered):
        survey.put({"hours": 4}, person="17")
    assert survey.put({"hours": 3}, person="18") != report
    survey.reporter.flush()
    assert survey.answered("17") == Outcome(State.COUNTED)
    world.clock.advance(7 * DAY)  # another window, whose permit came with the first
    survey.put({"hours": 3}, person="17")
    survey.close()
    outbox.close()
