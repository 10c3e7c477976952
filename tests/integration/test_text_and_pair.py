"""What people write, through two aggregators: words in releases, and letters that name more."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aggregator.cli.steward import survey_spell
from aggregator.cli.steward.survey_words import Looked, TextWindow, text_windows
from aggregator.client.survey.asked_survey import AskedSurvey, read_survey
from aggregator.client.survey.texts import spelled_of
from aggregator.client.text.strings import fingerprint
from aggregator.client.text.toss import Toss
from aggregator.collector import Collected
from aggregator.collector.documents import result_document
from aggregator.collector.guarantee import conditions
from aggregator.dap.ids import TaskId
from aggregator.dap.profile import Role
from aggregator.protocol.groups import cost_of_a_person
from aggregator.protocol.provisioning import read_provisions
from aggregator.protocol.task import Task
from aggregator.service.storage.ledger.charges import costs_in
from aggregator.steward.survey import Meaning
from tests.support.commands import run_here
from tests.support.entropy import SeededEntropy
from tests.support.pair import NOW, Pair
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import IN_2023, department

HELD = {"Äpfel": 110, "pear": 70, "": 30, "fig": 50} | {f"rare {number}": 1 for number in range(40)}
"""By the question's own keys no two of the three frequent ones share a bucket."""
WORDS = ["pear", "fig", "äpfel", "plum", "quince", *(f"nobody's {number}" for number in range(200))]
PEOPLE = [answer for answer, count in HELD.items() for _ in range(count)]
HOURLY = IN_2023.replace('"week"', '"hour"').replace("= 3\n", "= 48\n")
FRUIT = (
    '[[question]]\nname = "word"\nkind = "text"\ntext = "A fruit?"\nepsilon = "4"\nbuckets = 128\n'
    "tasks = 8\n"
)
ALONE = HOURLY.replace('epsilon = "1"', 'epsilon = "4"') + FRUIT
AMOUNT = 'amount = { text = "How much?", low = 0, high = 20, unit = "euros" }\n'
WITH_AMOUNT = ALONE + AMOUNT
BOTH = HOURLY.replace('epsilon = "1"', 'epsilon = "5"') + FRUIT + department()
BY_CHOICE = BOTH.replace("tasks = 8\n", 'tasks = 8\nby = "department"\n')

Results = dict[TaskId, list[Collected]]


class Held:
    """A survey whose parties hold its tasks, and the places in which people have tossed to be."""

    def __init__(self, folder: Path, survey: str) -> None:
        write_survey_folder(folder / "made", survey)
        (self.file,) = (
            each
            for each in (folder / "made" / "survey.json", folder / "made" / "task.toml")
            if each.exists()
        )
        self.survey: AskedSurvey = read_survey(self.file)
        self.question, self.tasks = self.survey.texts["word"]
        entropy = SeededEntropy(b"people")
        self.places = [Toss.of(self.question.hashes, entropy).number for _ in PEOPLE]
        self.pair = Pair(folder, self.tasks[0])
        self.results: Results = {}

    async def provision(self, tasks: Sequence[Task]) -> None:
        for self.pair.task in tasks:
            await self.pair.provision()

    async def send(
        self, tasks: Sequence[Task], bucket: Callable[[int, str], int], answers: Sequence[str]
    ) -> None:
        """Send everybody's report of the pair's time, each to the task that they are in."""
        now = self.pair.clock.now()
        for place, self.pair.task in enumerate(tasks):
            own = [
                bucket(place, each)
                for each, of in zip(answers, self.places, strict=True)
                if of == place
            ]
            assert not (await self.pair.upload(await self.pair.reports(own, now))).status

    async def collect(self, tasks: Sequence[Task], seconds: int) -> None:
        """Collect the hour of a time."""
        start = seconds // 3600 * 3600
        for self.pair.task in tasks:
            interval = self.pair.interval(start, 3600 // self.pair.task.time_precision)
            result = result_document(self.pair.task, await self.pair.collect(interval))
            document = {
                "state": "finished",
                "task_id": str(self.pair.task.task_id),
                "result": result,
            }
            moments = [datetime.fromtimestamp(each, UTC) for each in (start, start + 3600)]
            of_task = self.results.setdefault(self.pair.task.task_id, [])
            of_task.append(Collected(self.pair.task, moments[0], moments[1], document))

    def windows(self, *spelled: Path) -> list[TextWindow]:
        letters = spelled_of(self.survey.texts, spelled)
        windows = Meaning.from_json(self.survey.meaning).windows
        return text_windows(
            self.survey, letters, windows, lambda task: self.results.get(task.task_id, [])
        )


def found_in(window: TextWindow, candidates: Sequence[str]) -> Mapping[str, object]:
    return window.shown(Looked(candidates))[1]


def named(document: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    found = document["found"]
    assert isinstance(found, list)
    return {name: each for each in found for name in each["names"]}


async def test_words_that_nobody_listed_are_found_in_a_survey_that_asks_nothing_else(
    tmp_path: Path,
) -> None:
    asked = Held(tmp_path, ALONE)
    pair = asked.pair
    try:
        await asked.provision(asked.tasks)
        await asked.send(asked.tasks, asked.question.hashes.bucket, PEOPLE)
        pair.clock.advance(3600)
        await asked.collect(asked.tasks, NOW)
        await asked.send(asked.tasks, asked.question.hashes.bucket, ["another word"] * len(PEOPLE))
        pair.clock.advance(3600)
        await asked.collect(asked.tasks, NOW + 3600)
    finally:
        await pair.close()
    first, second = asked.windows()
    assert first.people == second.people == len(PEOPLE) == 300
    check_first(found_in(first, WORDS))
    # What was named beforehand is shown whatever its count, and is in no other list.
    shown = first.shown(Looked(("pear",), ("fig", "quince")))[1]
    assert not named(shown).keys() & {"fig", "quince"}
    for name, held in {"fig": 50, "quince": 0}.items():
        each = named({"found": shown["shown"]})[name]
        assert each["threshold"] is None
        assert each["low"] <= each["high"]
        assert abs(each["count"] - held) < 6 * each["deviation"]
    assert not HELD.keys() & named(found_in(second, WORDS)).keys()
    # Another list finds in the same releases what nobody had thought of before.
    found = named(found_in(second, ["another word", *WORDS]))["another word"]
    assert abs(found["count"] - 300) < 5 * found["deviation"]
    asked.results[asked.tasks[0].task_id].pop()
    assert [each.is_whole for each in asked.windows()] == [True, False]


def check_first(document: Mapping[str, object]) -> None:
    """Look at what the first window says; bounds are so wide that a million tests pass."""
    found = named(document)
    assert len(found) <= 4  # with one that nobody wrote, of which a hundredth is expected
    for name, held in {"äpfel": 110, "pear": 70, "fig": 50}.items():
        each = found[name]
        assert each["low"] < each["count"] < each["high"]
        assert abs(each["count"] - held) < 6 * each["deviation"]
    assert document["candidates"] == len(WORDS)
    assert 0 < float(str(document["expected_false"])) < 1
    assert abs(float(str(document["no_answer"])) - 30) < 20
    assert abs(float(str(document["unexplained"])) - 40) < 180


async def test_means_of_the_numbers_beside_words_are_known_and_half_an_answer_is_none(
    tmp_path: Path,
) -> None:
    asked, entropy = Held(tmp_path, WITH_AMOUNT), SeededEntropy(b"coins")
    given = {"Äpfel": 5, "pear": 20, "fig": 0}
    amount = asked.question.amount
    assert amount is not None

    def entry(place: int, answer: str) -> int:
        written = (answer, amount.grid.place(given.get(answer, 10)))
        # Who writes a rare string gives no number.
        return asked.question.measurement(place, answer if "rare" in answer else written, entropy)

    try:
        await asked.provision(asked.tasks)
        await asked.send(asked.tasks, entry, PEOPLE)
        asked.pair.clock.advance(3600)
        await asked.collect(asked.tasks, NOW)
    finally:
        await asked.pair.close()
    (window,) = asked.windows()
    lines, document = window.shown(Looked(WORDS, show=["Äpfel", "quince"]))
    found = named(document)
    for name, mean in {"pear": 20, "fig": 0}.items():
        told = found[name]["amount"]
        assert isinstance(told, dict)
        # Four times the half width: six standard deviations and more.
        assert abs(told["mean"] - mean) < 4 * max(told["high"] - mean, mean - told["low"])
        assert 0 <= told["low"] <= told["mean"] <= told["high"] <= 20
        assert told["sum_low"] < told["sum"] < told["sum_high"]
    shown = named({"found": document["shown"]})
    assert isinstance(shown["quince"]["amount"], dict)
    assert any(line.startswith("  äpfel: ") and "euros each (" in line for line in lines), lines
    # With 40 who wrote half an answer, 70 gave none.
    assert abs(float(str(document["no_answer"])) - 70) < 20


async def test_words_are_counted_by_what_people_chose_and_a_word_alone_is_no_answer(
    tmp_path: Path,
) -> None:
    asked, entropy = Held(tmp_path, BY_CHOICE), SeededEntropy(b"nothing")
    chosen = {"Äpfel": 1, "pear": 0, "fig": 0}

    def entry(place: int, answer: str) -> int:
        # Who writes a rare string is of no department.
        written = answer if "rare" in answer else (answer, chosen.get(answer, 0))
        return asked.question.measurement(place, written, entropy)

    try:
        await asked.provision(asked.tasks)
        await asked.send(asked.tasks, entry, PEOPLE)
        asked.pair.clock.advance(3600)
        await asked.collect(asked.tasks, NOW)
    finally:
        await asked.pair.close()
    (window,) = asked.windows()
    lines, document = window.shown(Looked(WORDS, show=["Äpfel", "quince"]))
    shown = named(document) | named({"found": document["shown"]})
    for name, truths in {"pear": (70, 0), "äpfel": (0, 110), "quince": (0, 0)}.items():
        for cell, label, truth in zip(
            shown[name]["by"], ("surgery", "medicine"), truths, strict=True
        ):
            assert cell["label"] == label
            assert 0 <= cell["low"] <= cell["high"]
            assert abs(cell["count"] - truth) < 6 * shown[name]["deviation"]
            assert 0 <= cell["share_low"] <= cell["share_high"] <= 1
    place = next(place for place, line in enumerate(lines) if line.startswith("  äpfel: "))
    assert lines[place + 1].startswith("    surgery: ")
    assert lines[place + 2].startswith("    medicine: 1")
    # With 40 who wrote and did not choose, 70 gave no answer.
    assert abs(float(str(document["no_answer"])) - 70) < 20


async def test_what_no_list_has_is_spelled_in_the_next_window_in_peoples_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Held(tmp_path, ALONE)
    monkeypatch.setattr(survey_spell, "SystemClock", lambda: asked.pair.clock)
    pair, question, later = asked.pair, asked.question, NOW + 3600
    # As all fingerprints of a window before have told, of which a list has one.
    prints = {fingerprint(each, question.meaning): each for each in ("pear", "äpfel", "fig")}
    words, folder = tmp_path / "words.json", tmp_path / "spelled"
    found = [
        {"fingerprint": each, "names": ["fig"] if name == "fig" else [], "count": 9.5}
        for each, name in prints.items()
    ]
    words.write_text(
        json.dumps({"texts": [{"name": "word", "start": "2026-11-02T00:00+00:00", "found": found}]})
    )
    done = run_here(
        *("survey", "spell", asked.file, "--found", words, "--out", folder, "--window", str(later)),
        *("--alphabet", "äabcdefghijklmnopqrstuvwxyz"),
    )
    assert done.returncode == 0, done.stderr
    (window,) = spelled_of(asked.survey.texts, [folder])["word"]
    assert [each.policy.group for each in window.tasks] == [
        each.policy.group for each in asked.tasks
    ]
    try:
        await asked.provision([*asked.tasks, *window.tasks])
        await asked.send(asked.tasks, question.hashes.bucket, PEOPLE)
        pair.clock.advance(3600)
        await asked.collect(asked.tasks, NOW)
        await asked.send(window.tasks, window.spelling.measurement, PEOPLE)
        pair.clock.advance(3600)
        await asked.collect(window.tasks, later)
    finally:
        await pair.close()
    _, letters = asked.windows(folder)
    assert letters.people == 300
    lines, document = letters.shown(Looked())
    spelled = document["spelled"]
    assert isinstance(spelled, list)
    told = {each["fingerprint"]: each["name"] for each in spelled}
    assert told == {each: name for each, name in prints.items() if name != "fig"}
    assert "2 of 2 named" in lines[-1]


@pytest.mark.parametrize("survey", [ALONE, BOTH])
def test_a_party_takes_part_in_all_tasks_by_one_file(tmp_path: Path, survey: str) -> None:
    write_survey_folder(tmp_path / "made", survey)
    public = tmp_path / "made" / ("survey.json" if survey == ALONE else "task.toml")
    for role in (Role.LEADER, Role.HELPER, Role.COLLECTOR):
        text = (tmp_path / "made" / f"{role.name.lower()}.toml").read_text("utf-8")
        assert [each.task for each in read_provisions(text, role)] == read_survey(public).tasks


async def test_a_person_pays_for_one_task_of_the_group_whatever_is_released(
    tmp_path: Path,
) -> None:
    asked = Held(tmp_path, BOTH)
    pair = asked.pair
    try:
        await asked.provision(asked.tasks)
        await asked.send(asked.tasks, asked.question.hashes.bucket, PEOPLE)
        pair.clock.advance(3600)
        await asked.collect(asked.tasks, NOW)
        for party in (pair.leader, pair.helper):
            spent = await party.database.read(
                "spent", lambda tx: cost_of_a_person(costs_in(tx, "patients"))
            )
            assert spent.epsilon == asked.question.epsilon == 4  # of eight releases
    finally:
        await pair.close()
    (result, *_) = asked.results[asked.tasks[-1].task_id]
    said = dict(conditions(result.result))["Who keeps a person in one of several tasks"]
    assert "the person's client sees to that, and no aggregator can check it" in said
