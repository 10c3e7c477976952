"""`prio survey collect` and `results`: text questions are collected once, and shown with words."""

import functools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from aggregator.cli.steward.survey_words import text_windows
from aggregator.client.survey.asked_survey import AskedSurvey, read_survey
from aggregator.client.text.strings import fingerprint
from aggregator.collector import Collected, store
from aggregator.collector.driver import Driver
from aggregator.dap.ids import encode_base64url
from aggregator.protocol.permit_lists import listed, write_lists
from aggregator.protocol.task import Task
from aggregator.steward.survey import Meaning
from aggregator.steward.survey.invitations import Invitations
from aggregator.steward.text.last_window import last_windows
from tests.support.collector_world import MONDAY, WEEK, CollectorWorld
from tests.support.commands import Done, run_here
from tests.support.entropy import SeededEntropy
from tests.support.ports import free_ports
from tests.support.survey_folders import write_survey_folder
from tests.support.surveys import VISITS, department
from tests.support.text import Fingerprints, released, some_prints
from tests.support.texts import WORD

TASKS = 8
START = MONDAY - 300 * WEEK
"""Of a window that is over, whatever the clock says."""
WINDOW = ("--window", START.isoformat())
VALUES = [600] + [number % 5 - 2 for number in range(31)]
"""Nobody answered; the rest is noise."""
DRINK = WORD.replace("= 16", "= 32").replace('"word"', '"drink"').replace("What hurts?", "A drink?")
ASKED = VISITS.replace("2026-11-02", f"{START:%Y-%m-%d}").replace("= 52", "= 5200")
ALONE = ASKED + DRINK.replace('"1/4"', '"1"')
BOTH = ASKED + DRINK + department()


class Asked:
    """A survey in a folder, and its collector, whose leader is away."""

    def __init__(self, folder: Path, survey: str = ALONE, lists: Path | None = None) -> None:
        (port,) = free_ports(1)
        self.folder, made = folder, folder / "made"
        tasks = write_survey_folder(made, survey, leader=f"http://127.0.0.1:{port}/")
        self.file = made / ("survey.json" if not tasks[""] else "task.toml")
        self.survey: AskedSurvey = read_survey(self.file)
        self.tasks = tasks["drink"]
        self.config = folder / "service.toml"
        more = "" if lists is None else f'service.word_lists = "{lists}"\n'
        self.config.write_text(
            f'service.role = "collector"\nservice.database = "collector.sqlite"\n{more}'
            f'keys.store_key = "{encode_base64url(bytes(32))}"\n'
        )
        self.config.chmod(0o600)

    def begin(self) -> None:
        CollectorWorld(self.folder, *self.survey.tasks).database.close()

    def finish(self, *tasks: Task, values: Sequence[int] = VALUES, weeks: int = 0) -> None:
        world = CollectorWorld(self.folder)
        for task in tasks:
            world.finish(task, START + weeks * WEEK, list(values), WEEK)
        world.database.close()

    def release(self, held: Mapping[str, int], weeks: int = 0) -> None:
        """Collect a window in which this many people held some strings."""
        question, tasks = self.survey.texts["drink"]
        prints = np.array([fingerprint(each, question.meaning) for each in held], np.uint32)
        rng = np.random.default_rng(3 + weeks)
        tables = released(question.hashes, prints, np.array([*held.values()]), 1, rng)
        for task, row in zip(tasks, tables.tolist(), strict=True):
            self.finish(task, values=row, weeks=weeks)

    def collections(self) -> list[bytes]:
        world = CollectorWorld(self.folder)
        found = world.database.read_sync("list", store.list_collections)
        world.database.close()
        return sorted(each.collection_id for each in found)

    def collect(self, *arguments: str) -> Done:
        where = ("--config", self.config, "--wait", "0")
        return run_here("survey", "collect", self.file, *where, *arguments)

    def results(self, *arguments: str | Path) -> Done:
        return run_here("survey", "results", self.file, "--config", self.config, *arguments)


def test_what_is_missing_is_asked_for_once_and_what_is_there_is_found_again(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    asked.begin()
    asked.finish(*asked.tasks[:7])
    for _ in range(2):
        done = asked.collect(*WINDOW)
        assert done.returncode == 3
        assert "of Visits, drink: the batch was not ready" in done.stderr
        assert "7 of 8 tasks are collected, and all are needed" in done.stdout
    before = asked.collections()
    assert len(before) == TASKS
    asked.finish(asked.tasks[7])
    # The leader is away: nothing is asked of it any more.
    done = asked.collect(*WINDOW)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "drink, 2021-02-01 to 2021-02-07: 4,800 people took part\n"
    assert asked.collections() == before
    words = tmp_path / "words.txt"
    words.write_text("tea\n")
    shown = asked.results("--words", words, "--json")
    (document,) = json.loads(shown.stdout)["texts"]
    assert (document["people"], document["found"]) == (4800, [])
    assert document["no_answer"] == pytest.approx(4800, abs=20)


def test_a_leader_that_is_down_is_named_at_once_and_each_reason_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(tmp_path)
    asked.begin()
    visits: Counter[bytes] = Counter()

    async def ask(self: Driver, collection_id: bytes) -> float | None:
        """The leader is away twice, and then refuses."""
        visits[collection_id] += 1
        stored = await self._database.read(
            "get", lambda tx: store.get_collection(tx, collection_id)
        )
        assert stored is not None
        if visits[collection_id] < 3:
            await self._note(stored, "the leader does not answer: connection refused")
            return 0.0
        await self._fail(stored, {"title": "no"})
        return None

    monkeypatch.setattr(Driver, "ask", ask)
    done = run_here(
        *("survey", "collect", asked.file, "--config", asked.config, "--wait", "300", *WINDOW)
    )
    assert done.returncode == 3
    away = "prio: the leader does not answer: connection refused; asking again for 5 minutes, or"
    assert done.stderr.count(away) == 1
    assert done.stderr.index(away) < done.stderr.index("drink: no")


def test_a_collection_of_no_window_is_none_of_the_survey(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    windows = Meaning.from_json(asked.survey.meaning).windows

    def results_of(task: Task) -> list[Collected]:
        return [Collected(task, START, START + weeks * WEEK, {}) for weeks in (1, 2)]

    (found,) = text_windows(asked.survey, {}, windows, results_of)
    assert found.is_whole
    assert {each.end for each in found.collected} == {START + WEEK}


@pytest.mark.slow
def test_a_survey_with_other_questions_shows_their_figures_and_then_the_words(
    tmp_path: Path,
) -> None:
    asked = Asked(tmp_path, BOTH)
    asked.begin()
    assert asked.survey.task is not None
    for weeks in (0, 1):
        asked.finish(asked.survey.task, values=[400, 200, 0], weeks=weeks)
        asked.release({"tea": 4000, "kvass": 2000}, weeks)
    words = tmp_path / "words.txt"
    words.write_text("tea\nwater\n")
    shown = asked.results("--words", words)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.index("surgery") < shown.stdout.index("drink, 2021-02-01")
    assert shown.stdout.count("  tea: ") == 2
    one = asked.results("--words", words, "--window", "2021-02-09", "--json")
    document = json.loads(one.stdout)
    assert {row["window"] for row in document["rows"]} == {"2021-02-08 to 2021-02-14"}
    assert [each["start"] for each in document["texts"]] == ["2021-02-08T00:00:00+00:00"]
    only = asked.results("--words", words, "--question", "drink", "--json")
    assert [len(json.loads(only.stdout)[name]) for name in ("rows", "texts")] == [0, 2]
    only = asked.results("--words", words, "--question", "department", "--json")
    assert len(json.loads(only.stdout)["rows"]) > 0
    assert json.loads(only.stdout)["texts"] == []


def test_what_is_in_no_list_is_counted_by_its_fingerprint_in_the_latest_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(tmp_path)
    asked.begin()
    for weeks, held in enumerate([{"water": 4000}, {"tea": 4000, "kvass": 2000}]):
        asked.release(held, weeks)
    words = tmp_path / "words.txt"
    words.write_text("tea\nwater\n")
    meaning = asked.survey.texts["drink"][0].meaning
    prints = np.array([fingerprint(each, meaning) for each in ("tea", "kvass")], np.uint32)
    monkeypatch.setattr(
        "aggregator.steward.text.candidates.Enumerated", functools.partial(Fingerprints, prints)
    )
    lines = asked.results("--words", words, "--all").stdout.splitlines()
    assert lines[0].startswith("drink, 2021-02-08 to 2021-02-14: ")
    assert lines[1].startswith("  tea: ")
    assert lines[2].startswith(f"  in no list (fingerprint {prints[1]:08x}): ")
    assert "2021-02-01" not in "".join(lines)
    by_list = asked.results("--words", words).stdout
    assert "no list" not in by_list
    assert by_list.count("people took part") == 2


def test_what_a_list_has_and_what_it_has_not_are_told_apart_with_a_threshold_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was named before looking is shown, with the count that it has by itself."""
    asked = Asked(tmp_path)
    asked.begin()
    asked.release({"tea": 4000, "kvass": 2000, "water": 150})
    words, show = tmp_path / "words.txt", tmp_path / "show.txt"
    words.write_text("tea\ncoffee\n")
    show.write_text("water\nmilk\n")
    meaning = asked.survey.texts["drink"][0].meaning
    held = np.array([fingerprint(each, meaning) for each in ("tea", "kvass")], np.uint32)
    prints = np.concatenate([held, some_prints(5000, np.random.default_rng(1))])
    monkeypatch.setattr(
        "aggregator.steward.text.candidates.Enumerated", functools.partial(Fingerprints, prints)
    )
    arguments = ("--words", words, "--all", "--show", show)
    lines = asked.results(*arguments).stdout.splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:3]] == [
        "tea",
        f"in no list (fingerprint {held[1]:08x})",
    ]
    assert re.fullmatch(r"1 found of 2 listed candidates \(threshold \d+\), of which .*", lines[3])
    assert re.fullmatch(r"1 found of 5,000 other candidates \(threshold \d+\), .*", lines[4])
    assert [line.split(":")[0].strip() for line in lines[5:8]] == [
        "shown whatever their count",
        "water",
        "milk",
    ]
    (document,) = json.loads(asked.results(*arguments, "--json").stdout)["texts"]
    listed, thresholds = document["listed"], [each["threshold"] for each in document["found"]]
    assert thresholds == [listed["threshold"], document["threshold"]]
    assert listed["threshold"] < 0.8 * document["threshold"]
    assert listed["candidates"] == 2
    assert 0 < listed["expected_false"] < document["expected_false"] < 0.2
    water, milk = document["shown"]
    assert (water["names"], water["threshold"]) == (["water"], None)
    assert water["low"] <= 150 <= water["high"]
    assert milk["low"] == 0 < milk["high"]
    # Without any list these are shown all the same; and in a list alone there is one kind.
    lines = asked.results("--show", show).stdout.splitlines()
    assert lines[-4] == "shown whatever their count:"
    (document,) = json.loads(asked.results("--words", words, "--json").stdout)["texts"]
    assert "listed" not in document
    assert "shown" not in document
    # A plan for the next window knows these people, too.
    last = asked.results(*arguments, "--json").stdout
    assert last_windows(last, ["drink"])["drink"].answered == pytest.approx(6150, abs=400)


def test_what_is_printed_of_a_string_that_nobody_wrote_lies_in_its_interval(tmp_path: Path) -> None:
    asked, show = Asked(tmp_path), tmp_path / "show.txt"
    asked.begin()
    asked.release({"tea": 4000})
    show.write_text("\n".join(f"nobody {each}" for each in range(20)))
    lines = asked.results("--show", show).stdout.splitlines()
    (document,) = json.loads(asked.results("--show", show, "--json").stdout)["texts"]
    below = [each["names"][0] for each in document["shown"] if each["count"] < 0]
    assert below
    for name in below:
        (line,) = (each for each in lines if each.startswith(f"  {name}: "))
        assert line.startswith(f"  {name}: 0 (0 to ")


def test_without_a_list_the_collectors_own_are_tried_or_nothing_is_named(tmp_path: Path) -> None:
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "drinks.txt").write_text("tea\n")
    for number, folder in enumerate([None, lists]):
        place = tmp_path / str(number)
        place.mkdir()
        asked = Asked(place, lists=folder)
        asked.begin()
        asked.release({"tea": 4000})
        shown = asked.results().stdout
        assert "people took part" in shown
        assert ("  tea: " in shown) == (folder is not None)
        assert ("name strings with --words" in shown) == (folder is None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "window: give either --last or --window"),
        (("--window", "now"), "is not over: "),
        (("--window", "now"), "; --now collects it now and refuses every later answer of it"),
        (("--last", "day"), "last: must be a whole number of the survey's windows"),
        (WINDOW, "this collector lacks 8 of the survey's 8 tasks, such as "),
    ],
)
def test_what_names_no_window_is_refused_and_nothing_is_asked(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    asked = Asked(tmp_path)
    CollectorWorld(tmp_path).database.close()
    done = asked.collect(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert asked.collections() == []


def test_of_a_survey_in_its_first_window_it_is_said_that_this_is_not_over(tmp_path: Path) -> None:
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    survey = VISITS.replace("2026-11-02", today).replace('"week"', '"100 weeks"') + DRINK
    asked = Asked(tmp_path, survey.replace("= 52", "= 2").replace('"1/4"', '"1"'))
    asked.begin()
    done = asked.collect("--last", "100 weeks")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"window: the survey's first, {today} to " in done.stderr
    assert "is not over; wait, or collect it with --window now --now" in done.stderr


def test_with_now_the_window_of_now_is_asked_for_by_both_commands(tmp_path: Path) -> None:
    for number, name in enumerate(["collect", "results"]):
        place = tmp_path / str(number)
        place.mkdir()
        asked = Asked(place)
        asked.begin()
        world = CollectorWorld(place)
        units = asked.tasks[0].policy.window
        assert units is not None
        unit = asked.tasks[0].time_precision
        first = units.first_unit(int(datetime.now(UTC).timestamp()) // unit) * unit
        for task in asked.tasks:
            world.finish(task, datetime.fromtimestamp(first, UTC), VALUES, WEEK)
        world.database.close()
        done = asked.collect("--now") if name == "collect" else asked.results("--now")
        assert (done.returncode, done.stderr) == (0, "")
        assert "4,800 people took part" in done.stdout
        assert len(asked.collections()) == TASKS


@pytest.mark.parametrize(
    ("survey", "arguments", "message"),
    [
        (VISITS + department(), ("--all",), "all: the survey has no text question"),
        (VISITS + department(), ("--show", "x"), "show: the survey has no text question"),
        (BOTH, ("--question", "drinks"), "question: the survey has no question 'drinks'"),
        (BOTH, ("--question", "drink", "--changes"), "changes: drink is a text question"),
        (ALONE, ("--window", "soon"), "window: must be ISO 8601"),
    ],
)
def test_results_of_what_the_survey_does_not_have_are_refused(
    tmp_path: Path, survey: str, arguments: tuple[str, ...], message: str
) -> None:
    own = write_survey_folder(tmp_path / "made", survey)[""]
    file = tmp_path / "made" / ("task.toml" if own else "survey.json")
    done = run_here("survey", "results", file, *arguments)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize("when", [("--window", "2020-01-01"), ("--window", "2131-01-01", "--now")])
def test_a_window_in_which_nobody_was_asked_is_refused(tmp_path: Path, when: Sequence[str]) -> None:
    asked = Asked(tmp_path)
    asked.begin()
    done = asked.collect(*when)
    assert done.returncode == 2
    assert "but from 2021-02-01 to 2120-09-29" in done.stderr
    assert not asked.collections()


def test_of_the_last_weeks_those_before_the_survey_are_left_out(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    began = now - timedelta(days=now.weekday()) - 2 * WEEK
    asked = Asked(tmp_path, ALONE.replace(f"{START:%Y-%m-%d}", f"{began:%Y-%m-%d}"))
    asked.begin()
    assert asked.collect("--last", "9 weeks").returncode == 3
    assert len(asked.collections()) == 2 * TASKS


def test_results_say_how_many_of_how_many_who_were_invited(tmp_path: Path) -> None:
    asked = Asked(tmp_path, BOTH.replace("[budget]", 'answers = "by invitation"\n[budget]'))
    task = asked.survey.task
    assert task is not None
    assert task.permits is not None
    asked.begin()
    asked.finish(task, values=[400, 200, 0])
    first = task.permit_window_at(task.time(int(START.timestamp())))
    made = Invitations.fresh("https://hospital.example", SeededEntropy(1))
    lists = []
    for place, people in enumerate((700, 900)):  # of late additions, too
        made = made.of([task], [(first, first + 1)] * (people - len(made.windows)))
        lists.append(tmp_path / f"{place}.list")
        lists[-1].write_bytes(write_lists(made.lists([task])))
    files = [part for each in lists for part in ("--invited", each)]
    done = run_here("survey", "results", asked.file, "--config", asked.config, *files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(" of 900 invited")
    done = run_here("survey", "results", asked.file, "--config", asked.config, *files, "--json")
    (window,) = json.loads(done.stdout)["invited"]
    assert (window["window"], window["invited"]) == (START.isoformat(), 900)
    other = tmp_path / "other.list"
    other.write_bytes(write_lists([listed(bytes(32), {first: []})]))
    for file, said in (
        (other, "the list is of another survey"),
        (asked.file, "this is not a list"),
    ):
        done = run_here(
            "survey", "results", asked.file, "--config", asked.config, "--invited", file
        )
        assert said in done.stderr


@pytest.mark.parametrize("survey", [ALONE, BOTH])
def test_results_of_which_there_are_none_say_what_is_next(tmp_path: Path, survey: str) -> None:
    asked = Asked(tmp_path, survey)
    asked.begin()
    for more, which in (((), "no window is"), (WINDOW, "this window is not")):
        done = asked.results(*more)
        said = f"prio: {which} collected yet: `prio survey collect` does\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, "", said)
