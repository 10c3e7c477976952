"""Text questions in an application: one toss a person for ever, and one report a window of each.

The collector would gain by a second toss: a person who is in two tasks pays for two.
"""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.steward.survey import app
from aggregator.client import (
    AlreadyAnswered,
    AnswerError,
    Outbox,
    Outcome,
    Reason,
    State,
    SurveyClient,
)
from aggregator.client.making import Put
from aggregator.client.survey.asked_survey import read_survey
from aggregator.client.text.beside_survey import texts_beside
from aggregator.client.text.strings import fingerprint
from aggregator.client.text.toss import Toss
from aggregator.codec import decode
from aggregator.dap.ids import decode_base64url
from aggregator.dap.messages import UploadRequest
from aggregator.dap.report_errors import ReportError
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import (
    task_from_table,
    task_to_table,
    tasks_from_toml,
    tasks_to_toml,
)
from tests.support.clock import ManualClock
from tests.support.commands import run_here
from tests.support.entropy import SeededEntropy
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import VISITS, department
from tests.support.tasks import LEADER_URL
from tests.support.told_leader import ToldLeader, says, stores

WEEK = 7 * 86400
MONDAY = 1_793_577_600
"""2026-11-02, on which a window begins."""

TASKS = 64
WORD = f"""
[[question]]
name = "word"
kind = "text"
text = "What hurts?"
epsilon = "1/4"
buckets = 16
tasks = {TASKS}
"""
SURVEY = VISITS + department() + WORD


class Leader(ToldLeader):
    """Knows also to which task each report came."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: dict[bytes, bytes] = {}

    def post(self, url: str, message: str, body: bytes, answer: str, limit: int) -> bytes:
        task = decode_base64url(url.split("/")[-2])
        for report in decode(UploadRequest, body).reports:
            key = report.report_metadata.report_id.value
            assert self.tasks.setdefault(key, task) == task
        return super().post(url, message, body, answer, limit)


class World:
    """An application's machine, whose process may die and start again."""

    def __init__(
        self,
        made: Path,
        tasks: Mapping[str, Sequence[Task]],
        outbox: Path,
        seed: bytes = b"process",
    ) -> None:
        self.made, self.outbox, self.seed = made, outbox, seed
        self.name_of = {
            each.task_id.value: name for name, of_name in tasks.items() for each in of_name
        }
        self.leader, self.clock = Leader(), ManualClock(MONDAY + 5)
        self.settled: list[tuple[bytes, str | None, Outcome, str | None]] = []
        self._begun: list[SurveyClient] = []

    def begin(self, *spelled: Path) -> SurveyClient:
        """Return the client of another process, which would toss otherwise, over the same files."""
        self._begun.append(
            SurveyClient(
                self.made / "task.json",
                self.outbox,
                spelled=spelled,
                clock=self.clock,
                sender=self.leader,
                entropy=SeededEntropy(b"%b %d" % (self.seed, len(self._begun))),
                on_settled=lambda *said: self.settled.append(said),
            )
        )
        return self._begun[-1]

    def stored(self) -> dict[str, Counter[bytes]]:
        """Return of each question, "" for all that are none of text, reports by their tasks."""
        found: dict[str, Counter[bytes]] = {}
        for key in self.leader.stored:
            task = self.leader.tasks[key]
            found.setdefault(self.name_of[task], Counter())[task] += 1
        return found

    def close(self) -> None:
        for client in self._begun:
            client.close()


Made = tuple[Path, dict[str, list[Task]]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The folder of the survey, which nobody changes, and its tasks."""
    folder = tmp_path_factory.mktemp("survey") / "made"
    return folder, write_survey_folder(folder, SURVEY)


@pytest.fixture
def world(made: Made, tmp_path: Path) -> Iterator[World]:
    asked = World(*made, tmp_path / "outbox.sqlite")
    yield asked
    asked.close()


@pytest.mark.slow
def test_over_windows_and_restarts_a_person_stays_in_one_task_once_a_window(
    world: World,
) -> None:
    for window in range(3):
        for answer in ("knee", "something else"):
            survey = world.begin()
            with suppress(AlreadyAnswered):
                survey.put({"department": "surgery", "word": answer}, person="17")
                assert answer == "knee", "a second report in a window"
        assert survey.answered("17", question="word") == Outcome(State.WAITING)
        survey.reporter.flush()
        assert survey.answered("17", question="word") == Outcome(State.COUNTED)
        assert [sum(each.values()) for each in world.stored().values()] == [window + 1] * 2
        world.clock.advance(WEEK)
    assert len(world.stored()["word"]) == 1
    assert survey.answered("18", question="word") is None


class Looked(Mapping[str, object]):
    """Answers that know when they are looked at."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def __getitem__(self, name: str) -> object:
        self._look()
        return "knee" if name == "word" else None

    def __iter__(self) -> Iterator[str]:
        self._look()
        return iter(("word",))

    def __len__(self) -> int:
        return 1


def tosses_on_disk(world: World) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(world.outbox)) as outbox:
        return outbox.execute("SELECT person, number FROM tosses ORDER BY person").fetchall()


def test_the_toss_is_on_the_disk_before_an_answer_is_looked_at(world: World) -> None:
    seen: list[object] = []
    survey = world.begin()
    survey.put(Looked(lambda: seen.append(tosses_on_disk(world))), person="17")
    assert len(seen) >= 2
    assert seen == [tosses_on_disk(world)] * len(seen)
    assert len(tosses_on_disk(world)) == 1


class Died(BaseException):
    """The process ends here; no handler of the program may catch it."""


class Dying:
    """Lets a process die after the transaction of a number, which is before the next one."""

    def __init__(self, moment: int) -> None:
        self.left = moment
        self.inner = Outbox._transaction

    @contextmanager
    def transaction(self, outbox: Outbox) -> Iterator[object]:
        with self.inner(outbox) as execute:
            yield execute
        self.left -= 1
        if self.left == 0:
            raise Died


@pytest.mark.slow
def test_a_process_that_dies_at_any_step_neither_loses_nor_doubles_nor_tosses_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    tasks = write_survey_folder(made, SURVEY.replace(f"tasks = {TASKS}", "tasks = 8"))
    moment, alive = 0, False
    while not alive:
        moment += 1
        world = World(made, tasks, tmp_path / f"{moment}.sqlite")
        with monkeypatch.context() as patch:
            survey, dying = world.begin(), Dying(moment)
            patch.setattr(Outbox, "_transaction", lambda self, by=dying: by.transaction(self))
            try:
                survey.put({"word": "knee"}, person="17")
                survey.reporter.flush(now=True)
            except Died:
                pass
            else:
                alive = True
        kept = tosses_on_disk(world)
        survey = world.begin()
        with suppress(AlreadyAnswered):
            survey.put({"word": "knee"}, person="17")
        survey.reporter.flush(now=True)
        assert {name: sum(each.values()) for name, each in world.stored().items()} == {
            "": 1,
            "word": 1,
        }
        assert tosses_on_disk(world) == kept or not kept
        world.close()
    assert moment > 10  # there were that many moments to die at
    [(_, number)] = kept
    [(question, _)] = texts_beside(made / "task.json", survey.task, survey.sheet.texts).values()
    # The second process would have tossed otherwise.
    assert Toss.of(question.hashes, SeededEntropy(b"process 1")).number != number


DAY = 86400


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "later"),
    [
        (SURVEY, 0),
        (SURVEY.replace("medicine", "eyes"), 0),
        (SURVEY.replace(WORD, ""), 0),
        (SURVEY.replace("patients", "staff"), 0),  # the text question is the same
        (
            SURVEY.replace('"week"', '"12 hours"').replace("= 52", "= 365"),
            DAY,
        ),  # in another of its own windows
        (SURVEY.replace('"week"', '"5 weeks"'), WEEK),  # in another of the first one's
    ],
)
def test_a_survey_that_is_changed_while_its_tasks_run_asks_nobody_twice_in_a_window(
    world: World, tmp_path: Path, changed: str, later: int
) -> None:
    """The maker of the tasks would get two reports of a person, or one in two windows."""
    world.begin().put({"word": "knee"}, person="17")
    folder = tmp_path / "changed"
    tasks = write_survey_folder(folder, changed, id="A" * 43)
    other = World(folder, tasks, world.outbox, b"another")
    survey = other.begin()
    assert survey.task.task_id.value not in world.name_of
    other.clock.advance(later)
    with pytest.raises(AlreadyAnswered, match="in one window, 1 allowed"):
        survey.put({}, person="17")
    assert survey.reporter.waiting() == 0
    for someone in ("1", "7", "17 ", "2 17"):
        survey.put({}, person=someone)
    other.clock.advance(5 * WEEK)
    survey.put({}, person="17")
    world.clock.advance(later + 5 * WEEK)
    with pytest.raises(AlreadyAnswered):
        world.begin().put({}, person="17")
    other.close()


def test_two_processes_that_meet_keep_one_toss_and_one_report(world: World) -> None:
    one, other = world.begin(), world.begin()
    (mine,) = one._texts.tosses("17") if one._texts else ()
    other.put({"word": "knee"}, person="17")
    with pytest.raises(AlreadyAnswered):
        one.put({"word": "knee"}, person="17")
    one.reporter.flush()
    assert tosses_on_disk(world) == [("17", mine.number)]
    assert [*world.stored()["word"].values()] == [1]
    alone = Toss.of(mine.hashes, SeededEntropy(b"process 1")).number
    assert alone != mine.number  # the other process would have tossed otherwise


@pytest.mark.slow
def test_reports_are_of_one_size_whatever_people_wrote_and_tosses_are_of_all_tasks(
    world: World,
) -> None:
    written = ["knee", "", None, "x" * 10_000, "\ud800", "🦵 knee", " \n "] * 10
    survey = world.begin()
    for number, answer in enumerate(written):
        survey.put({"word": answer}, person=str(number))
    survey.put({}, person="silent")
    survey.reporter.flush()
    assert len({len(world.leader.stored[key]) for key in of_word(world)}) == 1
    # 71 people toss for 64 tasks, by a seed: 43 of them is what is to be expected.
    word = world.stored()["word"]
    assert sum(word.values()) == len(written) + 1
    assert len(word) > 30
    assert max(word.values()) < 9
    assert world.leader.gets == 2 + 2  # what time it is; the keys of one task serve all


def test_people_who_are_not_asked_report_no_answer_to_the_task_they_tossed_for(
    tmp_path: Path,
) -> None:
    """The leader would otherwise learn an answer from what was not asked."""
    made = tmp_path / "made"
    tasks = write_survey_folder(made, ASKED_NOW + 'ask_if = { department = "surgery" }\n')
    world = World(made, tasks, tmp_path / "outbox.sqlite")
    survey = world.begin()
    seen = list[dict[str, object]]()
    inner = survey.reporter.put_together

    def put_together(put: Put) -> list[bytes]:
        seen.append({world.name_of[task.task_id.value]: what for task, what in put.parts})
        return inner(put)

    survey.reporter.put_together = put_together  # type: ignore[method-assign]  # to see the answers
    people = {"asked": "surgery", "not asked": "medicine", "silent": None}
    for person, department_of in people.items():
        survey.put({"department": department_of, "word": "knee"}, person=person)
    survey.put({"department": "surgery"}, person="wrote nothing")
    assert [each["word"] == 0 for each in seen] == [False, True, True, True]
    survey.reporter.flush()
    assert sum(world.stored()["word"].values()) == 4
    assert len({len(world.leader.stored[key]) for key in of_word(world)}) == 1
    # An answer of the wrong type is refused even from people who are not asked.
    with pytest.raises(AnswerError, match="word: must be text"):
        survey.put({"department": "medicine", "word": 3}, person="another")
    world.close()


def of_word(world: World) -> list[bytes]:
    """Return the reports of the text question."""
    return [key for key in world.leader.stored if world.name_of[world.leader.tasks[key]] == "word"]


def test_a_refusal_says_of_which_question_it_is_and_the_other_report_counts(world: World) -> None:
    survey = world.begin()
    survey.reporter.flush()  # nothing, and nobody is asked
    assert world.leader.posts == []
    report = survey.put({"word": "knee"}, person="17")
    world.leader.turns = [stores, says(ReportError.REPORT_DROPPED)]
    done = survey.reporter.flush()
    assert (done.counted, done.late, done.waiting) == (1, 1, 0)
    refused = Outcome(State.LATE, "report_dropped")
    counted = Outcome(State.COUNTED)
    assert [(person, said, question) for _, person, said, question in world.settled] == [
        ("17", counted, None),
        ("17", refused, "word"),
    ]
    assert world.settled[0][0] == report
    assert survey.answered("17", question="word") == refused
    assert survey.answered("17") == counted
    with pytest.raises(ParameterError, match="there is no text question 'wort'"):
        survey.answered("17", question="wort")


@pytest.mark.slow
def test_a_day_without_a_leader_loses_nothing_and_does_not_ask_it_for_each_task(
    world: World,
) -> None:
    world.leader.is_down = True
    survey = world.begin()
    for person in range(9):
        survey.put({"word": "knee"}, person=str(person))
    asked: list[str] = []
    inner = world.leader.get

    def get(url: str, message: str, limit: int) -> bytes:
        asked.append(url)
        return inner(url, message, limit)

    world.leader.get = get  # type: ignore[method-assign]  # to count what came in vain
    done = survey.reporter.flush()
    assert (done.counted, done.waiting, done.reason) == (0, 18, Reason.UNREACHABLE)
    assert len(asked) == 1
    world.clock.advance(86400)
    world.leader.is_down = False
    assert world.begin().reporter.flush(now=True).counted == 18
    assert {name: sum(each.values()) for name, each in world.stored().items()} == {
        "": 9,
        "word": 9,
    }


def test_what_is_no_text_and_who_has_no_name_are_refused_with_nothing_stored(world: World) -> None:
    survey = world.begin()
    with pytest.raises(AnswerError, match="word: must be text, or None for no answer") as refused:
        survey.put({"word": 3}, person="17")
    assert refused.value.question == "word"
    with pytest.raises(AnswerError, match=r"there is no question 'wordd'.*word"):
        survey.put({"wordd": "knee"}, person="17")
    with pytest.raises(ParameterError, match=r"person: must be named.*one task of word"):
        survey.put({"word": "knee"})
    assert (survey.answered("17"), survey.reporter.waiting()) == (None, 0)


def test_a_toss_that_was_changed_is_an_error_and_no_reason_to_toss_again(world: World) -> None:
    survey = world.begin()
    survey.put({"word": "knee"}, person="17")
    with closing(sqlite3.connect(world.outbox)) as outbox:
        outbox.execute("UPDATE tosses SET number = ?", (TASKS,))
        outbox.commit()
    world.clock.advance(WEEK)
    with pytest.raises(ConfigurationError, match="nobody tosses twice"):
        world.begin().put({"word": "knee"}, person="17")


@pytest.mark.slow
def test_files_of_another_question_or_tasks_in_another_order_are_refused(
    made: Made, tmp_path: Path
) -> None:
    """Those who hand out files would gain: tasks of theirs, or people in places that add up."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    shutil.copytree(made[0], ours)
    write_survey_folder(theirs, SURVEY.replace("What hurts?", "Who hurts you?"))
    place, other = ours / "text" / "word", theirs / "text" / "word"
    names = ("text.json", "tasks.toml")
    description, tasks = [(place / name).read_text("utf-8") for name in names]
    its, its_tasks = [(other / name).read_text("utf-8") for name in names]
    first, second, *rest = tasks_from_toml(tasks)
    in_another_order = tasks_to_toml([second, first, *rest])
    (place / "text.json").write_text("\ufeff" + description, "utf-8")  # as some editors save it
    SurveyClient(ours / "task.json", outbox=tmp_path / "outbox.sqlite").close()
    (place / "text.json").unlink()
    (place / "text.json").symlink_to("/dev/zero")
    with pytest.raises(ParameterError, match="must not hold more than 67,108,864"):
        SurveyClient(ours / "task.json")
    (place / "text.json").unlink()
    for said, changed in {
        "word: task 1 of 64: was not made for this question": (its, tasks),
        "task 1 of 64: was not made for this question and this place": (
            description,
            in_another_order,
        ),
        "word: is another one than the survey's": (its, its_tasks),
    }.items():
        for name, text in zip(names, changed, strict=True):
            (place / name).write_text(text, "utf-8")
        with pytest.raises(ParameterError, match=said):
            SurveyClient(ours / "task.json")
    place.rename(ours / "text" / "more")
    with pytest.raises(ParameterError, match="more: the survey has no such question"):
        SurveyClient(ours / "task.json")
    assert not (ours / "outbox.sqlite").exists()


FAR = 2**32
"""A moment that no clock of a test has passed; `prio survey spell` asks for no past window."""

LETTERS = (
    SURVEY.replace("buckets = 16", "buckets = 32")
    .replace(f"tasks = {TASKS}", "tasks = 8")
    .replace("2026-11-02", "2106-01-25")
)

ASKED_NOW = LETTERS.replace("2106-01-25", "2026-11-02")


def write_spelling(made: Path, out: Path, *arguments: str) -> list[Task]:
    """Write what `prio survey spell` makes of the question; return the tasks."""
    question, _ = read_survey(made / "task.toml").texts["word"]
    prints = [fingerprint(each, question.meaning) for each in ("knee", "back")]
    found = [{"fingerprint": each, "names": [], "count": 9.5} for each in prints]
    words = out.with_suffix(".json")
    window = {"name": "word", "start": "2026-11-02T00:00:00+00:00", "found": found}
    words.write_text(json.dumps({"texts": [window]}))
    options = ["--found", str(words), "--alphabet", "abcdekn", "--out", str(out), *arguments]
    spelled = CliRunner().invoke(app, ["spell", str(made / "task.toml"), *options])
    if isinstance(spelled.exception, ParameterError):
        raise spelled.exception
    assert spelled.exit_code == 0, (spelled.output, spelled.exception)
    return tasks_from_toml((out / "tasks.toml").read_text("utf-8"))


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ("2107-01-24", "what was found in the last one cannot be spelled"),
        ("2106-01-24", "the question is not asked before 2106-01-25"),
    ],
)
def test_letters_are_asked_in_a_window_of_the_survey(
    tmp_path: Path, window: str, said: str
) -> None:
    made, out = tmp_path / "made", tmp_path / "spelled"
    write_survey_folder(made, LETTERS)
    write_spelling(made, out, "--window", "2107-01-23")
    with pytest.raises(ParameterError, match=said):
        write_spelling(made, tmp_path / "other", "--window", window)
    tasks = tasks_from_toml((out / "tasks.toml").read_text("utf-8"))
    elsewhere = [
        task_from_table(task_to_table(task) | {"interval": {"start": 0, "duration": 1}})
        for task in tasks
    ]
    (out / "tasks.toml").write_text(tasks_to_toml(elsewhere), "utf-8")
    with pytest.raises(ParameterError, match="a window in which the question is asked"):
        SurveyClient(made / "task.toml", spelled=[out])


@pytest.mark.slow
def test_in_a_window_of_letters_people_are_in_their_places_and_in_no_other_task(
    tmp_path: Path,
) -> None:
    made, folder = tmp_path / "made", tmp_path / "spelled"
    tasks = write_survey_folder(made, LETTERS)
    letters = write_spelling(made, folder, "--window", str(FAR))
    world = World(made, {**tasks, "letters": letters}, tmp_path / "outbox.sqlite")
    window, unit = tasks["word"][0].policy.window, letters[0].time_precision
    assert window is not None
    first = window.first_unit(FAR // unit) * unit
    people = [str(person) for person in range(20)]
    for moment in (first - 1, first, first + WEEK - 1, first + WEEK):
        world.clock.advance(moment - world.clock.now())
        survey, unaware = world.begin(folder), world.begin()
        for person in people:
            with suppress(AlreadyAnswered):
                survey.put({"word": "knee"}, person=person)
            # Nor is who does not know of the letters in a second task.
            with pytest.raises(AlreadyAnswered):
                unaware.put({"word": "knee"}, person=person)
        survey.reporter.flush(now=True)
        assert survey.answered("7", question="word") == Outcome(State.COUNTED)
    stored = world.stored()
    world.close()
    in_places = {
        name: [stored[name][each.task_id.value] for each in of_name]
        for name, of_name in {"word": tasks["word"], "letters": letters}.items()
    }
    assert sum(in_places["letters"]) == 20
    assert in_places["word"] == [2 * count for count in in_places["letters"]]
    assert len(set(in_places["letters"])) > 1
    assert [question for *_, question in world.settled].count("word") == 60


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        ("window", {"privacy": {"window": 1, "window_start": 0}}),
        ("max_reports_per_person", {"privacy": {"max_reports_per_person": 2}}),
        ("min_batch_size", {"min_batch_size": 2}),
        ("helper", {"helper": LEADER_URL}),
        ("interval: its tasks must", {"interval": {"start": 100 * WEEK // 3600, "duration": 168}}),
        ("interval: its tasks must", {"interval": None}),
    ],
)
def test_letters_that_do_not_fit_their_question_are_refused(
    said: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    """Others would get several reports of a person in one of its windows."""
    made, folder = tmp_path / "made", tmp_path / "spelled"
    write_survey_folder(made, LETTERS)
    changed = []
    for task in write_spelling(made, folder, "--window", str(FAR)):
        table: dict[str, Any] = task_to_table(task)
        merged = {**table, **changes, "privacy": table["privacy"] | changes.get("privacy", {})}
        changed.append({name: each for name, each in merged.items() if each is not None})
    tasks = [task_from_table(each) for each in changed]
    (folder / "tasks.toml").write_text(tasks_to_toml(tasks), "utf-8")
    with pytest.raises(ParameterError, match=f"spelled: {said}"):
        SurveyClient(made / "task.json", spelled=[folder])
    assert not (made / "outbox.sqlite").exists()


def test_the_page_of_a_survey_has_the_letters_that_are_given_to_it(tmp_path: Path) -> None:
    made, folder = tmp_path / "made", tmp_path / "spelled"
    write_survey_folder(made, LETTERS)
    write_spelling(made, folder, "--window", str(FAR))
    page = run_here("survey", "form", made / "task.toml", "--spelled", folder)
    assert page.returncode == 0, page.stderr
    assert '"spelled":[{"description":' in page.stdout
    assert re.search(
        r"From \W?21\d\d-.* UTC\W? to \W?21\d\d-.* UTC\W? this page asks for", page.stdout
    )
    missing = run_here("survey", "form", made / "task.toml", "--spelled", tmp_path / "none")
    assert missing.returncode == 2
    assert "Traceback" not in missing.stderr


def test_letters_of_another_question_or_of_one_window_twice_are_refused(
    made: Made, tmp_path: Path
) -> None:
    ours, folders = tmp_path / "made", [tmp_path / name for name in ("one", "two")]
    write_survey_folder(ours, LETTERS)
    for folder in folders:
        write_spelling(ours, folder, "--window", str(FAR))
    with pytest.raises(ParameterError, match="two: has a window of which another folder is, too"):
        SurveyClient(ours / "task.json", spelled=folders)
    with pytest.raises(ParameterError, match="one: is a spelling of no text question of this"):
        SurveyClient(made[0] / "task.json", spelled=folders)


async def test_the_same_can_be_awaited(world: World) -> None:
    survey = world.begin()
    assert await survey.aput({"word": "knee"}, person="17")
    assert (await survey.reporter.aflush()).counted == 2


def test_a_bare_install_is_enough(world: World) -> None:
    missing = ("numba", "polars", "scipy", "httpx", "sqlalchemy", "pydantic")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
        "from aggregator.client import SurveyClient\n"
        "survey = SurveyClient(*sys.argv[1:])\n"
        "survey.put({'word': 'knee'}, person='17')\n"
        "print(survey.answered('17', question='word').state)\n"
    )
    done = subprocess.run(  # noqa: S603  an interpreter of ours
        [sys.executable, "-c", code, str(world.made / "task.json"), str(world.outbox)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("waiting", "")
